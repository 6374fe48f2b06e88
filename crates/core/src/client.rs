//! The client: admissions in flight, reports, membership and steering, as a state machine.
//!
//! Inputs are `start`, `report`, `cancel` and `handle_*`, each with the current time where it matters. After every
//! input the caller drains the outputs: `transmits` with `handle_sent` until none is left, `poll_deadline`,
//! `poll_completion`, `poll_discovery`. Nothing is called back, so nothing can be re-entered.
//!
//! Rooms: `slots` and `tally` hold the admissions, `answer` what decided them, `outbox` what is to be sent, `discovery` the
//! members and when to look again. `judge` takes responses in, and `rounds` carries an admission through its deadlines to its
//! end. `watch` learns how far away the servers are and which of them answer, and `late` keeps ids for it. `audit` is for
//! tests.
//!
//! No input costs more because of what else is queued, waiting or cancelled. What a queue holds of a cancelled admission
//! is dropped by the first reader that comes to it.

mod answer;
#[cfg(feature = "audit")]
mod audit;
mod discovery;
mod judge;
mod late;
mod outbox;
mod queue;
mod rounds;
mod silence;
mod slots;
mod tally;
mod types;
mod watch;

pub use answer::{Answer, GuardResult, ResourceResult};
pub use types::{
    AdmissionKey, Ask, Completion, Counters, Discovered, Failure, Outcome, Received, Reports, SendResult,
    Sent, StartError, Transmit,
};
pub use watch::{RoundTrip, Silencing};

/// Counts of [`Client::sent`]: requests, replays, completions, reports and probes that the system took, sends that failed,
/// latency reports that were sent, latency reports that failed.
pub const SENT_COUNTS: usize = 8;
/// Counts of [`Client::received`].
pub const RECEIVED_COUNTS: usize = 6;

use self::discovery::Discovery;
use self::judge::TakenCounts;
use self::outbox::{Cause, Outbox};
use self::queue::Queue;
use self::silence::Silence;
use self::slots::Slots;
use self::watch::{Next, Watch};
use crate::id::RequestId;
use crate::key::ApiKey;
use crate::membership::Membership;
use crate::policy::Policy;
use crate::time::{Millis, WallMillis};
use crate::wire::{Auth, Observation, RateRequest, Resource, Tenant};
use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroize;

/// The client of one key and one policy.
pub struct Client {
    auth: Auth,
    key_id: u64,
    longest_window_ms: u32,
    policy: Policy,
    random: ChaCha12Rng,
    slots: Slots,
    outbox: Outbox,
    discovery: Discovery,
    /// Admissions that wait for the first discovery, and some that no longer do.
    waiting: Queue<AdmissionKey>,
    /// Slots that datagrams came for since the last judging.
    touched: Vec<u32>,
    deadlines: Queue<AdmissionKey>,
    completions: Queue<Completion>,
    rebind_pending: bool,
    silence: Silence,
    /// Whether a new source port is due because no server answers.
    leaves_port: bool,
    /// What the servers' answers teach; `None` where the policy does not ask for that.
    watch: Option<Box<Watch>>,
    /// What holds for admissions now.
    next: Next,
    send_errors: u64,
    received: TakenCounts,
}

impl Client {
    /// Makes a client. `seed` is 256 bits from the kernel, drawn by this process alone after the fork: it makes
    /// request ids and AES nonces, so no two clients may ever share it.
    pub fn new(key: &ApiKey, policy: Policy, seed: [u8; 32]) -> Client {
        Client {
            auth: Auth::new(key),
            key_id: key.key_id(),
            longest_window_ms: key.quotas().rate_window_size_ms_max,
            watch: Watch::new(&policy),
            next: Next::of(&policy),
            policy,
            random: ChaCha12Rng::from_seed(seed),
            slots: Slots::default(),
            outbox: Outbox::default(),
            discovery: Discovery::new(),
            waiting: Queue::default(),
            touched: Vec::new(),
            deadlines: Queue::default(),
            completions: Queue::default(),
            rebind_pending: false,
            silence: Silence::default(),
            leaves_port: false,
            send_errors: 0,
            received: TakenCounts::default(),
        }
    }

    /// Mixes fresh bytes of the kernel into the generator of request ids and nonces. What it draws next depends on both its
    /// old state and `fresh`, so that neither alone foretells it. Call it at least once in a second of activity.
    pub fn stir(&mut self, fresh: &[u8; 32]) {
        let mut seed = [0; 32];
        self.random.fill_bytes(&mut seed);
        for (byte, fresh) in seed.iter_mut().zip(fresh) {
            *byte ^= fresh;
        }
        self.random = ChaCha12Rng::from_seed(seed);
        seed.zeroize();
    }

