//! Row M06: the defaults that the reference names are those of a worker. The documented texts are read out of
//! `docs/configuration.md` and written into one configuration; another leaves all of them out; both must ask alike.

use crate::packaging::text;
use ratelimitly_devserver::{Event, Fault};
use ratelimitly_harness::{Dev, Nginx, eventually_some, http};
use regex::Regex;
use std::time::Duration;

const WITHOUT: &str = r#"
    {service}
    ratelimitly_zone z "bucket=defaults" rate=1000r/s;
    ratelimitly_tracker t "service=defaults";
    ratelimitly_guard g tracker=t threshold=10s;
    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=z guard=g; empty_gif; }
    }
"#;

const WITH: &str = r#"
    {service}
    ratelimitly_policy {policy};
    ratelimitly_fail {fail};
    ratelimitly_debug {debug};
    ratelimitly_zone z "bucket=defaults" rate=1000r/s;
    ratelimitly_tracker t "service=defaults" ttl={ttl} max_samples={samples} min_sample_threshold={minimum};
    ratelimitly_guard g tracker=t threshold=10s;
    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=z guard=g; empty_gif; }
    }
"#;

/// What the servers and the client see of the defaults.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Milliseconds.
    horizon: Option<u32>,
    /// Datagrams of a request that nobody answers, to one server.
    sends: u32,
    /// TTL in milliseconds, samples kept, samples needed.
    tracker: (u32, u32, u32),
    status_without_answer: u16,
    debug_lines: bool,
}

#[tokio::test(flavor = "multi_thread")]
async fn m06_a_worker_has_the_defaults_that_are_documented() {
    let page = text("docs/configuration.md");
    let documented = [
        ("policy", default_of(&page, "ratelimitly_policy")),
        ("fail", default_of(&page, "ratelimitly_fail")),
        ("debug", default_of(&page, "ratelimitly_debug")),
        ("ttl", argument_default(&page, "ttl")),
        ("samples", argument_default(&page, "max_samples")),
        ("minimum", argument_default(&page, "min_sample_threshold")),
    ];
    let texts: Vec<&str> = documented.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["standard unit=20ms", "open", "off", "30s", "128", "8"]);

    let without = observe(WITHOUT, &[]).await;
    let with = observe(WITH, &documented).await;

    let expected = Seen {
        horizon: Some(60),
        sends: 2,
        tracker: (30_000, 128, 8),
        status_without_answer: 200,
        debug_lines: false,
    };
    assert_eq!(without, expected);
    assert_eq!(with, expected);
}

/// The reference's usage line of the tracker names the same defaults as its table.
#[test]
fn m06_the_usage_line_of_a_tracker_agrees_with_its_table() {
    let page = text("docs/configuration.md");
    for name in ["ttl", "max_samples", "min_sample_threshold"] {
        let shown = format!("[{name}={}]", argument_default(&page, name));
        assert!(page.contains(&shown), "the usage line lacks {shown}");
    }
}

/// The third column of the directive's row.
fn default_of(page: &str, directive: &str) -> String {
    let row =
        Regex::new(&format!(r"(?m)^\| \[`{directive}`\].*? \| http(?:, server, location)? \| `([^`]+)` \|"))
            .expect("a pattern");
    row.captures(page).unwrap_or_else(|| panic!("no default of {directive}"))[1].to_owned()
}

/// The second column of the argument's row.
fn argument_default(page: &str, argument: &str) -> String {
    let row = Regex::new(&format!(r"(?m)^\| `{argument}=` \| `([^`]+)` \|")).expect("a pattern");
    row.captures(page).unwrap_or_else(|| panic!("no default of {argument}="))[1].to_owned()
}

async fn observe(configuration: &str, values: &[(&str, String)]) -> Seen {
    let dev = Dev::single().await;
    let mut builder = Nginx::builder(configuration).dev(&dev).log_level("info");
    for (name, value) in values {
        builder = builder.set(name, value);
    }
    let nginx = builder.warm().await;
    dev.fault(Fault::Silent).await;

    let (status_without_answer, events) = unanswered(&dev, &nginx).await;

    let guard = &events[0].guards[0];
    let seen = Seen {
        horizon: events[0].dedup_ttl_ms,
        sends: events.len() as u32,
        tracker: (guard.ttl_ms, guard.max_samples, guard.min_sample_threshold),
        status_without_answer,
        debug_lines: !nginx.log_lines("ratelimitly: admission").is_empty(),
    };
    nginx.finish().await;
    seen
}

/// A request that was replayed, and its datagrams. On a machine that stalls for longer than the horizon of 60 ms a request
/// ends without its replay; then another one is made.
async fn unanswered(dev: &Dev, nginx: &Nginx) -> (u16, Vec<Event>) {
    eventually_some(Duration::from_secs(10), "a request is replayed", async || {
        dev.clear_events();
        let status = http::get(nginx.port(), "/").await.status;
        let events = dev.requests();
        (events.len() > 1).then_some((status, events))
    })
    .await
}
