//! What a request has asked of its zones and guards, and what the deciding answer said of each: for the variables and the
//! line about a refused request.
//!
//! Filled by the handler when it asks and by the driver when the answer is there. A few zones and guards lie in the context
//! itself, more in the request's pool.

use crate::conf::{Admission, Guard, Selection, Zone};
use crate::nginx::request::PoolSlice;
use crate::shared::{GuardCount, Set, Shared, ZoneCount};
use ratelimitly_core::client::{Answer, Ask, GuardResult};
use ratelimitly_core::id::{BucketId, ServerId};
use ratelimitly_core::limits::ZoneResult;
use ratelimitly_core::remembered::{self, Remembered};
use ratelimitly_core::time::Millis;
use ratelimitly_core::wire::Resource;
use std::rc::Rc;

/// Zones that lie in the context.
const ZONES: usize = 3;
/// Guards that lie in the context.
const GUARDS: usize = 2;

/// A zone as it was asked, and what the answer said. Zones and guards are named by their index in the admission.
#[derive(Clone, Copy, Default)]
pub struct AskedZone {
    index: u16,
    deficit: u16,
    rate: u32,
    window_ms: u32,
    count: u32,
}

/// A guard that was asked, and what the answer said.
#[derive(Clone, Copy, Default)]
pub struct AskedGuard {
    index: u16,
    refused: bool,
    latency_ms: u32,
}

/// Some values in the context, or all of them in the request's pool.
struct Few<T, const N: usize> {
    len: usize,
    inline: [T; N],
    more: Option<PoolSlice<T>>,
}

impl<T: Copy + Default, const N: usize> Few<T, N> {
    fn new() -> Few<T, N> {
        Few { len: 0, inline: [T::default(); N], more: None }
    }

    /// Keeps `values`. `false`: nginx has no memory for them.
    fn fill(
        &mut self,
        values: impl ExactSizeIterator<Item = T>,
        memory: impl FnOnce(usize) -> Option<PoolSlice<T>>,
    ) -> bool {
        self.len = values.len();
        if self.len > N {
            self.more = memory(self.len);
            if self.more.is_none() {
                self.len = 0;
                return false;
            }
        }
        self.as_mut().iter_mut().zip(values).for_each(|(place, value)| *place = value);
        true
    }

    fn as_ref(&self) -> &[T] {
        match &self.more {
            None => &self.inline[..self.len],
            Some(more) => more.as_ref(),
        }
    }

    fn as_mut(&mut self) -> &mut [T] {
        match &mut self.more {
            None => &mut self.inline[..self.len],
            Some(more) => more.as_mut(),
        }
    }
}

/// The question of one request.
pub struct Details {
    admission: Option<Rc<Admission>>,
    zones: Few<AskedZone, ZONES>,
    guards: Few<AskedGuard, GUARDS>,
    /// Whose answer decided.
    server: Option<ServerId>,
    /// What a refusal is remembered by, where a zone remembers its refusals.
    memory: Option<PoolSlice<Bucket>>,
    /// How long the remembered refusal still lasts that decided, milliseconds; 0: none did.
    remembered_ms: u64,
}

/// The bucket that a zone was asked for, and how many of its tokens the whole question asks.
#[derive(Clone, Copy, Default)]
pub(super) struct Bucket {
    id: [u8; 16],
    tokens: u32,
}

impl Details {
    /// Nothing asked yet.
    pub(super) fn new() -> Details {
        let (zones, guards) = (Few::new(), Few::new());
        Details { admission: None, zones, guards, server: None, memory: None, remembered_ms: 0 }
    }

    /// Keeps the buckets of a question whose refusal may be remembered, one for each resource.
    #[cold]
    pub(super) fn keep_buckets(&mut self, resources: &[Resource], mut memory: PoolSlice<Bucket>) {
        for (bucket, resource) in memory.as_mut().iter_mut().zip(resources) {
            *bucket = Bucket { id: resource.bucket.0, tokens: remembered::asked(resources, resource.bucket) };
        }
        self.memory = Some(memory);
    }

