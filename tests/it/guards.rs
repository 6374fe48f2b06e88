//! What guards decide and what is reported afterwards: a report follows its directive and the outcome, never a guard.

mod fast;

use crate::reports::attempts;
use ratelimitly_core::id::{TrackerId, TrackerSettings};
use ratelimitly_devserver::{DnsFault, Event, Fault};
use ratelimitly_harness::{Dev, Nginx, http};

/// Two guards on one tracker; each test says what is in effect at `/`.
const SHOP: &str = r#"
    {usual}
    ratelimitly_zone calls "bucket=guards" rate=1000r/s;
    ratelimitly_tracker shop "service=shop" ttl=60s max_samples=16 min_sample_threshold=1;
    ratelimitly_guard tight tracker=shop threshold=100ms;
    ratelimitly_guard loose tracker=shop threshold=200ms;

    server {
        listen 127.0.0.1:{port};
        location / { {rules} empty_gif; }
    }
"#;

async fn start(dev: &Dev, fail: &str, rules: &str) -> Nginx {
    Nginx::builder(SHOP).dev(dev).set("fail", fail).set("rules", rules).start().await
}

/// A request's status and access-log line; its log phase is over then.
async fn ask(nginx: &Nginx) -> (u16, String) {
    let before = nginx.access_log().len();
    let status = http::get(nginx.port(), "/").await.status;
    (status, nginx.await_access_log(before + 1).await.swap_remove(before))
}

fn shop() -> String {
    let settings = TrackerSettings { ttl_ms: 60_000, max_samples: 16, min_sample_threshold: 1 };
    TrackerId::new(b"shop", settings).to_string()
}

/// Guards and resources of the only admission.
fn counts(dev: &Dev) -> (usize, usize) {
    let admissions = dev.admissions();
    assert_eq!(admissions.len(), 1, "one admission: {admissions:#?}");
    (admissions[0].guard_count, admissions[0].resource_count)
}

/// Expects one report with one entry, for the tracker `shop`.
fn one_report_of_the_shop(reports: &[Event]) {
    assert_eq!(reports.len(), 1, "one report: {reports:#?}");
    assert_eq!(reports[0].observations.len(), 1);
    let seen = &reports[0].observations[0];
    assert_eq!(seen.tracker, shop());
    assert_eq!((seen.ttl_ms, seen.max_samples, seen.min_sample_threshold), (60_000, 16, 1));
    assert!(seen.latency_ms >= 1);
}

/// Lets every guard at the first place fail: its latency is not below the threshold of 100 ms.
async fn slow(dev: &Dev) {
    dev.fault(Fault::Latency { guard: 0, ms: 100 }).await;
}

/// Asks under these rules while the guards pass, or while they fail. Nothing is reported.
async fn reports_nothing(rules: &str, guard_passes: bool, asked: (usize, usize)) {
    for fail in ["open", "close"] {
        let dev = Dev::start().await;
        let nginx = start(&dev, fail, rules).await;
        if !guard_passes {
            slow(&dev).await;
        }

        let answer = ask(&nginx).await;

        let (status, verdict) = if guard_passes { (200, "allow") } else { (429, "deny") };
        assert_eq!(answer, (status, format!("{status} {verdict} \"GET / HTTP/1.1\"")));
        assert_eq!(counts(&dev), asked);
        assert_eq!(attempts(&nginx), [""; 0]);
        nginx.finish().await;
        assert!(dev.reports().is_empty());
    }
}

/// One test for each: its name, the rules, whether the guards pass, and the guards and resources that are asked about.
macro_rules! reports_nothing {
    ($($name:ident: $rules:literal, $passes:literal, $asked:expr;)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            reports_nothing($rules, $passes, $asked).await;
        }
    )+};
}

