//! One discovery from the SRV records to the members (docs/protocol.md, "Discovery").
//!
//! Asks the nameservers what the core's `Gathering` wants to know, so many lookups at a time, with one deadline for all.
//! What the answers mean is decided there.

use super::error::DiscoveryError;
use super::nameservers::Nameservers;
use super::sleep::Sleep;
use super::{Found, Patience};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use ratelimitly_core::membership::Membership;
use ratelimitly_core::membership::answer::{Addresses, Family, LookupError};
use ratelimitly_core::membership::gathering::{Gathering, NoMembers, Question};
use ratelimitly_core::membership::targets::Targets;
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Most address lookups under way at a time.
const MOST_LOOKUPS: usize = 8;

/// Most sockets that one discovery holds at a time: a lookup holds one for each nameserver that it has asked, and what
/// it holds a worker's clients lack.
const MOST_SOCKETS: usize = 16;

/// How long a lookup without an answer keeps others waiting at first. Then it goes to the end of the queue, and gets
/// twice as long the next time.
const FIRST_TURN: Duration = Duration::from_secs(2);

/// What one discovery is to find.
pub struct Plan {
    /// Absolute name of the SRV records.
    pub name: Name,
    /// The nameservers to ask.
    pub nameservers: Nameservers,
    /// The families of addresses to ask for.
    pub families: Vec<Family>,
    /// Ends at the moment by which the discovery must be over.
    pub deadline: Sleep,
    /// Length of that time, for the error message.
    pub timeout_ms: u64,
    /// Replaces the records' time to live.
    pub valid_s: Option<u32>,
    /// The members known before, whose addresses stay where a lookup fails. Without any, members are given out before
    /// the end.
    pub known: Option<Arc<Membership>>,
    /// How long more addresses are waited for once there is one, where no member is known.
    pub delay: Duration,
    /// Told when there is a first address.
    pub patience: Patience,
    /// Called with members that can be used before the end.
    pub usable: Box<dyn Fn(Membership)>,
}

/// What happens next while addresses are looked up.
enum Next<T> {
    Answered(T),
    /// The members found so far are to be used.
    Delayed,
    TimeOver,
}

/// Runs the whole discovery.
pub async fn discover(mut plan: Plan) -> Result<Found, DiscoveryError> {
    let (targets, ttl_s) = find_targets(&mut plan).await?;
    let mut gathering = Gathering::new(&targets, &plan.families);
    let name = plan.name.to_string();
    if targets.is_empty() {
        let skipped = gathering.members(None).map_or_else(|nothing| nothing.left_out, |some| some.left_out);
        return Err(DiscoveryError::NoUsableTarget { name, skipped });
    }
    find_addresses(&mut plan, &mut gathering).await;
    gathering.give_up();
    let servers = targets.servers();
    match gathering.members(plan.known.as_deref()) {
        Ok(gathered) => Ok(Found { gathered, ttl_s: plan.valid_s.unwrap_or(ttl_s) }),
        Err(NoMembers { lacking: Some(lacking), left_out }) if left_out.addresses_unusable.is_empty() => {
            Err(DiscoveryError::NoAddress { name, servers, lacking })
        }
        Err(NoMembers { left_out, .. }) => {
            Err(DiscoveryError::NoUsableAddress { name, servers, skipped: left_out })
        }
    }
}

/// The usable SRV records and how long they live.
async fn find_targets(plan: &mut Plan) -> Result<(Targets<Name>, u32), DiscoveryError> {
    let name = plan.name.clone();
    let asking = pin!(plan.nameservers.ask(&name, RecordType::SRV));
    let found = match select(asking, &mut plan.deadline).await {
        Either::Left((Ok(found), _)) => found,
        Either::Left((Err(cause), _)) => {
            return Err(DiscoveryError::Lookup { name: name.to_string(), cause });
        }
        Either::Right(_) => {
            return Err(DiscoveryError::TimedOut { name: name.to_string(), timeout_ms: plan.timeout_ms });
        }
    };
    let mut targets = Targets::new();
    for record in &found.records {
        if let RData::SRV(srv) = &record.data {
            // Absolute, so that no search list comes in; lower case, so that equal names are one.
            let mut name = srv.target.to_lowercase();
            name.set_fqdn(true);
            targets.add(&srv.target.to_ascii(), name, srv.port);
        }
    }
    Ok((targets, found.ttl_s))
}

