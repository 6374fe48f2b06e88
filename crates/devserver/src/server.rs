//! One server: its socket's loop, and what happens to a datagram from its arrival to its answer. Started and stopped
//! by `fleet.rs`. Everything that all servers have in common is in `Service`.

use crate::command::{FaultKind, Ignored, Lost, Verdicts};
use crate::event::{AnswerSeen, Event, Fate, GuardSeen, Kind, ObservationSeen, ResourceSeen};
use crate::faults::Faults;
use crate::keyring::{Keyring, Tenancy};
use crate::limiter::{Answer, Limiter, Request};
use crate::names::Names;
use crate::outbox::{Held, Outbox, Outgoing};
use crate::recorder::Recorder;
use crate::respond;
use crate::sighting::Sighting;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use ratelimitly_core::wire::{self, DecodeError, MAX_DATAGRAM, Pdu, RateRequestView, ReportView, Tenant};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::UdpSocket;

/// What all servers share.
#[derive(Debug)]
pub(crate) struct Service {
    pub keys: Keyring,
    pub recorder: Recorder,
    names: Names,
    limiter: Mutex<Limiter>,
    held: Mutex<Vec<Held>>,
    /// First answers to request ids, of any server.
    admissions: Mutex<Verdicts>,
    max_clock_skew: Option<Duration>,
    started: Instant,
    started_unix_ms: u64,
}

impl Service {
    pub fn new(keys: Keyring, recorder: Recorder, names: Names, max_clock_skew: Option<Duration>) -> Service {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Service {
            keys,
            recorder,
            names,
            limiter: Mutex::default(),
            held: Mutex::default(),
            admissions: Mutex::default(),
            max_clock_skew,
            started: Instant::now(),
            started_unix_ms: millis(unix),
        }
    }

    /// Forgets buckets, trackers, remembered requests and held answers.
    pub fn reset(&self) {
        *lock(&self.limiter) = Limiter::default();
        self.held().clear();
    }

    /// Answers that `hold` keeps back, oldest first.
    pub fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        lock(&self.held)
    }

    /// How many request ids were allowed and denied.
    pub fn admissions(&self) -> Verdicts {
        *lock(&self.admissions)
    }

    fn now_ms(&self) -> u64 {
        millis(self.started.elapsed())
    }

    /// Wall clock at start plus time since: it never steps back.
    fn now_unix_ms(&self) -> u64 {
        self.started_unix_ms + self.now_ms()
    }

    fn is_skewed(&self, tenant: &Tenant) -> bool {
        let off = self.now_unix_ms().abs_diff(tenant.timestamp_ms);
        self.max_clock_skew.is_some_and(|limit| off > millis(limit))
    }
}

/// One server's own state; it outlives the socket, which may be closed and opened again.
#[derive(Debug)]
pub(crate) struct Server {
    pub id: u64,
    pub addr: SocketAddr,
    service: Arc<Service>,
    faults: Mutex<Faults>,
    ignored: Mutex<Ignored>,
    answers: Mutex<Verdicts>,
    /// Decides about drops and jitter; seeded, so that a run can be repeated.
    dice: Mutex<StdRng>,
    /// Answers on their way out.
    pub outbox: Outbox,
}

/// A datagram's metadata, before it is opened in place.
struct Received {
    source: SocketAddr,
    bytes: usize,
    nonce: Option<[u8; 12]>,
}

impl Server {
    pub fn new(id: u64, addr: SocketAddr, seed: u64, service: Arc<Service>) -> Server {
        Server {
            id,
            addr,
            service,
            faults: Mutex::default(),
            ignored: Mutex::default(),
            answers: Mutex::default(),
            dice: Mutex::new(StdRng::seed_from_u64(seed ^ id)),
            outbox: Outbox::default(),
        }
    }

