//! Asks the configured nameservers one question, aliases followed.
//!
//! One nameserver is asked at once, each further one when half a second has passed without an answer or when those
//! before it have failed; the first real answer wins, and "no such record" is one. The nameserver that answered last
//! is asked first the next time. Repeating a query is the socket's part, TCP after a truncated answer is hickory's.

use super::error::LookupError;
use super::runtime::{Connector, Trouble};
use super::sleep::Sleep;
use super::udp::REPEAT;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverOpts};
use hickory_resolver::net::xfer::{DnsHandle, FirstAnswer};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{DnsRequestOptions, Query};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::{NameServerPool, PoolContext, TlsConfig};
use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Queries on one TCP connection at a time: all of one discovery fit.
const QUERIES_A_STREAM: usize = 2 * super::lookup::MOST_TARGETS;

/// Longest chain of aliases that is followed.
const MOST_ALIASES: usize = 8;

/// The nameservers, in the order of the configuration.
pub struct Nameservers {
    /// One pool each: hickory's own choice among several takes the first one's refusal for the answer.
    pools: Vec<NameServerPool<Connector>>,
    /// Which one is asked first: the one that answered last, in this discovery or an earlier one.
    first: Rc<Cell<usize>>,
    trouble: Rc<Trouble>,
}

/// Records of the type that was asked for.
pub struct Records {
    /// At least one.
    pub records: Vec<Record>,
    /// The shortest time to live of the records and the aliases that led to them, seconds.
    pub ttl_s: u32,
}

impl Nameservers {
    /// Nameservers at these addresses; `first` is the place of the one to ask first. `limit` bounds each single query; the
    /// caller bounds them all.
    pub fn new(
        servers: &[SocketAddr],
        first: Rc<Cell<usize>>,
        limit: Duration,
        connector: &Connector,
    ) -> Result<Nameservers, NetError> {
        let pools = servers.iter().map(|&server| pool(server, limit, connector.clone()));
        let trouble = connector.0.trouble();
        Ok(Nameservers { pools: pools.collect::<Result<_, _>>()?, first, trouble })
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
            let answers = self.answer(&name, kind).await.map_err(|error| self.explain(&error))?;
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
    async fn answer(&self, name: &Name, kind: RecordType) -> Result<Vec<Record>, NetError> {
        let mut waiting = FuturesUnordered::new();
        let first = self.first.get();
        let mut unasked = (0..self.pools.len()).map(|offset| (first + offset) % self.pools.len());
        let mut failure = NetError::NoConnections;
        loop {
            waiting.extend(unasked.next().map(|index| self.answer_of(index, name, kind)));
            let patience = if unasked.len() > 0 { REPEAT } else { Duration::MAX };
            match next_within(&mut waiting, patience).await {
                Some((index, Ok(records))) => {
                    self.first.set(index);
                    return Ok(records);
                }
                Some((_, Err(error))) if is_answer(&error) => return Err(error),
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
    ) -> (usize, Result<Vec<Record>, NetError>) {
        let query = Query::query(name.clone(), kind);
        let response = self.pools[index].lookup(query, DnsRequestOptions::default()).first_answer().await;
        (index, response.map(|response| response.into_message().answers))
    }

    /// hickory's error, or the socket's where hickory has dropped it on the way.
    fn explain(&self, error: &NetError) -> LookupError {
        match (error, self.trouble.last()) {
            (NetError::Dns(_), _) | (_, None) => LookupError::from(error),
            (_, Some(trouble)) => LookupError::Network(trouble),
        }
    }
}

/// What the next of `waiting` gives, or `None` when `patience` is over.
async fn next_within<F: Future>(waiting: &mut FuturesUnordered<F>, patience: Duration) -> Option<F::Output> {
    match select(waiting.next(), Sleep::new(patience)).await {
        Either::Left((output, _)) => output,
        Either::Right(_) => None,
    }
}

/// Whether a nameserver has spoken for the zone, so that another one would say the same.
fn is_answer(error: &NetError) -> bool {
    matches!(error, NetError::Dns(DnsError::NoRecordsFound(_)))
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