/// Looks up every address until the deadline; gives members out before the end where none is known.
async fn find_addresses(plan: &mut Plan, gathering: &mut Gathering<Name>) {
    let Plan { nameservers, deadline, known, delay, patience, usable, .. } = plan;
    let most = lookups_at_a_time(nameservers.count());
    let mut queue: VecDeque<(Question, u32)> = gathering.questions().map(|question| (question, 0)).collect();
    let crowded = Cell::new(false);
    let mut running = FuturesUnordered::new();
    let mut first: Option<Sleep> = None;
    let mut given = false;
    loop {
        while running.len() < most
            && let Some((question, turn)) = queue.pop_front()
        {
            let name = gathering.name(question).clone();
            running.push(
                look_up(nameservers, name, question.family, turn, &crowded)
                    .map(move |answer| (question, turn, answer)),
            );
        }
        crowded.set(!queue.is_empty());
        if running.is_empty() {
            return;
        }
        let next = poll_fn(|cx| {
            if let Poll::Ready(Some(answered)) = running.poll_next_unpin(cx) {
                return Poll::Ready(Next::Answered(answered));
            }
            if !given && first.as_mut().is_some_and(|first| first.poll_unpin(cx).is_ready()) {
                return Poll::Ready(Next::Delayed);
            }
            deadline.poll_unpin(cx).map(|()| Next::TimeOver)
        });
        match next.await {
            Next::TimeOver => return,
            Next::Answered((question, turn, None)) => {
                queue.push_back((question, turn + 1));
                continue;
            }
            Next::Answered((question, _, Some(answer))) => {
                if !gathering.answer(question, answer) {
                    continue;
                }
                patience.satisfied();
                if known.is_some() || (running.is_empty() && queue.is_empty()) {
                    continue;
                }
                first.get_or_insert_with(|| Sleep::new(*delay));
            }
            Next::Delayed => given = true,
        }
        if given && let Ok(gathered) = gathering.members(None) {
            usable(gathered.membership);
        }
    }
}

/// Asks one question; `None` where it kept others waiting for too long.
async fn look_up(
    nameservers: &Nameservers,
    name: Name,
    family: Family,
    turn: u32,
    crowded: &Cell<bool>,
) -> Option<Result<Addresses, LookupError>> {
    let mut asking = pin!(addresses(nameservers, &name, family));
    loop {
        match select(asking.as_mut(), Sleep::new(FIRST_TURN.saturating_mul(1 << turn.min(8)))).await {
            Either::Left((answer, _)) => return Some(answer),
            Either::Right(_) if crowded.get() => return None,
            Either::Right(_) => {}
        }
    }
}

async fn addresses(nameservers: &Nameservers, name: &Name, family: Family) -> Result<Addresses, LookupError> {
    let kind = match family {
        Family::V4 => RecordType::A,
        Family::V6 => RecordType::AAAA,
    };
    let found = nameservers.ask(name, kind).await?;
    let mut addresses = Addresses::new();
    for record in &found.records {
        match &record.data {
            RData::A(a) => addresses.add(a.0.into()),
            RData::AAAA(aaaa) => addresses.add(aaaa.0.into()),
            _ => {}
        }
    }
    Ok(addresses)
}

fn lookups_at_a_time(nameservers: usize) -> usize {
    (MOST_SOCKETS / nameservers.max(1)).clamp(1, MOST_LOOKUPS)
}
