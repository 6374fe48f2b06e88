//! When a worker stops using a system call that the system refuses, and when a refusal is the path's and stops nothing.
//!
//! A seccomp filter or an old kernel refuses `sendmmsg` each time; a device may be unable to segment. Then the datagrams go
//! out one by one, and after some refusals without a success between them the worker asks no more. A packet filter that
//! drops now and then looks alike, but its EPERM also befalls the single datagrams. Pure bookkeeping: the caller sends, and
//! tells what became of it.

/// Consecutive refusals after which a way of sending is given up. A packet filter that refuses one datagram in three at
/// random comes to that once in millions of messages.
const IN_A_ROW: u8 = 8;

/// What was refused so far, since the last success.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals {
    segmenting: u8,
    batching: u8,
}

/// A message that was refused, and what became of its datagrams, which were then sent one by one.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// Datagrams in the message.
    pub datagrams: usize,
    /// Whether the error was EPERM.
    pub forbidden: bool,
    /// Whether the error is one of those with which the kernel says that it cannot segment.
    pub cannot_segment: bool,
    /// Whether the kernel took at least one of the single datagrams.
    pub any_sent: bool,
    /// Whether one of the single datagrams was refused with EPERM.
    pub singly_forbidden: bool,
}

/// A way of sending that the worker gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// Several datagrams in one message (`UDP_SEGMENT`).
    Segmenting,
    /// Several messages in one call (`sendmmsg`).
    Batching,
}

impl Refusals {
    /// The kernel took a message of so many datagrams.
    pub fn taken(&mut self, datagrams: usize) {
        self.batching = 0;
        if datagrams > 1 {
            self.segmenting = 0;
        }
    }

    /// A message was refused. `Some`: this way of sending is given up now, for this reason.
    pub fn refused(&mut self, refused: Refused) -> Option<GivenUp> {
        if refused.forbidden && refused.singly_forbidden {
            *self = Refusals::default();
            return None;
        }
        if !refused.any_sent {
            return None;
        }
        if refused.datagrams == 1 {
            self.batching = self.batching.saturating_add(1);
            return (self.batching == IN_A_ROW).then_some(GivenUp::Batching);
        }
        if !refused.cannot_segment {
            return None;
        }
        self.segmenting = self.segmenting.saturating_add(1);
        (!refused.forbidden || self.segmenting >= IN_A_ROW).then_some(GivenUp::Segmenting)
    }

    /// Whether batches have been given up.
    pub fn without_batches(&self) -> bool {
        self.batching >= IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EPERM for a message of two datagrams, each of which the kernel then took.
    const FORBIDDEN: Refused = Refused {
        datagrams: 2,
        forbidden: true,
        cannot_segment: true,
        any_sent: true,
        singly_forbidden: false,
    };

    #[test]
    fn a_path_that_cannot_segment_ends_segmenting_at_once() {
        let too_long = Refused { forbidden: false, ..FORBIDDEN };
        assert_eq!(Refusals::default().refused(too_long), Some(GivenUp::Segmenting));
    }

    #[test]
    fn an_eperm_now_and_then_turns_nothing_off() {
        let mut refusals = Refusals::default();
        for _ in 0..1_000 {
            for datagrams in [1, 2] {
                for _ in 1..IN_A_ROW {
                    assert_eq!(refusals.refused(Refused { datagrams, ..FORBIDDEN }), None);
                }
            }
            refusals.taken(2);
        }
        assert!(!refusals.without_batches());
    }

    #[test]
    fn an_eperm_that_also_befalls_sendto_turns_nothing_off() {
        let mut refusals = Refusals::default();
        for any_sent in [true, false].repeat(1_000) {
            for datagrams in [1, 2] {
                let of_path = Refused { datagrams, any_sent, singly_forbidden: true, ..FORBIDDEN };
                assert_eq!(refusals.refused(of_path), None);
            }
        }
        assert!(!refusals.without_batches());
    }

    #[test]
    fn an_eperm_of_the_path_starts_the_count_anew() {
        let mut refusals = Refusals::default();
        for _ in 0..1_000 {
            for _ in 1..IN_A_ROW {
                assert_eq!(refusals.refused(FORBIDDEN), None);
            }
            refusals.refused(Refused { singly_forbidden: true, ..FORBIDDEN });
        }
    }

    #[test]
    fn a_call_that_is_always_refused_is_given_up() {
        for forbidden in [true, false] {
            let mut refusals = Refusals::default();
            let single = Refused { datagrams: 1, forbidden, ..FORBIDDEN };
            for _ in 1..IN_A_ROW {
                assert_eq!(refusals.refused(single), None);
            }
            assert!(!refusals.without_batches());
            assert_eq!(refusals.refused(single), Some(GivenUp::Batching), "EPERM {forbidden}");
            assert!(refusals.without_batches());
        }
    }

    #[test]
    fn segmenting_that_is_always_forbidden_is_given_up() {
        let mut refusals = Refusals::default();
        for _ in 1..IN_A_ROW {
            assert_eq!(refusals.refused(FORBIDDEN), None);
        }
        assert_eq!(refusals.refused(FORBIDDEN), Some(GivenUp::Segmenting));
    }

    #[test]
    fn a_refusal_after_which_nothing_was_sent_says_nothing_of_the_call() {
        let mut refusals = Refusals::default();
        for datagrams in [1, 2].repeat(1_000) {
            let unreachable = Refused { datagrams, forbidden: false, any_sent: false, ..FORBIDDEN };
            assert_eq!(refusals.refused(unreachable), None);
        }
    }
}
