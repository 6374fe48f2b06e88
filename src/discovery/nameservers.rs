//! Asks the configured nameservers one question, aliases followed.
//!
//! One nameserver is asked at once, each further one when half a second has passed without an answer or when those
//! before it have failed; the first real answer wins, and "no such record" is one. The nameserver that answered last
//! is asked first the next time. Repeating a query is the socket's part, TCP after a truncated answer is hickory's.
//!
//! One that answers a query with EDNS by FORMERR or NOTIMP is asked once more without, and from then on always so.

use super::error::lookup_error;
use super::runtime::{Connector, Trouble};
use super::sleep::Sleep;
use super::udp::REPEAT;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverOpts};
use hickory_resolver::net::xfer::{DnsHandle, FirstAnswer};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{DnsRequestOptions, Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::{NameServerPool, PoolContext, TlsConfig};
use ratelimitly_core::membership::MOST_ENDPOINTS;
use ratelimitly_core::membership::answer::LookupError;
use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Queries on one TCP connection at a time: all of one discovery fit.
const QUERIES_A_STREAM: usize = 2 * MOST_ENDPOINTS;

/// Longest chain of aliases that is followed.
const MOST_ALIASES: usize = 8;

/// What is known of the nameservers, by their place in the configuration, for as long as that configuration serves.
pub struct Habits {
    /// Which one is asked first: the one that answered last, in this discovery or an earlier one.
    first: Cell<usize>,
    /// Which ones do not know EDNS.
    plain: Vec<Cell<bool>>,
}

impl Habits {
    /// Nothing is known of so many nameservers.
    pub fn new(count: usize) -> Habits {
        Habits { first: Cell::new(0), plain: vec![Cell::new(false); count] }
    }
}

/// The nameservers, in the order of the configuration.
pub struct Nameservers {
    /// One pool each: hickory's own choice among several takes the first one's refusal for the answer.
    pools: Vec<(SocketAddr, NameServerPool<Connector>)>,
    habits: Rc<Habits>,
    /// Queries under way, by nameserver.
    pending: Rc<Pending>,
    trouble: Rc<Trouble>,
}

/// How many queries each nameserver has not answered yet.
pub struct Pending(Vec<(SocketAddr, Cell<u32>)>);

impl Pending {
    /// The nameservers that a discovery waits for.
    pub fn waited_for(&self) -> Vec<SocketAddr> {
        self.0.iter().filter(|(_, count)| count.get() > 0).map(|(server, _)| *server).collect()
    }
}

/// One query, as long as it is under way.
struct Asked<'a>(&'a Cell<u32>);