    /// Starts an admission. With members known, round 0 is queued; while the very first discovery is wanted or under
    /// way the admission waits for it within its horizon.
    ///
    /// # Errors
    /// `StartError`; nothing was queued, except that a discovery may now be due (`poll_discovery`).
    pub fn start(
        &mut self,
        now: Millis,
        wall: WallMillis,
        ask: &Ask<'_>,
    ) -> Result<AdmissionKey, StartError> {
        self.check_windows(ask.resources)?;
        self.discovery.want(now);
        if self.discovery.members().is_none() && !self.discovery.is_first() {
            return Err(StartError::NoMembers);
        }
        let index = self.seal(now, wall, ask)?;
        match self.discovery.members() {
            Some(_) => {
                self.leave_silent_port(now);
                self.begin(now, index);
            }
            None => self.wait(index),
        }
        Ok(self.slots.key(index))
    }

    /// Starts a probe: an admission that no request waits for, which asks whether the servers answer again. Its deadlines,
    /// answers and completion are those of any admission: the caller keeps the key and handles its deadlines without a
    /// waiter. Its datagrams count as probes, and it is in flight for a rebind. It never waits for a discovery.
    ///
    /// # Errors
    /// As `start`, with `NoMembers` also while the very first discovery is under way.
    pub fn start_probe(
        &mut self,
        now: Millis,
        wall: WallMillis,
        ask: &Ask<'_>,
    ) -> Result<AdmissionKey, StartError> {
        self.check_windows(ask.resources)?;
        self.discovery.want(now);
        if self.discovery.members().is_none() {
            return Err(StartError::NoMembers);
        }
        let index = self.seal(now, wall, ask)?;
        self.outbox.mark_probe(self.slots[index].parcel);
        self.leave_silent_port(now);
        self.begin(now, index);
        Ok(self.slots.key(index))
    }

    /// A request came for which nothing is asked, because the breaker is open or its bucket is remembered: a discovery may
    /// become due as by any other request.
    pub fn want_members(&mut self, now: Millis) {
        self.discovery.want(now);
    }

    /// The members known.
    pub fn members(&self) -> Option<&Arc<Membership>> {
        self.discovery.members()
    }

    fn check_windows(&self, resources: &[Resource]) -> Result<(), StartError> {
        let max_ms = self.longest_window_ms;
        match resources.iter().position(|resource| resource.window_size_ms > max_ms) {
            Some(resource) => Err(StartError::WindowAboveQuota {
                resource,
                window_ms: resources[resource].window_size_ms,
                max_ms,
            }),
            None => Ok(()),
        }
    }

    /// Seals the request and opens its slot. An admission that will wait for discovery is sealed now too: its
    /// deduplication TTL counts from its start, as all its deadlines do.
    fn seal(&mut self, now: Millis, wall: WallMillis, ask: &Ask<'_>) -> Result<u32, StartError> {
        let request = RateRequest {
            dedup_ttl_ms: self.next.horizon_ms,
            guards: ask.guards,
            resources: ask.resources,
            label: (!ask.label.is_empty()).then_some(ask.label),
        };
        let (tenant, nonce) = self.envelope(wall);
        let parcel = self.outbox.take();
        if let Err(error) = self.auth.seal_rate_request(self.outbox.buffer(parcel), &tenant, &nonce, &request)
        {
            self.outbox.release(parcel);
            return Err(error.into());
        }
        let index = self.slots.open(tenant.request_id, now, self.next.horizon_ms, parcel);
        self.outbox.own(parcel, self.slots.key(index));
        let slot = &mut self.slots[index];
        slot.guards = block_count(ask.guards.len());
        slot.resources = block_count(ask.resources.len());
        Ok(index)
    }

    /// A fresh request id and nonce.
    fn envelope(&mut self, wall: WallMillis) -> (Tenant, [u8; 12]) {
        // Drawn at once: each draw costs more than the bytes do.
        let mut drawn = [0; 28];
        self.random.fill_bytes(&mut drawn);
        let (mut id, mut nonce) = ([0; 16], [0; 12]);
        id.copy_from_slice(&drawn[..16]);
        nonce.copy_from_slice(&drawn[16..]);
        let tenant = Tenant {
            key_or_server_id: self.key_id,
            request_id: RequestId::from_random(id),
            timestamp_ms: wall.0,
            steering_feedback: 0,
        };
        (tenant, nonce)
    }

    fn wait(&mut self, index: u32) {
        // All wait equally long, so those that ended are mostly at the front.
        while self.waiting.front().is_some_and(|key| self.slots.live(*key).is_none()) {
            self.waiting.pop_front();
        }
        let key = self.slots.key(index);
        self.waiting.push_back(key);
        self.deadlines.push_back(key);
    }

