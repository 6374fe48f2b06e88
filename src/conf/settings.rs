//! The http block's settings but the key: `ratelimitly_dns_srv`, `_dns_resolver`, `_policy`, `_bind`, `_debug`, `_warm_up`,
//! `_breaker`.

use std::collections::HashSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU32;

use ratelimitly_config::address;
use ratelimitly_config::dns_name;
use ratelimitly_config::policy;
use ratelimitly_config::resolver::{self, Server};
use ratelimitly_config::text::Excerpt;
use ratelimitly_core::breaker;

use crate::conf::MainConf;
use crate::conf::define::{milliseconds, named, number, required};
use crate::conf::problem::Problem;
use crate::nginx::conf::Conf;

const DNS_SRV: &str = "ratelimitly_dns_srv <name>";
const DNS_RESOLVER: &str = "ratelimitly_dns_resolver <address or host>[:<port>] ... [valid=<time>] [ipv4=on|off] \
                            [ipv6=on|off] (or its alias ratelimitly_resolver)";
const POLICY: &str = "ratelimitly_policy standard|single_round|custom [<argument>=<value> ...]";
const BIND: &str = "ratelimitly_bind <IPv4 or IPv6 address>";
const DEBUG: &str = "ratelimitly_debug on|off";
const BREAKER: &str = "ratelimitly_breaker off|failures=<n> [probe=<duration>]";
const WARM_UP: &str = "ratelimitly_warm_up on|off";

/// Time to the first probe without `probe=`, milliseconds.
const PROBE_MS: u32 = 1000;

/// `ratelimitly_dns_srv`.
pub fn dns_srv(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let name = only(cf, DNS_SRV)?;
    set_once(&mut main.loading.given.srv_name, DNS_SRV, dns_name::srv_name(name)?)?;
    if let Ok(address) = address::parse_bind(name) {
        cf.warn(format_args!(
            "{address} is an address, expected the domain name that has the servers' SRV records"
        ));
    }
    Ok(())
}

/// What `ratelimitly_dns_resolver` says, its hosts resolved.
pub struct OwnResolver {
    /// The nameservers in order, each once.
    pub servers: Vec<SocketAddr>,
    /// Its parameters.
    pub options: resolver::Options,
}

/// `ratelimitly_dns_resolver`, under both names.
pub fn dns_resolver(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let given = resolver::parse(&some(cf, DNS_RESOLVER)?)?;
    let mut servers = Vec::new();
    for server in given.servers {
        match server {
            Server::Address(address) => servers.push(address),
            Server::Host { name, port } => servers.extend(resolve(&name, port)?),
        }
    }
    let mut known = HashSet::new();
    servers.retain(|server| known.insert(*server));
    main.loading.given.resolver_place = Some(cf.place());
    set_once(&mut main.loading.given.resolver, DNS_RESOLVER, OwnResolver { servers, options: given.options })
}

/// The system's answer, once, while nginx loads: workers ask DNS through these nameservers only.
fn resolve(name: &str, port: u16) -> Result<Vec<SocketAddr>, Problem> {
    let unknown = |reason: String| Problem::ResolverHost { host: Excerpt::new(name.as_bytes()), reason };
    let found = (name, port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    let canonical = |found: SocketAddr| SocketAddr::new(found.ip().to_canonical(), found.port());
    let servers: Vec<SocketAddr> = found.map(canonical).collect();
    if servers.is_empty() { Err(unknown("it has no address".to_owned())) } else { Ok(servers) }
}

/// `ratelimitly_policy`.
pub fn policy(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let parsed = policy::parse(&some(cf, POLICY)?)?;
    set_once(&mut main.loading.given.policy, POLICY, cf.place())?;
    main.loading.given.max_unit_is_default = parsed.max_is_default;
    main.settings.policy = parsed.policy;
    Ok(())
}

/// `ratelimitly_bind`.
pub fn bind(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    set_once(&mut main.settings.bind, BIND, address::parse_bind(only(cf, BIND)?)?)
}

/// `ratelimitly_debug`.
pub fn debug(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    main.settings.debug = switch(cf, DEBUG)?;
    set_once(&mut main.loading.given.debug, DEBUG, ())
}

/// `ratelimitly_warm_up`.
pub fn warm_up(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    main.settings.warm_up = switch(cf, WARM_UP)?;
    set_once(&mut main.loading.given.warm_up, WARM_UP, ())
}

/// `ratelimitly_breaker`.
pub fn breaker(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let arguments = some(cf, BREAKER)?;
    if !matches!(arguments[..], [word] if word.eq_ignore_ascii_case(b"off")) {
        let [failures, probe] = named(&arguments, ["failures", "probe"], BREAKER)?;
        let failures = number("failures", required(failures, "failures", BREAKER)?)?;
        main.settings.breaker = Some(breaker::Settings {
            failures: NonZeroU32::new(failures).ok_or(Problem::NoFailures)?,
            probe_ms: probe.map_or(Ok(PROBE_MS), |text| milliseconds("probe", text))?,
        });
    }
    set_once(&mut main.loading.given.breaker, BREAKER, ())
}

fn switch(cf: &Conf, usage: &'static str) -> Result<bool, Problem> {
    match only(cf, usage)? {
        word if word.eq_ignore_ascii_case(b"on") => Ok(true),
        word if word.eq_ignore_ascii_case(b"off") => Ok(false),
        other => Err(Problem::Choice { text: Excerpt::new(other), usage }),
    }
}

/// The one argument.
pub(super) fn only<'a>(cf: &'a Conf, usage: &'static str) -> Result<&'a [u8], Problem> {
    match cf.arguments()[..] {
        [argument] => Ok(argument),
        _ => Err(Problem::Count { usage }),
    }
}

/// The arguments, at least one.
pub(super) fn some<'a>(cf: &'a Conf, usage: &'static str) -> Result<Vec<&'a [u8]>, Problem> {
    let arguments = cf.arguments();
    if arguments.is_empty() { Err(Problem::Count { usage }) } else { Ok(arguments) }
}

pub(super) fn set_once<T>(slot: &mut Option<T>, usage: &'static str, value: T) -> Result<(), Problem> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Problem::Duplicate { usage }),
    }
}
