//! The end of the http block: checks that need the whole configuration, and the settings of discovery.
//!
//! Called in postconfiguration, when nginx has merged every server and location; the http block's own `resolver` and
//! `resolver_timeout` are final then.

use std::net::SocketAddr;

use ratelimitly_config::dns_name;
use ratelimitly_config::resolv_conf::{LOCAL_SERVER, MAX_SERVERS, ResolvConf};
use ratelimitly_core::policy::AutoUnit;

use crate::conf::MainConf;
use crate::conf::checks;
use crate::conf::loading::Loading;
use crate::conf::problem::Problem;
use crate::conf::settings::OwnResolver;
use crate::nginx::conf::{Conf, NoMemory, Place, ResolverSettings};
use crate::nginx::log::Level;
use crate::nginx::module::ModuleIndex;
use crate::settings::Settings;
use crate::shared::{Definitions, Shared, SharedMembers};

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
    // SAFETY: this module's entry in the cycle that loads begins with it; nothing reads it through `cf` while this
    // reference is used.
    let main = unsafe { main.cast::<MainConf>().as_mut() };
    complete(cf, main)?;
    Ok(main)
}

fn complete(cf: &Conf, main: &mut MainConf) -> Result<(), Rejected> {
    let mut loading = std::mem::take(&mut main.loading);
    if let Some(name) = loading.given.srv_name.take() {
        main.settings.srv_name = name;
    } else if let Some(key) = &main.settings.key {
        main.settings.srv_name = dns_name::default_srv_name(key.key_id());
    }
    if let Some(in_effect) = loading.in_effect.place().cloned() {
        check_horizon(cf, &mut main.settings, &loading)?;
        let key = main.settings.key.as_ref().ok_or(Problem::KeyRequired);
        let key = key.map_err(|problem| refuse(cf, &in_effect, "ratelimitly_auth_key", problem))?;
        checks::check_in_effect(cf, key, &mut loading);
        let own = loading.given.resolver.take();
        let place = loading.given.resolver_place.as_ref().unwrap_or(&in_effect);
        let refused = |problem| refuse(cf, place, "ratelimitly_dns_resolver", problem);
        main.settings.dns = dns_settings(cf, own).map_err(refused)?;
    }
    main.settings.in_effect = loading.in_effect.place().is_some();
    main.settings.warm_up |= loading.given.ready;
    if main.settings.in_effect || loading.given.page.is_some() {
        let names = [loading.zones.names(), loading.guards.names()].map(<[_]>::to_vec);
        let [zones, guards] = names;
        let unit_ms = main.settings.policy.unit_ms();
        let members = match main.settings.in_effect {
            true => SharedMembers::of_conf(cf, &main.settings.srv_name, &main.settings.dns)?,
            false => SharedMembers::none(),
        };
        main.shared = Shared::of_conf(cf, Definitions { zones, guards }, unit_ms, members)?;
    }
    checks::check_all(cf, loading);
    Ok(())
}

fn check_horizon(cf: &Conf, settings: &mut Settings, loading: &Loading) -> Result<(), Rejected> {
    let Some(key) = &settings.key else { return Ok(()) };
    let (policy, quota_ms) = (&settings.policy, key.quotas().dedup_ttl_ms_max);
    let given = &loading.given;
    let horizon_ms = policy.longest_horizon_ms();
    if horizon_ms <= quota_ms {
        return Ok(());
    }
    let problem = match policy.auto_unit() {
        None => Problem::Horizon { horizon_ms, quota_ms },
        Some(AutoUnit { min_ms, max_ms }) => {
            let most_ms = quota_ms / policy.units();
            let shorter = AutoUnit { min_ms, max_ms: most_ms };
            if given.max_unit_is_default
                && let Ok(shorter) = policy.clone().with_auto_unit(shorter)
            {
                settings.policy = shorter;
                return Ok(());
            }
            Problem::LongestHorizon { max_ms, horizon_ms, quota_ms, most_ms }
        }
    };
    // Without a policy of its own the configuration has the default one, and the key decides.
    let place = given.policy.as_ref().or(given.key.as_ref().map(|(_, place)| place)).ok_or(Rejected)?;
    Err(refuse(cf, place, "ratelimitly_policy", problem))
}

fn refuse(cf: &Conf, place: &Place, directive: &str, problem: Problem) -> Rejected {
    cf.log_at(place, Level::Emerg, directive, problem);
    Rejected
}

/// Own servers, else the http block's, else the system's. The http block's limits hold in every case, except for what the
/// module's own directive says.
fn dns_settings(cf: &Conf, own: Option<OwnResolver>) -> Result<ResolverSettings, Problem> {
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
    let settings = ResolverSettings {
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
