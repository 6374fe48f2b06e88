//! The admissions in flight: a slab of slots and an index from request id to slot.
//!
//! Finding, opening and closing an admission cost the same with one in flight as with ten thousand: what judging a
//! response reads of an admission is one cache line, and the index holds four bytes a request. Slots are reused,
//! the last closed one first. Used by the client's other rooms only; it knows neither time nor network.

use super::AdmissionKey;
use super::answer::{Answer, Kept};
use crate::id::{RequestId, ServerId};
use crate::membership::Membership;
use crate::time::Millis;
use hashbrown::HashTable;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// States of a slot, in the lowest two bits of its generation.
const STATE: u32 = 3;
/// No admission has it.
const FREE: u32 = 0;
/// Its admission is in flight. Keys carry the generation of this state.
const LIVE: u32 = 1;
/// Its admission has ended, and the caller has not taken the completion yet.
const ENDED: u32 = 2;

/// Round number of an admission that waits for the first discovery.
const WAITING: u32 = u32::MAX;

/// The best response so far: member index and verdict packed into 32 bits, to keep the slot in one cache line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate(u32);

impl Candidate {
    pub(super) const NONE: Candidate = Candidate(u32::MAX);

    pub(super) fn new(member: usize, grants: bool) -> Candidate {
        Candidate((member as u32) << 1 | u32::from(grants))
    }

    /// Member index and whether its response grants.
    pub(super) fn get(self) -> Option<(usize, bool)> {
        (self != Candidate::NONE).then_some(((self.0 >> 1) as usize, self.0 & 1 == 1))
    }
}

/// One admission. Everything that judging an ordinary response touches, and no more.
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) id: RequestId,
    /// The snapshot. Kept after the end: the next admission mostly has the same one and then pays no reference count.
    members: Option<Arc<Membership>>,
    pub(super) start: Millis,
    /// Members below 64 that answered validly; those above are in `Spill`.
    pub(super) answered: u64,
    /// Where the current round ends, or the wait for discovery, milliseconds after `start`; the horizon at the latest.
    pub(super) round_end: u32,
    /// Its lowest two bits are the admission's state: [`FREE`], [`LIVE`] or [`ENDED`].
    generation: u32,
    pub(super) round: u32,
    /// Its datagram in the outbox.
    pub(super) parcel: u32,
    pub(super) candidate: Candidate,
    pub(super) guards: u8,
    pub(super) resources: u8,
    /// A datagram came since the last judging.
    pub(super) touched: bool,
    /// A response of the wrong counts came; from which members is in `Spill`.
    pub(super) wrong: bool,
}

const _: () = assert!(size_of::<Slot>() == 64, "a slot is one cache line");

impl Slot {
    fn new() -> Slot {
        Slot {
            id: RequestId([0; 16]),
            members: None,
            start: Millis(0),
            answered: 0,
            round_end: 0,
            generation: 0,
            round: WAITING,
            parcel: 0,
            candidate: Candidate::NONE,
            guards: 0,
            resources: 0,
            touched: false,
            wrong: false,
        }
    }

    fn is_live(&self) -> bool {
        self.generation & STATE == LIVE
    }

    /// The end of the current round, or of the wait for discovery.
    pub(super) fn deadline(&self) -> Millis {
        self.start + u64::from(self.round_end)
    }

    /// Whether it waits for the first discovery.
    pub(super) fn is_waiting(&self) -> bool {
        self.round == WAITING
    }

    /// The snapshot; `None` while it waits for one.
    pub(super) fn members(&self) -> Option<&Membership> {
        if self.is_waiting() { None } else { self.members.as_deref() }
    }

    /// Whether these members are its snapshot.
    pub(super) fn has_snapshot(&self, members: &Arc<Membership>) -> bool {
        !self.is_waiting() && self.members.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, members))
    }

    /// Takes the snapshot and leaves the waiting state.
    pub(super) fn enter_round_0(&mut self, members: &Arc<Membership>) {
        if !self.members.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, members)) {
            self.members = Some(Arc::clone(members));
        }
        self.round = 0;
    }

    /// Position of a server in the snapshot: 0 is the oldest.
    pub(super) fn position(&self, server: ServerId) -> Option<usize> {
        self.members()?.members().binary_search_by_key(&server, |member| member.id).ok()
    }

    /// Hash of a request id. Ids are this client's own random bits (of these eight bytes only the version nibble is
    /// fixed, and no hash table reads it), so they need no mixing and nobody else can choose them to collide.
    fn hash(id: &RequestId) -> u64 {
        u64::from_le_bytes(*id.0.first_chunk().expect("16 bytes hold 8"))
    }
}

/// The generation of a slot once its admission is gone.
fn after_free(generation: u32) -> u32 {
    (generation | STATE).wrapping_add(1)
}

/// The rarely used rest of an admission's tally: members from the 64th on, and senders of wrong counts.
#[derive(Default)]
pub(super) struct Spill {
    pub(super) answered: Vec<u64>,
    pub(super) wrong: Vec<u64>,
}

/// The ids of admissions that have ended, as far as there is room: each has one place, which the next id that falls there
/// takes over. It tells a late answer from a foreign datagram, for the counters alone.
struct Lately(Box<[u32; LATELY]>);

/// Places of [`Lately`]. With 20,000 admissions a second and answers that are 5 ms late, one in forty is forgotten.
const LATELY: usize = 4096;

