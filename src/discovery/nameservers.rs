//! Asks the configured nameservers one question.
//!
//! The first nameserver is asked at once, each further one when half a second has passed without an answer or when
//! those before it have failed; the first real answer wins, and "no such record" is one. Repeating a query, TCP after
//! a truncated answer and following aliases are hickory's and the sockets' part.

use super::runtime::Connector;
use super::sleep::Sleep;
use super::udp::REPEAT;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hickory_resolver::Resolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{Name, RecordType};
use std::net::SocketAddr;
use std::time::Duration;

/// Queries on one TCP connection at a time: all of one discovery fit.
const QUERIES_A_STREAM: usize = 2 * super::lookup::MOST_TARGETS;

/// The nameservers, in the order of the configuration.
pub struct Nameservers {
    resolvers: Vec<Resolver<Connector>>,
}

impl Nameservers {
    /// Nameservers at these addresses. `limit` bounds each single query; the caller bounds them all.
    pub fn new(
        servers: &[SocketAddr],
        limit: Duration,
        connector: &Connector,
    ) -> Result<Nameservers, NetError> {
        let resolvers = servers.iter().map(|&server| resolver(server, limit, connector.clone()));
        Ok(Nameservers { resolvers: resolvers.collect::<Result<_, _>>()? })
    }

    /// The records of one type at `name`, which must be absolute.
    pub async fn ask(&self, name: &Name, kind: RecordType) -> Result<Lookup, NetError> {
        let mut waiting = FuturesUnordered::new();
        let mut unasked = self.resolvers.iter();
        let mut failure = NetError::NoConnections;
        loop {
            if let Some(resolver) = unasked.next() {
                waiting.push(resolver.lookup(name.clone(), kind));
            }
            let patience = if unasked.len() > 0 { REPEAT } else { Duration::MAX };
            match next_within(&mut waiting, patience).await {
                Some(Ok(lookup)) => return Ok(lookup),
                Some(Err(error)) if is_answer(&error) => return Err(error),
                Some(Err(error)) => failure = error,
                None => {}
            }
            if waiting.is_empty() && unasked.len() == 0 {
                return Err(failure);
            }
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

fn resolver(
    server: SocketAddr,
    limit: Duration,
    connector: Connector,
) -> Result<Resolver<Connector>, NetError> {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = server.port();
        connection
    });
    let nameserver = NameServerConfig::new(server.ip(), true, connections.into());
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![nameserver]);
    let mut builder = Resolver::builder_with_config(config, connector);
    let options = builder.options_mut();
    options.timeout = limit;
    options.attempts = 0;
    // How long members count is the core's to decide; a cached answer, above all a negative one, would defeat it.
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.max_active_requests = QUERIES_A_STREAM;
    builder.build()
}
