//! The remedies that are compared, as nginx configurations. Everything that they share is in `CONF`; a remedy is what is
//! put in at three places of it.

use clap::ValueEnum;
use ratelimitly_harness::{Builder, Nginx};
use serde::Serialize;
use std::net::SocketAddr;

/// What protects the application, besides `limit_req` for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// `limit_req` alone.
    None,
    /// `max_conns` with the application's number of slots.
    MaxConns,
    /// A second `limit_req` for the total of all keys.
    FixedTotal,
    /// The module's guard and report.
    Guard,
    /// Guard, and `max_conns` with the application's number of slots.
    GuardMaxConns,
    /// Guard, and `max_conns` with twice that number.
    GuardMaxConnsWrong,
}

/// The guard under trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Guard {
    /// Life of a sample, milliseconds.
    pub ttl: u32,
    /// Latency from which the guard closes, milliseconds.
    pub threshold: u32,
    /// Most samples kept.
    pub max_samples: u32,
    /// Fewest samples that count.
    pub min_sample_threshold: u32,
}

impl Default for Guard {
    fn default() -> Guard {
        Guard { ttl: 20, threshold: 350, max_samples: 128, min_sample_threshold: 0 }
    }
}

const CONF: &str = r#"load_module {module};
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
    log_format lab '$msec $status $uri $http_x_key $upstream_addr $upstream_header_time $request_time $ratelimitly_verdict';
    access_log {prefix}/access.log lab;
    keepalive_requests 1000000;
    limit_req_zone $http_x_key zone=per_key:1m rate=50r/s;
    limit_req_status 429;
    {http}
    upstream app { zone app 64k; server {upstream}{server}; }
    server {
        listen 127.0.0.1:{port} backlog=4096;
        location / {
            limit_req zone=per_key burst=20 nodelay;
            {location}
            proxy_read_timeout 1s;
            proxy_pass http://app;
        }
    }
}
"#;

/// The policy's unit is long, for all parties share one machine: a late answer counts, too.
const MODULE: &str = r#"ratelimitly_auth_key {key};
    ratelimitly_dns_srv {zone};
    ratelimitly_dns_resolver {dns};
    ratelimitly_policy standard unit=100ms;
    ratelimitly_fail open;
    ratelimitly_tracker app "service=lab" ttl={ttl}ms max_samples={max} min_sample_threshold={min};
    ratelimitly_guard keeping_up tracker=app threshold={threshold}ms;"#;

const RULE: &str = r#"ratelimitly guard=keeping_up;
            ratelimitly_report app;
            add_header X-Verdict $ratelimitly_verdict always;"#;

impl Remedy {
    /// All of them, in the order of the tables.
    pub const ALL: [Remedy; 6] = [
        Remedy::None,
        Remedy::MaxConns,
        Remedy::FixedTotal,
        Remedy::Guard,
        Remedy::GuardMaxConns,
        Remedy::GuardMaxConnsWrong,
    ];

    /// For tables.
    pub fn title(self) -> &'static str {
        match self {
            Remedy::None => "limit_req alone",
            Remedy::MaxConns => "max_conns=20",
            Remedy::FixedTotal => "fixed total 160r/s",
            Remedy::Guard => "guard",
            Remedy::GuardMaxConns => "guard, max_conns=20",
            Remedy::GuardMaxConnsWrong => "guard, max_conns=40",
        }
    }

    /// Whether the module takes part.
    pub fn guarded(self) -> bool {
        matches!(self, Remedy::Guard | Remedy::GuardMaxConns | Remedy::GuardMaxConnsWrong)
    }

    /// An nginx that is set up so; with `Builder::dev` where the module takes part.
    pub fn nginx(self, upstream: SocketAddr, guard: &Guard) -> Builder {
        let server = match self {
            Remedy::MaxConns | Remedy::GuardMaxConns => " max_conns=20",
            Remedy::GuardMaxConnsWrong => " max_conns=40",
            _ => "",
        };
        let (http, location) = match self {
            Remedy::FixedTotal => {
                ("limit_req_zone all zone=total:1m rate=160r/s;", "limit_req zone=total burst=20 nodelay;")
            }
            _ if self.guarded() => (MODULE, RULE),
            _ => ("", ""),
        };
        let text = CONF.replace("{http}", http).replace("{location}", location);
        let builder = Nginx::builder(&text).set("upstream", upstream).set("server", server);
        let builder = builder.set("ttl", guard.ttl).set("max", guard.max_samples);
        builder.set("min", guard.min_sample_threshold).set("threshold", guard.threshold)
    }
}