reports_nothing! {
    g01_a_guard_alone_reports_nothing: "ratelimitly zone=calls guard=tight;", true, (1, 1);
    g03_a_request_that_a_guard_denies_is_not_reported:
        "ratelimitly zone=calls guard=tight; ratelimitly_report shop;", false, (1, 1);
    g05_a_guard_alone_decides_and_counts_once: "ratelimitly guard=tight guard=tight;", true, (1, 0);
    g06_a_guard_alone_denies: "ratelimitly guard=tight; ratelimitly_report shop;", false, (1, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g02_an_allowed_request_is_reported_once_to_every_server() {
    let dev = Dev::start().await;
    let rules = "ratelimitly zone=calls guard=tight; ratelimitly_report shop;";
    let nginx = start(&dev, "close", rules).await;
    // A cold worker may use the first member before it knows the others.
    nginx.admits().await;
    nginx.await_log_line("members of .* are now .*, .*, ").await;

    let (status, logged) = ask(&nginx).await;

    assert_eq!((status, logged.as_str()), (200, "200 allow \"GET / HTTP/1.1\""));
    assert_eq!(counts(&dev), (1, 1));
    dev.await_reports("one at each of three servers", |reports| reports.len() == 3).await;
    assert_eq!(attempts(&nginx).len(), 1);
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 3, "no server got it twice");
    one_report_of_the_shop(&dev.distinct_reports());
    assert_ne!(dev.distinct_reports()[0].request_id, dev.admissions()[0].request_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn g04_two_guards_of_one_tracker_make_one_report() {
    let dev = Dev::single().await;
    let rules = "ratelimitly zone=calls guard=tight guard=loose; ratelimitly_report shop;";
    let nginx = start(&dev, "close", rules).await;

    let (status, _) = ask(&nginx).await;

    assert_eq!(status, 200);
    let guards: Vec<_> = dev.admissions()[0].guards.iter().map(|guard| guard.threshold_ms).collect();
    assert_eq!(guards, [100, 200]);
    assert!(dev.admissions()[0].guards.iter().all(|guard| guard.tracker == shop()));
    dev.await_reports("one", |reports| !reports.is_empty()).await;
    nginx.finish().await;
    one_report_of_the_shop(&dev.reports());
}

#[tokio::test(flavor = "multi_thread")]
async fn g07_a_request_that_failed_open_without_members_tries_its_report_once() {
    let dev = Dev::single().await;
    dev.dns_fault(DnsFault::NoSrv).await;
    let rules = "ratelimitly zone=calls guard=tight; ratelimitly_report shop;";
    let nginx = start(&dev, "open", rules).await;

    let (status, logged) = ask(&nginx).await;

    assert_eq!((status, logged.as_str()), (200, "200 - \"GET / HTTP/1.1\""));
    let attempts = attempts(&nginx);
    assert_eq!(attempts.len(), 1, "{attempts:#?}");
    assert!(attempts[0].contains("failure="), "{attempts:#?}");
    nginx.finish().await;
    assert!(dev.requests().is_empty());
    assert!(dev.reports().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn g08_a_request_that_timed_out_open_is_reported() {
    let dev = Dev::single().await;
    let rules = "ratelimitly zone=calls guard=tight; ratelimitly_report shop;";
    let nginx = start(&dev, "open", rules).await;
    nginx.admits().await;
    dev.fault(Fault::Silent).await;

    let timeout = async || {
        let asked = ask(&nginx).await;
        (asked, dev.await_reports("one", |reports| !reports.is_empty()).await)
    };
    let (((status, logged), reports), requests) = dev.replayed(timeout).await;

    assert_eq!((status, logged.as_str()), (200, "200 - \"GET / HTTP/1.1\""));
    assert_eq!(requests.iter().map(|request| request.copy).collect::<Vec<_>>(), [1, 2], "{requests:#?}");
    assert!(reports[0].observations[0].latency_ms >= 200, "the wait is part of it: {reports:#?}");
    nginx.finish().await;
    one_report_of_the_shop(&dev.reports());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_passes_only_strictly_below_its_threshold() {
    let dev = Dev::single().await;
    let nginx = start(&dev, "open", "ratelimitly guard=tight;").await;
    nginx.admits().await;

    let mut statuses = Vec::new();
    for ms in [99, 100, 101] {
        dev.fault(Fault::Latency { guard: 0, ms }).await;
        statuses.push(http::get(nginx.port(), "/").await.status);
    }

    assert_eq!(statuses, [200, 429, 429]);
    nginx.finish().await;
}
