//! The send queue: sealed datagrams (parcels), and the endpoints that each of them still has to be sent to.
//!
//! A parcel lives as long as its admission, which may replay it, and longer while transmits of it are queued. Its
//! buffer is recycled. Withdrawing a parcel marks its transmits by raising the parcel's epoch. They are never searched
//! for: the next reader of the queue drops them. Used by the client's other rooms only; it sends nothing itself.

use super::queue::Queue;
use super::{AdmissionKey, Reports, SendResult, Sent, Transmit};
use crate::time::Millis;
use std::net::SocketAddr;

/// So many withdrawn transmits may stay in the queue beyond the number of live ones before it is compacted.
const SLACK: usize = 64;

#[derive(Default)]
struct Parcel {
    bytes: Vec<u8>,
    /// The admission that may send it again; `None` for reports and ended admissions.
    owner: Option<AdmissionKey>,
    /// Transmits of another epoch were withdrawn.
    epoch: u32,
    /// Its queued transmits, without the withdrawn ones.
    queued: u32,
    /// Those among them that belong to round 0.
    round_0_left: u32,
    /// Whether any endpoint of round 0, or of a report, could be sent to.
    any_sent: bool,
    is_probe: bool,
}

/// Why a datagram is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// An admission's first round: without any of these it fails.
    Round0,
    /// A later round.
    Replay,
    /// Completion delivery. No request waits for it.
    Completion,
    /// A latency report. No request waits for it.
    Report,
}

/// Where probes are counted, behind the causes.
const PROBE: usize = Cause::Report as usize + 1;

struct Queued {
    to: SocketAddr,
    parcel: u32,
    epoch: u32,
    cause: Cause,
    /// Past this time it must not be sent any more.
    until: Millis,
}

/// Parcels and queue.
#[derive(Default)]
pub(super) struct Outbox {
    parcels: Vec<Parcel>,
    free: Vec<u32>,
    queue: Queue<Queued>,
    /// Withdrawn transmits that are still in the queue.
    withdrawn: usize,
    /// Whether something in the queue had to wait for the socket, and may therefore be too old to be sent.
    waited: bool,
    /// What goes back to the front of the queue. Empty between two batches.
    returned: Vec<Queued>,
    /// Admissions whose round 0 has failed for every endpoint.
    failed: Vec<AdmissionKey>,
    /// Datagrams that the system took, by [`Cause`], and those of probes at [`PROBE`].
    sent: [u64; PROBE + 1],
    pub(super) reports: Reports,
}

impl Outbox {
    /// A parcel to write a datagram into. Give it to `own` or, once queued, to `release`.
    pub(super) fn take(&mut self) -> u32 {
        let parcel = self.free.pop().unwrap_or_else(|| {
            self.parcels.push(Parcel::default());
            u32::try_from(self.parcels.len() - 1).expect("fewer than 2^32 datagrams")
        });
        let taken = &mut self.parcels[parcel as usize];
        (taken.any_sent, taken.is_probe) = (false, false);
        parcel
    }

    /// Lets the parcel's datagrams count as those of a probe.
    pub(super) fn mark_probe(&mut self, parcel: u32) {
        self.parcels[parcel as usize].is_probe = true;
    }

    /// The parcel's buffer.
    pub(super) fn buffer(&mut self, parcel: u32) -> &mut Vec<u8> {
        &mut self.parcels[parcel as usize].bytes
    }

    /// Keeps the parcel for as long as the admission lives.
    pub(super) fn own(&mut self, parcel: u32, owner: AdmissionKey) {
        self.parcels[parcel as usize].owner = Some(owner);
    }

    /// Queues one transmit, to be sent before `until`.
    pub(super) fn push(&mut self, parcel: u32, to: SocketAddr, cause: Cause, until: Millis) {
        let kept = &mut self.parcels[parcel as usize];
        kept.queued += 1;
        kept.round_0_left += u32::from(cause == Cause::Round0);
        self.queue.push_back(Queued { to, parcel, epoch: kept.epoch, cause, until });
    }

    /// The owner needs it no more; what is queued still goes out.
    pub(super) fn release(&mut self, parcel: u32) {
        let kept = &mut self.parcels[parcel as usize];
        kept.owner = None;
        if kept.queued == 0 {
            self.free.push(parcel);
        }
    }

    /// Drops what is queued of a parcel, and says how many transmits that were.
    pub(super) fn withdraw(&mut self, parcel: u32) -> u32 {
        let kept = &mut self.parcels[parcel as usize];
        let count = std::mem::take(&mut kept.queued);
        if count > 0 {
            kept.round_0_left = 0;
            kept.epoch = kept.epoch.wrapping_add(1);
            self.withdrawn += count as usize;
            self.compact();
        }
        count
    }

    /// The parcel's round is over: what is still queued of it could not be sent in time. Says how many transmits
    /// failed by this, and whether round 0 has thereby failed for every endpoint.
    pub(super) fn expire(&mut self, parcel: u32) -> (u32, bool) {
        let kept = &self.parcels[parcel as usize];
        let all_failed = kept.round_0_left > 0 && !kept.any_sent;
        (self.withdraw(parcel), all_failed)
    }

    /// Keeps a flood of withdrawn transmits from growing the queue. Each compaction passes over fewer than twice as many
    /// entries as it drops, so a withdrawal costs no more than what it withdraws, on average.
    fn compact(&mut self) {
        if self.withdrawn > self.len() + SLACK {
            let parcels = &self.parcels;
            self.queue.retain(|queued| is_live(parcels, queued));
            self.withdrawn = 0;
        }
    }