    /// Remembers what the deciding answer has refused, for zones that want it.
    #[cold]
    fn remember_refusals(&self, table: &mut Remembered, now: Millis, memory: &[Bucket]) {
        let Some(admission) = self.answered() else { return };
        for (asked, bucket) in self.zones.as_ref().iter().zip(memory) {
            let zone = admission.zones.get(usize::from(asked.index));
            if let Some(duration_ms) = zone.and_then(|zone| zone.remember_ms).filter(|_| asked.deficit > 0) {
                let AskedZone { rate, window_ms, count, deficit, .. } = *asked;
                let life_ms =
                    remembered::life_ms(duration_ms, &ZoneResult { rate, window_ms, count, deficit });
                table.remember(now, BucketId(bucket.id), bucket.tokens, life_ms);
            }
        }
    }

    /// The same, if this question may be remembered.
    pub fn remember(&self, table: &mut Remembered, now: Millis) {
        if let Some(memory) = &self.memory {
            self.remember_refusals(table, now, memory.as_ref());
        }
    }

    /// Marks the zones whose bucket the table says is still refused. Says whether there is one.
    #[cold]
    pub(super) fn recall(&mut self, table: &Remembered, now: Millis) -> bool {
        let Some(memory) = &self.memory else { return false };
        for (asked, bucket) in self.zones.as_mut().iter_mut().zip(memory.as_ref()) {
            if let Some(left_ms) = table.left_ms(now, BucketId(bucket.id), bucket.tokens) {
                asked.deficit = 1;
                self.remembered_ms = self.remembered_ms.max(left_ms);
            }
        }
        self.remembered_ms > 0
    }

    /// How long the remembered refusal still lasts that decided, milliseconds.
    pub fn remembered_ms(&self) -> Option<u64> {
        Some(self.remembered_ms).filter(|left_ms| *left_ms > 0)
    }

    /// Counts the zones that a remembered refusal was of.
    #[cold]
    pub fn count_remembered(&self, set: Set<'_>) {
        let Some(admission) = self.admission.as_deref() else { return };
        for asked in self.zones.as_ref().iter().filter(|asked| asked.deficit > 0) {
            if let Some(zone) = admission.zones.get(usize::from(asked.index)) {
                set.zone(zone.number, ZoneCount::DenyRemembered);
            }
        }
    }

    /// Keeps what is about to be asked. `false`: nginx has no memory for it.
    pub(super) fn ask(
        &mut self,
        admission: &Rc<Admission>,
        ask: &Ask<'_>,
        selection: Selection<'_>,
        zones: impl FnOnce(usize) -> Option<PoolSlice<AskedZone>>,
        guards: impl FnOnce(usize) -> Option<PoolSlice<AskedGuard>>,
    ) -> bool {
        self.admission = Some(Rc::clone(admission));
        let asked_zones = ask.resources.iter().enumerate().map(|(index, resource)| AskedZone {
            index: selection.zone(index) as u16,
            rate: resource.rate_limit,
            window_ms: resource.window_size_ms,
            ..AskedZone::default()
        });
        let asked_guards = ask.guards.iter().enumerate();
        let asked_guards = asked_guards
            .map(|(index, _)| AskedGuard { index: selection.guard(index) as u16, ..AskedGuard::default() });
        self.zones.fill(asked_zones, zones) && self.guards.fill(asked_guards, guards)
    }

    /// Keeps what the deciding answer said.
    pub(super) fn answer(&mut self, server: ServerId, answer: &Answer<'_>) {
        for (zone, result) in self.zones.as_mut().iter_mut().zip(answer.resources()) {
            (zone.count, zone.deficit) = (result.count, result.deficit);
        }
        for (guard, result) in self.guards.as_mut().iter_mut().zip(answer.guards()) {
            (guard.latency_ms, guard.refused) = (result.latency_ms, result.refused);
        }
        self.server = Some(server);
    }

