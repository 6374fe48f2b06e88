//! The four things that spoil a guard and the three forms of the report, as configurations of nginx and as load.

use crate::overload::upstream::Capacity;
use clap::ValueEnum;
use ratelimitly_harness::{Builder, Nginx};
use std::net::SocketAddr;
use std::time::Duration;

/// What reports something else than the application's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Spoiler {
    /// A quarter of the requests are answered from the cache.
    CachedPage,
    /// A quarter of the requests go to a server that is down.
    Fast502,
    /// nginx refuses what is above a `max_conns` that is too high.
    MaxConns,
    /// Every client takes about a second to read its response, and the application is well.
    SlowClient,
}

/// The form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// Each request's duration.
    Plain,
    /// Only of requests that the application has answered or has let time out.
    If,
    /// What the application took.
    Time,
}

const CONF: &str = r#"load_module {module};
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
    log_format lab '$msec $uri $status $upstream_header_time';
    access_log {prefix}/access.log lab;
    keepalive_requests 1000000;
    proxy_cache_path {prefix}/cache keys_zone=cache:1m;
    {service}
    ratelimitly_policy  standard unit=100ms;
    ratelimitly_tracker app "service=lab" ttl=20ms min_sample_threshold=0;
    ratelimitly_guard   keeping_up tracker=app threshold={threshold}ms;
    map $upstream_status $worked {
        ~(200|504)$ 1;
        default     0;
    }
    map $upstream_status $backend_time {
        ~504$   $upstream_response_time;
        default $upstream_header_time;
    }
    upstream app { zone app 64k; server {upstream}{server}; }
    server {
        listen 127.0.0.1:{port} backlog=4096;
        ratelimitly        guard=keeping_up;
        ratelimitly_report app{terms};
        add_header X-Verdict $ratelimitly_verdict always;
        proxy_read_timeout 2s;
        location /light { proxy_pass http://app; }
        location /large { limit_rate 8k; proxy_pass http://app; }
        location /down  { proxy_pass http://127.0.0.1:9; }
        location /cached {
            proxy_cache       cache;
            proxy_cache_key   one;
            proxy_cache_valid 200 1h;
            proxy_pass        http://app;
        }
    }
}
"#;

impl Spoiler {
    /// All of them, in the order of the table.
    pub const ALL: [Spoiler; 4] =
        [Spoiler::CachedPage, Spoiler::Fast502, Spoiler::MaxConns, Spoiler::SlowClient];

    /// For the table.
    pub fn title(self) -> &'static str {
        match self {
            Spoiler::CachedPage => "cached page",
            Spoiler::Fast502 => "fast 502",
            Spoiler::MaxConns => "max_conns=80 for 8 slots",
            Spoiler::SlowClient => "slow clients",
        }
    }

    /// Requests a second in all.
    pub fn per_second(self) -> f64 {
        match self {
            Spoiler::CachedPage | Spoiler::Fast502 => 400.0,
            Spoiler::MaxConns => 450.0,
            Spoiler::SlowClient => 200.0,
        }
    }

    /// The path of the request with this number.
    pub fn path(self, number: usize) -> &'static str {
        match self {
            Spoiler::CachedPage if number.is_multiple_of(4) => "/cached",
            Spoiler::Fast502 if number.is_multiple_of(4) => "/down",
            Spoiler::SlowClient => "/large",
            _ => "/light",
        }
    }

    /// What the application can do: before the change it keeps up, and behind slow clients it always does.
    pub fn capacity(self, changed: bool) -> Capacity {
        let slots = if changed && self != Spoiler::SlowClient { 8 } else { 30 };
        Capacity { slots, light: Duration::from_millis(50), heavy: Duration::from_millis(300) }
    }
}

impl Terms {
    /// All of them, in the order of the table.
    pub const ALL: [Terms; 3] = [Terms::Plain, Terms::If, Terms::Time];

    fn arguments(self) -> &'static str {
        match self {
            Terms::Plain => "",
            Terms::If => " if=$worked",
            Terms::Time => " time=$backend_time",
        }
    }
}

/// An nginx that is set up so; with `Builder::dev`.
pub fn nginx(spoiler: Spoiler, terms: Terms, upstream: SocketAddr) -> Builder {
    // A queue of 80 makes a wait of half a second: well above the threshold and below the timeout.
    let (server, threshold) = if spoiler == Spoiler::MaxConns { (" max_conns=80", 200) } else { ("", 350) };
    let builder = Nginx::builder(CONF).set("upstream", upstream).set("server", server);
    builder.set("threshold", threshold).set("terms", terms.arguments())
}
