//! What a request has asked of its zones and guards, and what the deciding answer said of each: for the variables and the
//! line about a refused request.
//!
//! Filled by the handler when it asks and by the driver when the answer is there. A few zones and guards lie in the context
//! itself, more in the request's pool.

use crate::conf::{Admission, Guard, Selection, Zone};
use crate::nginx::request::PoolSlice;
use crate::shared::{GuardCount, Set, Shared, ZoneCount};
use ratelimitly_core::client::{Answer, Ask, GuardResult};
use ratelimitly_core::id::ServerId;
use ratelimitly_core::limits::ZoneResult;
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
}

impl Details {
    /// Nothing asked yet.
    pub(super) fn new() -> Details {
        Details { admission: None, zones: Few::new(), guards: Few::new(), server: None }
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
        let zones = self.answered().map_or(&[][..], |admission| &admission.zones);
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

    /// The names of the zones that refused, each once.
    pub fn refusing_zones(&self) -> impl Iterator<Item = &[u8]> {
        let refusing = self.zones().filter(|(_, result)| result.refused());
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
