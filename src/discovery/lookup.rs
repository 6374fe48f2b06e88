//! One discovery from the SRV records to the members (docs/protocol.md, "Discovery").
//!
//! Whatever a nameserver answers, the work is bounded: so many targets, so many addresses each, so many lookups at a
//! time, and one deadline for all. What is left out is counted, not an error, as long as one member remains.

use super::error::{DiscoveryError, LookupError};
use super::nameservers::Nameservers;
use super::sleep::Sleep;
use super::{Found, Skipped};
use futures_util::future::{Either, select};
use futures_util::stream::{self, StreamExt};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use ratelimitly_core::id::ServerId;
use ratelimitly_core::membership::Member;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;

/// Most SRV records that are followed; the oldest servers are kept.
pub const MOST_TARGETS: usize = 64;

/// Most addresses of one target.
pub const MOST_ADDRESSES: usize = 16;

/// Most address lookups under way at a time.
const MOST_LOOKUPS: usize = 8;

/// Most sockets that one discovery holds at a time: a lookup holds one for each nameserver that it has asked, and what
/// it holds a worker's clients lack.
const MOST_SOCKETS: usize = 16;

/// What one discovery is to find.
pub struct Plan {
    /// Absolute name of the SRV records.
    pub name: Name,
    /// Whom to ask.
    pub nameservers: Nameservers,
    /// Address record types to ask for.
    pub families: Vec<RecordType>,
    /// Ends at the moment by which the discovery must be over.
    pub deadline: Sleep,
    /// Length of that time, for the error message.
    pub timeout_ms: u64,
    /// Replaces the records' time to live.
    pub valid_s: Option<u32>,
}

/// A usable SRV record. Ordered by id: the oldest server first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    id: ServerId,
    port: u16,
    name: Name,
}

/// What the address lookups gave by the deadline.
struct Addresses {
    usable: BTreeMap<Name, BTreeSet<IpAddr>>,
    unusable: BTreeSet<IpAddr>,
    /// What the last failing lookup failed of.
    failure: LookupError,
}

/// Runs the whole discovery.
pub async fn discover(mut plan: Plan) -> Result<Found, DiscoveryError> {
    let name = plan.name.to_string();
    let mut skipped = Skipped::default();
    let (targets, ttl_s) = find_targets(&mut plan).await?;
    skipped.targets_unusable = targets.iter().filter(|target| target.is_none()).count();
    let mut targets: Vec<Target> = targets.into_iter().flatten().collect();
    if targets.is_empty() {
        return Err(DiscoveryError::NoUsableTarget { name, skipped });
    }
    targets.sort_unstable();
    targets.dedup();
    skipped.targets_cut = targets.len().saturating_sub(MOST_TARGETS);
    targets.truncate(MOST_TARGETS);
    let addresses = find_addresses(&mut plan, &targets).await;
    let members = members(&targets, &addresses.usable, &mut skipped);
    skipped.addresses_unusable = addresses.unusable.into_iter().collect();
    if members.is_empty() {
        let targets = targets.len();
        return Err(match skipped.addresses_unusable[..] {
            [] => DiscoveryError::NoAddress { name, targets, cause: addresses.failure },
            _ => DiscoveryError::NoUsableAddress { name, targets, skipped },
        });
    }
    Ok(Found { members, ttl_s: plan.valid_s.unwrap_or(ttl_s), skipped })
}

/// The SRV records, `None` for each that is not usable, and how long they live.
async fn find_targets(plan: &mut Plan) -> Result<(Vec<Option<Target>>, u32), DiscoveryError> {
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
    let targets = found.records.iter().filter_map(|record| match &record.data {
        RData::SRV(srv) => Some(target(&srv.target, srv.port)),
        _ => None,
    });
    Ok((targets.collect(), found.ttl_s))
}

fn target(name: &Name, port: u16) -> Option<Target> {
    let id = ServerId::from_srv_target(&name.to_ascii())?;
    // Absolute, so that no search list comes in; lower case, so that equal names are one.
    let mut name = name.to_lowercase();
    name.set_fqdn(true);
    (port != 0).then_some(Target { id, port, name })
}

/// The addresses that are found by the deadline.
async fn find_addresses(plan: &mut Plan, targets: &[Target]) -> Addresses {
    let names: BTreeSet<&Name> = targets.iter().map(|target| &target.name).collect();
    let questions: Vec<(&Name, RecordType)> =
        names.into_iter().flat_map(|name| plan.families.iter().map(move |&family| (name, family))).collect();
    let nameservers = &plan.nameservers;
    let mut answers = stream::iter(questions)
        .map(|(name, family)| async move { (name, nameservers.ask(name, family).await) })
        .buffer_unordered(lookups_at_a_time(nameservers.count()));
    let mut addresses =
        Addresses { usable: BTreeMap::new(), unusable: BTreeSet::new(), failure: LookupError::TimedOut };
    while let Either::Left((Some((name, answer)), _)) = select(answers.next(), &mut plan.deadline).await {
        match answer {
            Ok(found) => addresses.add(name, &found.records),
            Err(error) => addresses.failure = error,
        }
    }
    addresses
}

impl Addresses {
    fn add(&mut self, name: &Name, records: &[Record]) {
        let (usable, unusable) =
            records.iter().filter_map(|record| address(&record.data)).partition::<Vec<_>, _>(is_usable);
        self.usable.entry(name.clone()).or_default().extend(usable);
        self.unusable.extend(unusable);
    }
}

fn lookups_at_a_time(nameservers: usize) -> usize {
    (MOST_SOCKETS / nameservers.max(1)).clamp(1, MOST_LOOKUPS)
}

fn address(data: &RData) -> Option<IpAddr> {
    match data {
        RData::A(a) => Some(IpAddr::V4(a.0)),
        RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
        _ => None,
    }
}

/// Whether a datagram can be meant for it.
fn is_usable(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !address.is_unspecified() && !address.is_multicast() && !broadcast
}

fn members(
    targets: &[Target],
    addresses: &BTreeMap<Name, BTreeSet<IpAddr>>,
    skipped: &mut Skipped,
) -> Vec<Member> {
    let mut members = Vec::with_capacity(targets.len());
    for target in targets {
        let Some(found) = addresses.get(&target.name).filter(|found| !found.is_empty()) else {
            skipped.without_address.push(target.id);
            continue;
        };
        skipped.addresses_cut += found.len().saturating_sub(MOST_ADDRESSES);
        let endpoints =
            found.iter().take(MOST_ADDRESSES).map(|&address| SocketAddr::new(address, target.port));
        members.push(Member { id: target.id, endpoints: endpoints.collect() });
    }
    members
}
