//! What waits to be sent: sealed datagrams (parcels) and the queue of endpoints that each goes to.
//!
//! A parcel lives as long as its admission, for replays, and beyond it until its last queued transmit was taken.
//! Buffers are recycled and keep their capacity. Used by the client's other rooms only; it sends nothing itself.

use super::{AdmissionKey, Transmit};
use std::collections::VecDeque;
use std::net::SocketAddr;

#[derive(Default)]
struct Parcel {
    bytes: Vec<u8>,
    /// The admission that may send it again; `None` for reports and ended admissions.
    owner: Option<AdmissionKey>,
    /// Queued transmits of it.
    queued: u32,
    /// Those among them that belong to round 0.
    round_0_left: u32,
    /// Whether any endpoint of round 0 could be sent to.
    round_0_sent: bool,
}

/// Why a datagram is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// An admission's first round: without any of these it fails.
    Round0,
    /// A later round.
    Replay,
    /// A report or completion delivery, which nobody waits for.
    BestEffort,
}

struct Queued {
    to: SocketAddr,
    parcel: u32,
    cause: Cause,
}

/// Result of one send, once it is known.
#[derive(Default)]
pub(super) struct Settled {
    /// The admission whose round 0 has now failed for every endpoint.
    pub(super) failed: Option<AdmissionKey>,
}

/// Parcels and queue.
#[derive(Default)]
pub(super) struct Outbox {
    parcels: Vec<Parcel>,
    free: Vec<u32>,
    queue: VecDeque<Queued>,
}

impl Outbox {
    /// A parcel to write a datagram into. Give it to `own` or, once queued, to `release`.
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.parcels.push(Parcel::default());
            u32::try_from(self.parcels.len() - 1).expect("fewer than 2^32 datagrams")
        })
    }

    /// The parcel's buffer.
    pub(super) fn buffer(&mut self, parcel: u32) -> &mut Vec<u8> {
        &mut self.parcels[parcel as usize].bytes
    }

    /// Keeps the parcel for as long as the admission lives.
    pub(super) fn own(&mut self, parcel: u32, owner: AdmissionKey) {
        let parcel = &mut self.parcels[parcel as usize];
        parcel.owner = Some(owner);
        parcel.round_0_sent = false;
    }

    /// Queues one transmit.
    pub(super) fn push(&mut self, parcel: u32, to: SocketAddr, cause: Cause) {
        let kept = &mut self.parcels[parcel as usize];
        kept.queued += 1;
        kept.round_0_left += u32::from(cause == Cause::Round0);
        self.queue.push_back(Queued { to, parcel, cause });
    }

    /// The owner needs it no more; what is queued still goes out.
    pub(super) fn release(&mut self, parcel: u32) {
        let kept = &mut self.parcels[parcel as usize];
        kept.owner = None;
        if kept.queued == 0 {
            self.free.push(parcel);
        }
    }

    /// Drops what is queued of a parcel. The queue is empty between two inputs of a caller that drains, so this
    /// mostly finds nothing to do.
    pub(super) fn withdraw(&mut self, parcel: u32) {
        let kept = &mut self.parcels[parcel as usize];
        if kept.queued > 0 {
            kept.queued = 0;
            kept.round_0_left = 0;
            self.queue.retain(|queued| queued.parcel != parcel);
        }
    }

    /// The queue, first in first out.
    pub(super) fn transmits(&self) -> impl Iterator<Item = Transmit<'_>> {
        self.queue.iter().map(|queued| Transmit {
            to: queued.to,
            bytes: &self.parcels[queued.parcel as usize].bytes,
            replay: queued.cause == Cause::Replay,
        })
    }

    /// Takes the first transmit off the queue with its result. `None`: the queue is empty.
    pub(super) fn settle(&mut self, sent: bool) -> Option<Settled> {
        let Queued { parcel, cause, .. } = self.queue.pop_front()?;
        let kept = &mut self.parcels[parcel as usize];
        kept.queued -= 1;
        let mut settled = Settled::default();
        if cause == Cause::Round0 {
            kept.round_0_left -= 1;
            kept.round_0_sent |= sent;
            if kept.round_0_left == 0 && !kept.round_0_sent {
                settled.failed = kept.owner;
            }
        }
        if kept.owner.is_none() && kept.queued == 0 {
            self.free.push(parcel);
        }
        Some(settled)
    }
}