impl<'a> Asked<'a> {
    fn new(count: &'a Cell<u32>) -> Asked<'a> {
        count.set(count.get() + 1);
        Asked(count)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Records of the type that was asked for.
pub struct Records {
    /// At least one.
    pub records: Vec<Record>,
    /// The shortest time to live of the records and the aliases that led to them, seconds.
    pub ttl_s: u32,
}

impl Nameservers {
    /// Nameservers at these addresses. `limit` bounds each single query; the caller bounds them all.
    pub fn new(
        servers: &[SocketAddr],
        habits: Rc<Habits>,
        limit: Duration,
        connector: &Connector,
    ) -> Result<Nameservers, NetError> {
        let pools = servers.iter().map(|&server| Ok((server, pool(server, limit, connector.clone())?)));
        let pending = Pending(servers.iter().map(|&server| (server, Cell::new(0))).collect());
        let trouble = connector.0.trouble();
        Ok(Nameservers {
            pools: pools.collect::<Result<_, NetError>>()?,
            habits,
            pending: Rc::new(pending),
            trouble,
        })
    }

    /// The queries under way.
    pub fn pending(&self) -> Rc<Pending> {
        Rc::clone(&self.pending)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.pools.len()
    }

    /// The records of one type at `name`, which must be absolute, or at what it is an alias of.
    pub async fn ask(&self, name: &Name, kind: RecordType) -> Result<Records, LookupError> {
        let mut name = name.clone();
        let mut ttl_s = u32::MAX;
        for _ in 0..MOST_ALIASES {
            let answers = self.answer(&name, kind).await?;
            let (owners, alias_ttl_s) = aliases(&answers, &name);
            let mut records = answers;
            records.retain(|record| record.record_type() == kind && owners.contains(&record.name));
            ttl_s =
                records.iter().map(|record| record.ttl).min().unwrap_or(u32::MAX).min(alias_ttl_s).min(ttl_s);
            if !records.is_empty() {
                return Ok(Records { records, ttl_s });
            }
            match owners.last() {
                Some(end) if *end != name => name = end.clone(),
                _ => return Err(LookupError::NoSuchRecord),
            }
        }
        Err(LookupError::TooManyAliases)
    }

    /// The answer section of the first nameserver that has an answer.
    async fn answer(&self, name: &Name, kind: RecordType) -> Result<Vec<Record>, LookupError> {
        let mut waiting = FuturesUnordered::new();
        let first = self.habits.first.get();
        let mut unasked = (0..self.pools.len()).map(|offset| (first + offset) % self.pools.len());
        let mut failure = lookup_error(&NetError::NoConnections);
        loop {
            waiting.extend(unasked.next().map(|index| self.answer_of(index, name, kind)));
            let patience = if unasked.len() > 0 { REPEAT } else { Duration::MAX };
            match next_within(&mut waiting, patience).await {
                Some((index, Ok(records))) => {
                    self.habits.first.set(index);
                    return Ok(records);
                }
                // It has spoken for the zone; another nameserver would say the same.
                Some((_, Err(error))) if error.is_answer() => return Err(error),
                Some((_, Err(error))) => failure = error,
                None => {}
            }
            if waiting.is_empty() && unasked.len() == 0 {
                return Err(failure);
            }
        }
    }

    async fn answer_of(
        &self,
        index: usize,
        name: &Name,
        kind: RecordType,
    ) -> (usize, Result<Vec<Record>, LookupError>) {
        let _asked = Asked::new(&self.pending.0[index].1);
        let plain = &self.habits.plain[index];
        let with_edns = !plain.get();
        let mut answer = self.query(index, name, kind, with_edns).await;
        if with_edns && answer.as_ref().is_err_and(knows_no_edns) {
            plain.set(true);
            answer = self.query(index, name, kind, false).await;
        }
        (index, answer.map_err(|error| self.explain(index, &error)))
    }

    async fn query(
        &self,
        index: usize,
        name: &Name,
        kind: RecordType,
        edns: bool,
    ) -> Result<Vec<Record>, NetError> {
        let query = Query::query(name.clone(), kind);
        let mut options = DnsRequestOptions::default();
        options.use_edns = edns;
        let response = self.pools[index].1.lookup(query, options).first_answer().await?;
        Ok(response.into_message().answers)
    }

    /// hickory's error, or that nameserver's socket's where hickory has dropped it on the way.
    fn explain(&self, index: usize, error: &NetError) -> LookupError {
        let trouble = self.trouble.of(self.pools[index].0);
        match (error, trouble) {
            (NetError::Dns(_) | NetError::Timeout, _) | (_, None) => lookup_error(error),
            (_, Some(trouble)) => LookupError::Network(trouble),
        }
    }
}

/// How a nameserver from before EDNS answers a query that has it.
fn knows_no_edns(error: &NetError) -> bool {
    let codes = [ResponseCode::FormErr, ResponseCode::NotImp];
    matches!(error, NetError::Dns(DnsError::ResponseCode(code)) if codes.contains(code))
}

/// What the next of `waiting` gives, or `None` when `patience` is over.
async fn next_within<F: Future>(waiting: &mut FuturesUnordered<F>, patience: Duration) -> Option<F::Output> {
    match select(waiting.next(), Sleep::new(patience)).await {
        Either::Left((output, _)) => output,
        Either::Right(_) => None,
    }
}

/// `name` and what it is an alias of, in order, as far as `answers` tell; and the aliases' shortest time to live.
fn aliases(answers: &[Record], name: &Name) -> (Vec<Name>, u32) {
    let mut owners = vec![name.clone()];
    let mut ttl_s = u32::MAX;
    while let Some((alias, ttl)) = answers.iter().find_map(|record| match &record.data {
        RData::CNAME(alias) if owners.last() == Some(&record.name) => Some((&alias.0, record.ttl)),
        _ => None,
    }) {
        if owners.contains(alias) || owners.len() > MOST_ALIASES {
            break;
        }
        owners.push(alias.clone());
        ttl_s = ttl_s.min(ttl);
    }
    (owners, ttl_s)
}

fn pool(
    server: SocketAddr,
    limit: Duration,
    connector: Connector,
) -> Result<NameServerPool<Connector>, NetError> {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = server.port();
        connection
    });
    let nameserver = NameServerConfig::new(server.ip(), true, connections.into());
    let mut options = ResolverOpts::default();
    options.timeout = limit;
    options.max_active_requests = QUERIES_A_STREAM;
    let context = PoolContext::new(options, TlsConfig::new()?);
    Ok(NameServerPool::from_config([nameserver], Arc::new(context), connector))
}