    /// Forgets an admission: no completion will come for it, and none of its unsent transmits will be sent. Of one that
    /// has ended only the completion is dropped: its completion deliveries are sent. Unknown keys and those whose
    /// completion was taken are ignored.
    pub fn cancel(&mut self, key: AdmissionKey) {
        if let Some(index) = self.slots.live(key) {
            let parcel = self.slots[index].parcel;
            self.outbox.withdraw(parcel);
            self.outbox.release(parcel);
            self.slots.end(index);
            self.slots.drop_answer(index);
            self.slots.free(index);
        } else if let Some(index) = self.slots.ended(key) {
            self.slots.drop_answer(index);
            self.slots.free(index);
        }
    }

    /// Queues a latency report to every endpoint of every member. Never waits for discovery (but may make one due).
    ///
    /// # Errors
    /// `StartError::NoMembers` or `Encode`.
    pub fn report(
        &mut self,
        now: Millis,
        wall: WallMillis,
        observation: &Observation,
    ) -> Result<(), StartError> {
        self.discovery.want(now);
        let (tenant, nonce) = self.envelope(wall);
        let Some(members) = self.discovery.members() else {
            self.outbox.reports.failed += 1;
            return Err(StartError::NoMembers);
        };
        let parcel = self.outbox.take();
        let buffer = self.outbox.buffer(parcel);
        let sealed = self.auth.seal_report(buffer, &tenant, &nonce, std::slice::from_ref(observation));
        if sealed.is_ok() {
            let until = now + u64::from(self.policy.horizon_ms());
            for endpoint in members.members().iter().flat_map(|member| &member.endpoints) {
                self.outbox.push(parcel, *endpoint, Cause::Report, until);
            }
        } else {
            self.outbox.reports.failed += 1;
        }
        self.outbox.release(parcel);
        Ok(sealed?)
    }

    /// A discovery succeeded: later admissions use these members, admissions that waited start round 0. Those whose
    /// horizon has passed meanwhile fail. Says whether the members are others than before.
    pub fn handle_discovered(&mut self, now: Millis, found: Discovered) -> bool {
        let are_new = self.discovery.found(now, found);
        self.note_members(now, are_new);
        self.begin_waiting(now);
        are_new
    }

    /// A discovery that goes on has found these members: they are used from now on, as after `handle_discovered`.
    pub fn handle_usable(&mut self, now: Millis, membership: Arc<Membership>) -> bool {
        let are_new = self.discovery.usable(membership);
        self.note_members(now, are_new);
        self.begin_waiting(now);
        are_new
    }

    /// Another worker found these members at `found`, for so long: they are used from now on, and looked up again by the first
    /// request if that time is over. Members of its own stay.
    pub fn handle_handed_on(
        &mut self,
        now: Millis,
        found: Millis,
        life_ms: u64,
        membership: Arc<Membership>,
    ) {
        if self.discovery.members().is_none() {
            self.discovery.handed_on(found, life_ms, membership);
            self.note_members(now, true);
            self.begin_waiting(now);
        }
    }

    /// The members known with when they were found and how long they are fresh, for handing them on.
    pub fn known(&self) -> Option<(&Arc<Membership>, Millis, u64)> {
        self.discovery.known()
    }

    fn begin_waiting(&mut self, now: Millis) {
        while let Some(key) = self.waiting.pop_front() {
            match self.slots.live(key) {
                Some(index) if now < self.slots[index].deadline() => self.begin(now, index),
                Some(index) => self.end(now, index, Outcome::Failed(Failure::Discovery)),
                None => {}
            }
        }
    }

    /// A discovery failed: known members stay; admissions that waited for the first one fail. The next attempt is due
    /// with the first request or report from one second after this attempt began.
    pub fn handle_discovery_failed(&mut self, now: Millis) {
        self.discovery.failed();
        while let Some(key) = self.waiting.pop_front() {
            if let Some(index) = self.slots.live(key) {
                self.end(now, index, Outcome::Failed(Failure::Discovery));
            }
        }
    }

    /// Whether there is anything to send.
    pub fn has_transmits(&self) -> bool {
        self.outbox.len() > 0
    }