    /// Transmits that are to be sent.
    pub(super) fn len(&self) -> usize {
        self.queue.len() - self.withdrawn
    }

    /// Whether some of what is queued may be too old to be sent.
    pub(super) fn has_waited(&self) -> bool {
        self.waited
    }

    /// The queue, first in first out.
    pub(super) fn transmits(&self) -> impl Iterator<Item = Transmit<'_>> {
        let live = self.queue.iter().filter(|queued| is_live(&self.parcels, queued));
        live.map(|queued| Transmit {
            to: queued.to,
            bytes: &self.parcels[queued.parcel as usize].bytes,
            replay: queued.cause == Cause::Replay,
        })
    }

    /// Takes the first transmit off the queue with its result. `false`: the queue is empty. Call `finish` after the last
    /// result of a batch.
    pub(super) fn settle(&mut self, result: SendResult) -> bool {
        let Some(queued) = self.pop() else { return false };
        match result {
            SendResult::Sent => self.end(&queued, true),
            SendResult::Failed => self.end(&queued, false),
            SendResult::WouldBlock => self.returned.push(queued),
        }
        true
    }

    /// Takes the first transmits off the queue, at most so many, and puts those back that may still be sent. Says how
    /// many may not, and have thereby failed.
    pub(super) fn settle_stale(&mut self, now: Millis, most: usize) -> u32 {
        let mut stale = 0;
        while self.returned.len() < most
            && let Some(queued) = self.pop()
        {
            if now < queued.until {
                self.returned.push(queued);
            } else {
                self.end(&queued, false);
                stale += 1;
            }
        }
        self.finish();
        stale
    }

    /// Ends a batch: what could not be sent yet goes back to where it was.
    pub(super) fn finish(&mut self) {
        if self.returned.is_empty() {
            self.waited &= !self.queue.is_empty();
        } else {
            self.waited = true;
            while let Some(queued) = self.returned.pop() {
                self.queue.push_front(queued);
            }
        }
        // What was sent may have left more withdrawn transmits behind it than live ones.
        self.compact();
    }

    /// The admissions whose round 0 has failed for every endpoint since the last call. Give the list back with
    /// `recycle`.
    pub(super) fn take_failed(&mut self) -> Vec<AdmissionKey> {
        std::mem::take(&mut self.failed)
    }

    /// Takes the memory of `take_failed` back.
    pub(super) fn recycle(&mut self, mut failed: Vec<AdmissionKey>) {
        failed.clear();
        self.failed = failed;
    }

    /// The first transmit that was not withdrawn.
    fn pop(&mut self) -> Option<Queued> {
        loop {
            let queued = self.queue.pop_front()?;
            if is_live(&self.parcels, &queued) {
                return Some(queued);
            }
            self.withdrawn -= 1;
        }
    }

    /// Datagrams that the system took.
    #[inline]
    pub(super) fn sent(&self) -> &[u64; PROBE + 1] {
        &self.sent
    }

    /// Accounts for a transmit that has left the queue.
    fn end(&mut self, queued: &Queued, sent: bool) {
        let kept = &mut self.parcels[queued.parcel as usize];
        kept.queued -= 1;
        if sent {
            let kind = if kept.is_probe { PROBE } else { queued.cause as usize };
            self.sent[kind] += 1;
        }
        kept.any_sent |= sent && matches!(queued.cause, Cause::Round0 | Cause::Report);
        if queued.cause == Cause::Round0 {
            kept.round_0_left -= 1;
            if kept.round_0_left == 0 && !kept.any_sent {
                self.failed.extend(kept.owner);
            }
        }
        if kept.owner.is_none() && kept.queued == 0 {
            self.free.push(queued.parcel);
            if queued.cause == Cause::Report {
                self.reports.sent += u64::from(kept.any_sent);
                self.reports.failed += u64::from(!kept.any_sent);
            }
        }
    }
}

impl Sent {
    pub(super) fn of(counts: &[u64; PROBE + 1]) -> Sent {
        let [requests, replays, completions, reports, probes] = *counts;
        Sent { requests, replays, completions, reports, probes }
    }
}

#[cfg(feature = "audit")]
impl Outbox {
    /// The queue, withdrawn transmits included.
    pub(super) fn queue(&self) -> (usize, u64) {
        (self.queue.len(), self.queue.steps())
    }

    /// Checks the books, and gives the owners of all buffers in use.
    pub(super) fn audit(&self) -> Vec<AdmissionKey> {
        let mut queued = vec![0; self.parcels.len()];
        for entry in self.queue.iter().filter(|entry| is_live(&self.parcels, entry)) {
            queued[entry.parcel as usize] += 1;
        }
        let mut free = vec![0; self.parcels.len()];
        self.free.iter().for_each(|parcel| free[*parcel as usize] += 1);
        for (index, parcel) in self.parcels.iter().enumerate() {
            assert_eq!(parcel.queued, queued[index], "a parcel knows how many transmits of it are queued");
            let is_used = parcel.owner.is_some() || parcel.queued > 0;
            assert_eq!(free[index], u32::from(!is_used), "a buffer is free, and once, when nothing needs it");
        }
        assert_eq!(self.len(), queued.iter().sum::<u32>() as usize, "the queue knows its length");
        assert!(self.queue.len() <= 2 * self.len() + SLACK, "withdrawn transmits do not pile up");
        assert!(self.returned.is_empty() && self.failed.is_empty());
        self.parcels.iter().filter_map(|parcel| parcel.owner).collect()
    }
}

/// Whether a transmit has not been withdrawn.
fn is_live(parcels: &[Parcel], queued: &Queued) -> bool {
    parcels[queued.parcel as usize].epoch == queued.epoch
}
