//! How much a caller reads of its socket before it judges a deadline (docs/behavior.md, "Receiving").
//!
//! An answer that the kernel held in time counts, however late the caller is. So the caller reads its socket before the
//! first expired deadline of an iteration is judged. A read has a budget, and what is left waits for the next iteration:
//! deadlines then wait too. They wait until the socket was empty once, or until as many datagrams were taken as the
//! kernel's queue can hold. All that was in the queue when the deadline came has been read by then, so a flood of junk
//! cannot hold a deadline back any longer. Pure bookkeeping; it reads nothing and knows no time.

/// Most datagrams in one batch, which one system call takes.
pub const BATCH: usize = 64;
/// What one read may take, datagrams: at least so many and at most so many, and in between twice the admissions in
/// flight.
const BUDGET: (usize, usize) = (1_024, 4_096);

/// Most datagrams that one read may take in, while so many admissions are in flight.
pub fn budget(in_flight: usize) -> usize {
    in_flight.saturating_mul(2).clamp(BUDGET.0, BUDGET.1)
}

/// What is known of the kernel's queue.
#[derive(Clone, Copy, Debug)]
pub struct Backlog {
    /// Most datagrams that the kernel's queue can hold.
    capacity: u64,
    /// Datagrams taken so far.
    taken: u64,
    /// Whether the last read found the queue empty.
    empty: bool,
}

/// Whether a deadline was put off, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOff(Option<u64>);

impl Backlog {
    /// Of a socket for which the kernel holds at most so many datagrams.
    pub const fn new(capacity: u64) -> Backlog {
        Backlog { capacity, taken: 0, empty: true }
    }

    /// A read took so many datagrams, and found the queue empty or stopped before that.
    pub fn note_read(&mut self, taken: usize, empty: bool) {
        self.taken += taken as u64;
        self.empty = empty;
    }

    /// Whether a deadline that has expired may be judged after the last read; otherwise ask again after the next one.
    pub fn may_judge(&self, put_off: &mut PutOff) -> bool {
        let since = *put_off.0.get_or_insert(self.taken);
        let may = self.empty || self.taken - since >= self.capacity;
        if may {
            *put_off = PutOff::default();
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_follows_the_admissions_in_flight_between_its_bounds() {
        let expected = [(0, 1_024), (512, 1_024), (513, 1_026), (2_048, 4_096), (usize::MAX, 4_096)];
        for (in_flight, datagrams) in expected {
            assert_eq!(budget(in_flight), datagrams, "{in_flight} in flight");
        }
    }

    #[test]
    fn with_an_empty_queue_a_deadline_is_judged_at_once() {
        let mut backlog = Backlog::new(100);
        backlog.note_read(40, true);
        assert!(backlog.may_judge(&mut PutOff::default()));
    }

    #[test]
    fn a_deadline_waits_until_the_queue_was_empty() {
        let (mut backlog, mut put_off) = (Backlog::new(100), PutOff::default());
        backlog.note_read(40, false);
        assert!(!backlog.may_judge(&mut put_off));
        backlog.note_read(40, false);
        assert!(!backlog.may_judge(&mut put_off));
        backlog.note_read(1, true);
        assert!(backlog.may_judge(&mut put_off));
    }

    #[test]
    fn a_flood_holds_a_deadline_back_for_one_whole_queue_and_no_longer() {
        let (mut backlog, mut put_off) = (Backlog::new(100), PutOff::default());
        backlog.note_read(1_000, false);
        assert!(!backlog.may_judge(&mut put_off), "the answer may be behind what was read");
        backlog.note_read(99, false);
        assert!(!backlog.may_judge(&mut put_off));
        backlog.note_read(1, false);
        assert!(backlog.may_judge(&mut put_off));
    }

    #[test]
    fn the_next_deadline_of_the_same_admission_waits_anew() {
        let (mut backlog, mut put_off) = (Backlog::new(100), PutOff::default());
        backlog.note_read(10, false);
        assert!(!backlog.may_judge(&mut put_off));
        backlog.note_read(100, false);
        assert!(backlog.may_judge(&mut put_off));
        assert!(!backlog.may_judge(&mut put_off));
    }
}