    /// The next datagrams to send, at most so many, first in first out. Send a prefix of them and report it to
    /// `handle_sent` before anything else. What had to wait for the socket until its round was over is left out: it has
    /// failed.
    pub fn transmits(&mut self, now: Millis, most: usize) -> impl Iterator<Item = Transmit<'_>> {
        if self.outbox.has_waited() {
            let stale = self.outbox.settle_stale(now, most);
            self.send_errors += u64::from(stale);
            self.fail_unsent(now);
        }
        self.outbox.transmits().take(most)
    }

    /// Takes what became of the first transmits. Those for which the system has no room stay queued until their round
    /// is over.
    pub fn handle_sent(&mut self, now: Millis, results: &[SendResult]) {
        for result in results {
            if !self.outbox.settle(*result) {
                break;
            }
            self.send_errors += u64::from(*result == SendResult::Failed);
        }
        self.outbox.finish();
        self.fail_unsent(now);
    }

    /// Ends the admissions whose round 0 could not be sent to any endpoint.
    fn fail_unsent(&mut self, now: Millis) {
        let failed = self.outbox.take_failed();
        for key in &failed {
            if let Some(index) = self.slots.live(*key)
                && self.slots[index].round == 0
            {
                self.end(now, index, Outcome::Failed(Failure::Send));
            }
        }
        self.outbox.recycle(failed);
    }

    /// An admission's next deadline, once whenever it is set or changes.
    pub fn poll_deadline(&mut self) -> Option<(AdmissionKey, Millis)> {
        loop {
            let key = self.deadlines.pop_front()?;
            if let Some(index) = self.slots.live(key) {
                return Some((key, self.slots[index].deadline()));
            }
        }
    }

    /// The next ended admission, in the order of ending. Its slot may be used by the next one from now on.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        loop {
            let completion = self.completions.pop_front()?;
            // Cancelled ones are passed over.
            if let Some(index) = self.slots.ended(completion.key) {
                self.slots.free(index);
                return Some(completion);
            }
        }
    }

    /// What the deciding answer said, for a key whose completion was taken; `None` for a failure and for a cancelled
    /// admission. Read it before the next `start`, which may give the slot and its memory to another admission; then it
    /// is `None` too.
    pub fn answer(&self, key: AdmissionKey) -> Option<Answer<'_>> {
        self.slots.answer(key)
    }

    /// Whether the caller should start a discovery now; true once for each discovery that is due, until its result is
    /// handed in.
    pub fn poll_discovery(&mut self, now: Millis) -> bool {
        self.discovery.poll(now)
    }

    /// Admissions in flight: those that wait for discovery and those whose completion was not taken yet included.
    pub fn in_flight(&self) -> usize {
        self.slots.in_flight()
    }

    /// Whether a server asked for a new source port and no rebind has been reported since.
    pub fn rebind_pending(&self) -> bool {
        self.rebind_pending
    }

    /// Decides whether the admission that starts now takes a new source port.
    fn leave_silent_port(&mut self, now: Millis) {
        if self.silence.is_due(now) {
            let random = self.random.next_u32();
            self.silence.moved(now, random);
            self.leaves_port = true;
        }
    }

    /// Whether the caller should send from a new source port from now on, because no server answers; true once for each
    /// time that it is due. Ask after each `start`. It does not wait for admissions in flight: answers may still come to the
    /// old port, so receive from it for one horizon more. Then call `handle_rebound`.
    pub fn poll_new_port(&mut self) -> bool {
        std::mem::take(&mut self.leaves_port)
    }

    /// Longest time from an admission's start to its end, milliseconds.
    pub fn horizon_ms(&self) -> u64 {
        self.policy.longest_horizon_ms().into()
    }

    /// The caller has replaced the socket.
    pub fn handle_rebound(&mut self) {
        self.rebind_pending = false;
    }

    /// What was sent so far, for a caller that looks after each batch: the fields of [`Counters`] in the order of
    /// [`SENT_COUNTS`].
    #[inline]
    pub fn sent(&self) -> [u64; SENT_COUNTS] {
        let [requests, replays, completions, reports, probes] = *self.outbox.sent();
        let Reports { sent, failed } = self.outbox.reports;
        [requests, replays, completions, reports, probes, self.send_errors, sent, failed]
    }

    /// What was received so far: the fields of [`Received`], in their order.
    #[inline]
    pub fn received(&self) -> &[u64; RECEIVED_COUNTS] {
        &self.received
    }

    /// Counters since the client was made.
    pub fn counters(&self) -> Counters {
        Counters {
            sent: Sent::of(self.outbox.sent()),
            send_errors: self.send_errors,
            received: Received::of(&self.received),
            reports: self.outbox.reports,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Client")
            .field("key_id", &self.key_id)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

/// A datagram of 1200 bytes holds fewer than 256 blocks; the encoder has refused more.
fn block_count(blocks: usize) -> u8 {
    u8::try_from(blocks).expect("a sealed request holds fewer than 256 blocks")
}