impl Default for Lately {
    fn default() -> Lately {
        Lately(Box::new([0; LATELY]))
    }
}

impl Lately {
    /// Place and mark of an id: different parts of its random bits.
    fn place(id: &RequestId) -> (usize, u32) {
        let place = u16::from_le_bytes([id.0[0], id.0[1]]);
        let mark = u32::from_le_bytes([id.0[12], id.0[13], id.0[14], id.0[15]]);
        (usize::from(place) % LATELY, mark)
    }

    fn note(&mut self, id: &RequestId) {
        let (place, mark) = Lately::place(id);
        self.0[place] = mark;
    }

    fn holds(&self, id: &RequestId) -> bool {
        let (place, mark) = Lately::place(id);
        self.0[place] == mark
    }
}

/// The slab.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    pub(super) spill: Vec<Spill>,
    /// What the candidate of each slot said.
    pub(super) kept: Vec<Kept>,
    free: Vec<u32>,
    by_id: HashTable<u32>,
    lately: Lately,
}

impl Slots {
    /// Admissions in flight, and those that have ended and whose slot is not free yet.
    pub(super) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Opens an admission in the waiting state, which lasts as long as its horizon.
    pub(super) fn open(&mut self, id: RequestId, start: Millis, horizon_ms: u32, parcel: u32) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let slot = &mut self.slots[index as usize];
        slot.generation += LIVE - FREE;
        slot.id = id;
        slot.start = start;
        slot.answered = 0;
        slot.round_end = horizon_ms;
        slot.round = WAITING;
        slot.parcel = parcel;
        slot.candidate = Candidate::NONE;
        slot.wrong = false;
        let slots = &self.slots;
        self.by_id.insert_unique(Slot::hash(&id), index, |&other| Slot::hash(&slots[other as usize].id));
        index
    }

    fn grow(&mut self) -> u32 {
        let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 admissions in flight");
        self.slots.push(Slot::new());
        self.spill.push(Spill::default());
        self.kept.push(Kept::default());
        index
    }

    /// Ends an admission: its id is unknown from now on. Its slot stays taken until `free`.
    pub(super) fn end(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation += ENDED - LIVE;
        slot.touched = false;
        self.lately.note(&slot.id);
        let spilled = slot.wrong || slot.members.as_ref().is_some_and(|members| members.members().len() > 64);
        if let Ok(entry) = self.by_id.find_entry(Slot::hash(&slot.id), |&other| other == index) {
            entry.remove();
        }
        if spilled {
            let spill = &mut self.spill[index as usize];
            spill.answered.clear();
            spill.wrong.clear();
        }
    }

    /// Lets the slot of an ended admission be used again.
    pub(super) fn free(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = after_free(slot.generation);
        self.free.push(index);
    }

    /// The slot of an admission that has ended and whose slot is not free yet.
    pub(super) fn ended(&self, key: AdmissionKey) -> Option<u32> {
        let slot = self.slots.get(key.slot as usize)?;
        (key.generation & STATE == LIVE && slot.generation == key.generation + (ENDED - LIVE))
            .then_some(key.slot)
    }

    /// Drops what an admission's candidate said: it decides nothing.
    pub(super) fn drop_answer(&mut self, index: u32) {
        self[index].candidate = Candidate::NONE;
    }

    /// What decided an admission whose slot is free and has had no other admission since.
    pub(super) fn answer(&self, key: AdmissionKey) -> Option<Answer<'_>> {
        let slot = self.slots.get(key.slot as usize)?;
        slot.candidate.get().filter(|_| slot.generation == after_free(key.generation))?;
        self.kept[key.slot as usize].answer(slot.guards.into())
    }

    /// The admission in flight that this request id names.
    pub(super) fn find(&self, id: &RequestId) -> Option<u32> {
        self.by_id.find(Slot::hash(id), |&index| self.slots[index as usize].id == *id).copied()
    }

    /// Whether an admission of this id has ended lately; see [`Lately`].
    pub(super) fn ended_lately(&self, id: &RequestId) -> bool {
        self.lately.holds(id)
    }

    /// The slot of an admission that is still in flight.
    pub(super) fn live(&self, key: AdmissionKey) -> Option<u32> {
        let slot = self.slots.get(key.slot as usize)?;
        (slot.generation == key.generation && slot.is_live()).then_some(key.slot)
    }

    /// The key of the admission in a slot.
    pub(super) fn key(&self, index: u32) -> AdmissionKey {
        AdmissionKey { slot: index, generation: self[index].generation }
    }
}

#[cfg(feature = "audit")]
impl Slots {
    /// Checks the books, and gives the keys of all admissions in flight.
    pub(super) fn audit(&self) -> Vec<AdmissionKey> {
        let mut free = vec![0; self.slots.len()];
        self.free.iter().for_each(|index| free[*index as usize] += 1);
        let mut live = Vec::new();
        for (index, slot) in (0..).zip(&self.slots) {
            assert_eq!(free[index as usize], u32::from(slot.generation & STATE == FREE), "free once");
            assert_eq!(self.find(&slot.id) == Some(index), slot.is_live(), "found while it is in flight");
            live.extend(slot.is_live().then(|| self.key(index)));
        }
        assert_eq!(self.by_id.len(), live.len());
        live
    }
}

impl Index<u32> for Slots {
    type Output = Slot;

    fn index(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }
}

impl IndexMut<u32> for Slots {
    fn index_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }
}