    /// Counts what the deciding answer said of each zone and guard.
    pub fn count(&self, shared: &Shared, set: Set<'_>, is_dry_run: bool) {
        let Some(admission) = self.answered() else { return };
        for asked in self.zones.as_ref() {
            if let Some(zone) = admission.zones.get(usize::from(asked.index)) {
                let refused = if is_dry_run { ZoneCount::DenyDryRun } else { ZoneCount::Deny };
                set.zone(zone.number, if asked.deficit > 0 { refused } else { ZoneCount::Pass });
            }
        }
        for asked in self.guards.as_ref() {
            if let Some(guard) = admission.guards.get(usize::from(asked.index)) {
                let refused = if is_dry_run { GuardCount::DenyDryRun } else { GuardCount::Deny };
                set.guard(guard.number, if asked.refused { refused } else { GuardCount::Pass });
                shared.guard_latency(guard.number, asked.latency_ms);
            }
        }
    }

    /// How many guards and zones were asked.
    pub fn counts(&self) -> (usize, usize) {
        (self.guards.len, self.zones.len)
    }

    /// Whose answer decided, if one did.
    pub fn server(&self) -> Option<ServerId> {
        self.server
    }

    /// The admission, once an answer has decided it.
    fn answered(&self) -> Option<&Admission> {
        self.server.and(self.admission.as_deref())
    }

    /// The zones in the order of the question, repeats kept, with what the answer said; none without an answer.
    pub fn zones(&self) -> impl Iterator<Item = (&Rc<Zone>, ZoneResult)> + Clone {
        self.zones_of(self.answered())
    }

    fn zones_of<'a>(
        &'a self,
        admission: Option<&'a Admission>,
    ) -> impl Iterator<Item = (&'a Rc<Zone>, ZoneResult)> + Clone {
        let zones = admission.map_or(&[][..], |admission| &admission.zones);
        self.zones.as_ref().iter().filter_map(|asked| {
            let zone = zones.get(usize::from(asked.index))?;
            let AskedZone { rate, window_ms, count, deficit, .. } = *asked;
            Some((zone, ZoneResult { rate, window_ms, count, deficit }))
        })
    }

    /// The guards in the order of the question, with what the answer said; none without an answer.
    pub fn guards(&self) -> impl Iterator<Item = (&Rc<Guard>, GuardResult)> + Clone {
        let guards = self.answered().map_or(&[][..], |admission| &admission.guards);
        self.guards.as_ref().iter().filter_map(|asked| {
            let guard = guards.get(usize::from(asked.index))?;
            Some((guard, GuardResult { latency_ms: asked.latency_ms, refused: asked.refused }))
        })
    }

    /// The names of the zones that refused, each once: in the deciding answer, or as it is remembered.
    pub fn refusing_zones(&self) -> impl Iterator<Item = &[u8]> {
        let is_decided = self.server.is_some() || self.remembered_ms > 0;
        let zones = self.zones_of(self.admission.as_deref().filter(|_| is_decided));
        let refusing = zones.filter(|(_, result)| result.refused());
        refusing.clone().enumerate().filter_map(move |(position, (zone, _))| {
            let before = refusing.clone().take(position).any(|(other, _)| Rc::ptr_eq(zone, other));
            (!before).then_some(&*zone.name)
        })
    }

    /// The names of the guards that refused.
    pub fn refusing_guards(&self) -> impl Iterator<Item = &[u8]> {
        self.guards().filter(|(_, result)| result.refused).map(|(guard, _)| &*guard.name)
    }

    /// What refused, `zone:<name>` and `guard:<name>`, joined by `, `. `false`: nothing did.
    pub fn write_refusing(&self, out: &mut Vec<u8>) -> bool {
        let zones = self.refusing_zones().map(|name| (&b"zone:"[..], name));
        let names = zones.chain(self.refusing_guards().map(|name| (&b"guard:"[..], name)));
        for (position, (kind, name)) in names.enumerate() {
            out.extend_from_slice(if position == 0 { b"" } else { b", " });
            out.extend_from_slice(kind);
            out.extend_from_slice(name);
        }
        !out.is_empty()
    }
}
