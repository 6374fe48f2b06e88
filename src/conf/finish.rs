//! The end of the http block: checks that need the whole configuration, and the settings of discovery.
//!
//! Called in postconfiguration, when nginx has merged every server and location; the http block's own `resolver` and
//! `resolver_timeout` are final then.

use std::net::SocketAddr;

use ratelimitly_config::dns_name;
use ratelimitly_config::resolv_conf::{LOCAL_SERVER, MAX_SERVERS, ResolvConf};
use ratelimitly_config::text::{Count, Excerpt};
use ratelimitly_core::key::ApiKey;
use ratelimitly_core::wire::{MAX_DATAGRAM, rate_request_size};

use crate::conf::problem::Problem;
use crate::conf::rules::{Admission, InEffect};
use crate::conf::settings::OwnResolver;
use crate::conf::{DnsSettings, MainConf};
use crate::nginx::conf::{Conf, NoMemory};
use crate::nginx::log::Level;
use crate::nginx::module::ModuleIndex;

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The configuration cannot be used; the reason has been logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected;

impl From<NoMemory> for Rejected {
    fn from(_: NoMemory) -> Rejected {
        Rejected
    }
}

/// Checks the whole configuration, completes this module's and gives it back. Where no rule and no report is in effect
/// there is nothing to check, and nothing outside the configuration is read.
///
/// # Errors
/// [`Rejected`], logged.
pub fn finish(cf: &Conf) -> Result<&MainConf, Rejected> {
    let main = cf.http_conf(ModuleIndex::own()).ok_or(Rejected)?;
    // SAFETY: made by `create_main_conf` of this cycle; nobody reads it through `cf` while this reference is used.
    let main = unsafe { main.cast::<MainConf>().as_mut() };
    complete(cf, main)?;
    Ok(main)
}

fn complete(cf: &Conf, main: &mut MainConf) -> Result<(), Rejected> {
    let in_effect = std::mem::take(&mut main.in_effect);
    if let Some(name) = main.given.srv_name.take() {
        main.srv_name = name;
    } else if let Some(key) = &main.key {
        main.srv_name = dns_name::default_srv_name(key.key_id());
    }
    if !in_effect.any() {
        return Ok(());
    }
    let Some(key) = &main.key else { return refuse(cf, "ratelimitly_auth_key", Problem::KeyRequired) };
    let (horizon_ms, quota_ms) = (main.policy.horizon_ms(), key.quotas().dedup_ttl_ms_max);
    if horizon_ms > quota_ms {
        return refuse(cf, "ratelimitly_policy", Problem::Horizon { horizon_ms, quota_ms });
    }
    warn_of_windows(cf, key, &in_effect);
    for (admission, label_len) in &in_effect.admissions {
        warn_of_size(cf, key, admission, *label_len);
    }
    match dns_settings(cf, main.given.resolver.take()) {
        Ok(dns) => main.dns = dns,
        Err(problem) => return refuse(cf, "ratelimitly_dns_resolver", problem),
    }
    Ok(())
}

fn refuse(cf: &Conf, directive: &str, problem: Problem) -> Result<(), Rejected> {
    cf.log(Level::Emerg, directive, problem);
    Err(Rejected)
}

/// The client refuses a request with such a window before anything is sent.
fn warn_of_windows(cf: &Conf, key: &ApiKey, in_effect: &InEffect) {
    let quota_ms = key.quotas().rate_window_size_ms_max;
    let mut zones: Vec<_> = in_effect.admissions.iter().flat_map(|(admission, _)| &admission.zones).collect();
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    zones.dedup_by(|a, b| a.name == b.name);
    for zone in zones {
        let Some(window_ms) = zone.rate.fixed().map(|rate| rate.window_ms).filter(|&ms| ms > quota_ms) else {
            continue;
        };
        let name = Excerpt::new(&zone.name);
        cf.log(
            Level::Warn,
            "ratelimitly_zone",
            format_args!(
                "the window of zone \"{name}\", {window_ms} ms, is above the API key's quota of {quota_ms} ms: every \
                 request that it applies to follows \"ratelimitly_fail\""
            ),
        );
    }
}

fn warn_of_size(cf: &Conf, key: &ApiKey, admission: &Admission, label_len: usize) {
    let (resources, guards) = (admission.zones.len(), admission.guards.len());
    let size = rate_request_size(key.kind(), guards, resources, label_len);
    if size <= MAX_DATAGRAM {
        return;
    }
    cf.log(
        Level::Warn,
        "ratelimitly",
        format_args!(
            "the rules from {} on are too many for one request: {}, {} and a label of {} need {size} bytes, at most \
             {MAX_DATAGRAM} are allowed; such a request follows \"ratelimitly_fail\"",
            admission.place,
            Count(resources, "zone"),
            Count(guards, "guard"),
            Count(label_len, "byte"),
        ),
    );
}

/// Own servers, else the http block's, else the system's. The http block's limits hold in every case, except for what the
/// module's own directive says.
fn dns_settings(cf: &Conf, own: Option<OwnResolver>) -> Result<DnsSettings, Problem> {
    let http = cf.http_resolver();
    let (own, options) = own.map_or_else(Default::default, |own| (Some(own.servers), own.options));
    let mut servers = match own {
        Some(servers) => servers,
        None if !http.servers.is_empty() => http.servers,
        None => system_servers(cf),
    };
    if servers.len() > MAX_SERVERS {
        cf.log(
            Level::Warn,
            "ratelimitly_dns_resolver",
            format_args!("of {} nameservers only the first {MAX_SERVERS} are used", servers.len()),
        );
        servers.truncate(MAX_SERVERS);
    }
    let settings = DnsSettings {
        servers,
        timeout_ms: http.timeout_ms,
        // A `valid=0` means the records' own times.
        valid_s: options.valid_s.map_or(http.valid_s, |seconds| (seconds != 0).then_some(seconds)),
        ipv4: options.ipv4.unwrap_or(http.ipv4),
        ipv6: options.ipv6.unwrap_or(http.ipv6),
    };
    if settings.ipv4 || settings.ipv6 { Ok(settings) } else { Err(Problem::NoFamily) }
}

fn system_servers(cf: &Conf) -> Vec<SocketAddr> {
    let warn = |message: std::fmt::Arguments<'_>| {
        cf.log(Level::Warn, "ratelimitly_dns_resolver", format_args!("{RESOLV_CONF}: {message}"));
    };
    let content = match std::fs::read(RESOLV_CONF) {
        Ok(content) => content,
        Err(error) => {
            warn(format_args!("cannot be read ({error}), 127.0.0.1 is used"));
            return vec![LOCAL_SERVER];
        }
    };
    let system = ResolvConf::parse(&content);
    for warning in &system.warnings {
        warn(format_args!("{warning}"));
    }
    system.servers
}