    pub fn faults(&self) -> MutexGuard<'_, Faults> {
        lock(&self.faults)
    }

    pub fn ignored(&self) -> Ignored {
        *lock(&self.ignored)
    }

    /// How many answers it has made, repeated ones included.
    pub fn answers(&self) -> Verdicts {
        *lock(&self.answers)
    }

    /// Serves the socket until the task is aborted.
    pub async fn run(self: Arc<Server>, socket: Arc<UdpSocket>) {
        let mut buffer = vec![0; MAX_DATAGRAM + 1];
        loop {
            tokio::select! {
                received = socket.recv_from(&mut buffer) => match received {
                    Ok((length, source)) => self.receive(&mut buffer[..length], source),
                    Err(error) => tracing::debug!(server = self.id, %error, "receive failed"),
                },
                outgoing = self.outbox.due() => {
                    for _ in 0..outgoing.copies {
                        if let Err(error) = socket.send_to(&outgoing.datagram, outgoing.destination).await {
                            tracing::debug!(server = self.id, %error, "send failed");
                        }
                    }
                }
            }
        }
    }

    /// Handles one datagram; what does not belong is counted and dropped without an answer.
    fn receive(&self, datagram: &mut [u8], source: SocketAddr) {
        let Ok(claimed) = wire::peek(datagram) else { return self.ignore(|i| &mut i.malformed) };
        if datagram.len() > MAX_DATAGRAM {
            return self.ignore(|i| &mut i.malformed);
        }
        let Some(tenancy) = self.service.keys.get(claimed.key_or_server_id) else {
            return self.ignore(|i| &mut i.unknown_key);
        };
        let received = Received { source, bytes: datagram.len(), nonce: tenancy.auth.nonce(datagram) };
        match tenancy.auth.open(datagram) {
            Ok((tenant, _)) if self.service.is_skewed(&tenant) => self.ignore(|i| &mut i.clock_skew),
            Ok((tenant, Pdu::RateRequest(request))) => self.request(&received, &tenant, tenancy, &request),
            Ok((tenant, Pdu::Report(report))) => self.report(&received, &tenant, tenancy, &report),
            Err(DecodeError::Authentication | DecodeError::AuthKind) => {
                self.ignore(|i| &mut i.authentication)
            }
            Ok((_, Pdu::RateResponse(_))) | Err(_) => self.ignore(|i| &mut i.malformed),
        }
    }

    fn ignore(&self, cause: impl FnOnce(&mut Ignored) -> &mut u64) {
        *cause(&mut lock(&self.ignored)) += 1;
    }

    fn request(&self, received: &Received, tenant: &Tenant, tenancy: &Tenancy, view: &RateRequestView<'_>) {
        let (guards, resources): (Vec<_>, Vec<_>) = (view.guards().collect(), view.resources().collect());
        let request = Request {
            key_id: tenant.key_or_server_id,
            request_id: tenant.request_id,
            ttl_ms: view.dedup_ttl_ms.min(tenancy.dedup_ttl_max_ms),
            guards: &guards,
            resources: &resources,
        };
        let faults = self.faults().met_by(view.label, &resources);
        let mut sighting = self.sighting(received, tenant, Kind::Request, request.ttl_ms);
        let (fate, answer, outgoing) = self.answer(received, tenant, tenancy, &request, &faults);
        sighting.fate = Some(fate);
        sighting.verdict = answer.as_ref().map(Answer::verdict);
        self.service.recorder.record(|seq| Event {
            answer: answer.as_ref().map(AnswerSeen::new),
            dedup_ttl_ms: Some(view.dedup_ttl_ms),
            label: view.label.map(Into::into),
            guard_count: guards.len(),
            resource_count: resources.len(),
            guards: guards.iter().map(|guard| GuardSeen::new(guard, &self.service.names)).collect(),
            resources: resources.iter().map(|seen| ResourceSeen::new(seen, &self.service.names)).collect(),
            ..sighting.event(seq)
        });
        self.dispatch(outgoing, fate, &faults);
    }

    /// Decides and seals, as far as the faults let it come.
    fn answer(
        &self,
        received: &Received,
        tenant: &Tenant,
        tenancy: &Tenancy,
        request: &Request<'_>,
        faults: &Faults,
    ) -> (Fate, Option<Answer>, Option<Outgoing>) {
        if let Some(fate) = self.lost_on_arrival(faults) {
            return (fate, None, None);
        }
        let answer = self.decide(request, faults);
        if self.happens(faults.loss(Lost::Answers)) {
            return (Fate::Dropped, Some(answer), None);
        }
        let now_unix_ms = self.service.now_unix_ms();
        match respond::seal(answer.clone(), tenant, self.id, now_unix_ms, tenancy, faults) {
            Ok(datagram) => {
                let copies = faults.extra_copies().saturating_add(1);
                let fate = if faults.has(FaultKind::Hold) { Fate::Held } else { Fate::Answered };
                (fate, Some(answer), Some(Outgoing { datagram, destination: received.source, copies }))
            }
            Err(error) => {
                tracing::warn!(server = self.id, %error, "answer cannot be built");
                (Fate::Unsendable, Some(answer), None)
            }
        }
    }

    fn decide(&self, request: &Request<'_>, faults: &Faults) -> Answer {
        let now_ms = self.service.now_ms();
        let mut limiter = lock(&self.service.limiter);
        let first = !limiter.is_decided(now_ms, request);
        let answer = limiter.decide(now_ms, request, &faults.overrides());
        drop(limiter);
        lock(&self.answers).count(answer.verdict());
        if first {
            lock(&self.service.admissions).count(answer.verdict());
        }
        answer
    }

    fn report(&self, received: &Received, tenant: &Tenant, tenancy: &Tenancy, view: &ReportView<'_>) {
        let key_id = tenant.key_or_server_id;
        let mut sighting = self.sighting(received, tenant, Kind::Report, tenancy.dedup_ttl_max_ms);
        sighting.fate = self.lost_on_arrival(&self.faults());
        // A report goes to every server, and all of them are one service: it counts once.
        if sighting.fate.is_none() && !sighting.arrival.repeat {
            let now_ms = self.service.now_ms();
            let mut limiter = lock(&self.service.limiter);
            view.observations().for_each(|seen| limiter.observe(now_ms, key_id, tenancy.samples_max, &seen));
        }
        self.service.recorder.record(|seq| Event {
            observations: view
                .observations()
                .map(|seen| ObservationSeen::new(&seen, &self.service.names))
                .collect(),
            ..sighting.event(seq)
        });
    }

    fn sighting(&self, received: &Received, tenant: &Tenant, kind: Kind, ttl_ms: u32) -> Sighting {
        let (key_id, id) = (tenant.key_or_server_id, tenant.request_id);
        let arrival = lock(&self.service.limiter).arrive(self.service.now_ms(), self.id, key_id, id, ttl_ms);
        Sighting {
            time_ms: self.service.now_unix_ms(),
            kind,
            server: self.id,
            tenant: *tenant,
            source: received.source,
            bytes: received.bytes,
            nonce: received.nonce,
            arrival,
            fate: None,
            verdict: None,
        }
    }

    fn lost_on_arrival(&self, faults: &Faults) -> Option<Fate> {
        if faults.has(FaultKind::Silent) {
            return Some(Fate::Silent);
        }
        self.happens(faults.loss(Lost::Requests)).then_some(Fate::Dropped)
    }

    fn dispatch(&self, outgoing: Option<Outgoing>, fate: Fate, faults: &Faults) {
        let Some(outgoing) = outgoing else { return };
        if fate == Fate::Held {
            self.service.held().push(Held { server: self.id, outgoing });
            return;
        }
        let (delay_ms, jitter_ms) = faults.delays();
        let jitter_ms = if jitter_ms == 0 { 0 } else { lock(&self.dice).random_range(0..=jitter_ms) };
        self.outbox.put(outgoing, Duration::from_millis(delay_ms.saturating_add(jitter_ms)));
    }

    /// Throws the dice. Certain outcomes leave them alone, so that they do not disturb a seeded run.
    fn happens(&self, probability: f64) -> bool {
        match probability {
            p if p <= 0.0 => false,
            p if p >= 1.0 => true,
            p => lock(&self.dice).random_bool(p),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// No code here panics with a lock held and half a change done, so a poisoned lock's value is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
