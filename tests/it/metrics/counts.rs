//! What each counter counts, exactly.

use crate::metrics::Samples;
use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::{Dev, Nginx, http};

const SITE: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=100ms;
        ratelimitly_zone few "bucket=few" rate=2r/1h;
        ratelimitly_zone many "bucket=many" rate=1000r/s;
        ratelimitly_tracker app "service=app" ttl=5s max_samples=16 min_sample_threshold=1;
        ratelimitly_guard healthy tracker=app threshold=100ms;
        server {
            listen 127.0.0.1:{port_metrics};
            location = /metrics { ratelimitly_metrics; }
        }
        server {
            listen 127.0.0.1:{port};
            location /few { ratelimitly zone=few; ratelimitly zone=many; empty_gif; }
            location /tried { ratelimitly_dry_run on; ratelimitly zone=few; empty_gif; }
            location /guarded { ratelimitly guard=healthy; ratelimitly_report app time=$arg_time; empty_gif; }
            location /open { ratelimitly zone=many; empty_gif; }
            location /close { ratelimitly_fail close; ratelimitly zone=many; empty_gif; }
            location /named { ratelimitly zone=many tokens=$arg_tokens; empty_gif; }
            location /skip { ratelimitly zone=many if=$arg_asked; empty_gif; }
        }
    }
"#;

async fn site(dev: &Dev) -> Nginx {
    Nginx::builder(SITE).dev(dev).start().await
}

#[tokio::test]
async fn z01_allows_and_denials_are_counted_by_outcome_and_by_zone() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;

    for status in [200, 200, 429, 429, 429] {
        assert_eq!(http::get(nginx.port(), "/few").await.status, status);
    }
    assert_eq!(http::get(nginx.port(), "/tried").await.status, 200);

    let samples = Samples::of(&nginx).await;
    assert_eq!(
        samples.counted("admissions_total"),
        [
            (r#"admissions_total{outcome="allow"}"#, 2.0),
            (r#"admissions_total{outcome="deny"}"#, 3.0),
            (r#"admissions_total{outcome="deny_dry_run"}"#, 1.0),
        ]
    );
    assert_eq!(
        samples.counted("zone_results_total"),
        [
            (r#"zone_results_total{zone="few",result="deny"}"#, 3.0),
            (r#"zone_results_total{zone="few",result="deny_dry_run"}"#, 1.0),
            (r#"zone_results_total{zone="few",result="pass"}"#, 2.0),
            (r#"zone_results_total{zone="many",result="pass"}"#, 5.0),
        ]
    );
    assert_eq!(samples.get("admission_duration_seconds_count"), 6.0);
    assert_eq!(samples.get(r#"admission_duration_seconds_bucket{le="+Inf"}"#), 6.0);
    nginx.finish().await;
}

#[tokio::test]
async fn z02_a_guard_counts_its_results_and_shows_the_latency_that_it_was_told() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;

    assert_eq!(http::get(nginx.port(), "/guarded?time=0.25").await.status, 200);
    dev.await_reports("one", |reports| !reports.is_empty()).await;
    assert_eq!(http::get(nginx.port(), "/guarded").await.status, 429);

    let samples = Samples::of(&nginx).await;
    assert_eq!(
        samples.counted("guard_results_total"),
        [
            (r#"guard_results_total{guard="healthy",result="deny"}"#, 1.0),
            (r#"guard_results_total{guard="healthy",result="pass"}"#, 1.0),
        ]
    );
    assert_eq!(samples.get(r#"guard_latency_seconds{guard="healthy"}"#), 0.25);
    assert_eq!(samples.counted("reports_total"), [(r#"reports_total{result="sent"}"#, 1.0)]);
    nginx.finish().await;
}

#[tokio::test]
async fn z03_failures_are_counted_by_cause_under_both_policies() {
    let dev = Dev::single().await;
    let mut nginx = site(&dev).await;
    nginx.allow_log("no valid answer|tokens");
    nginx.admits().await;
    dev.fault(Fault::Silent).await;

    assert_eq!(http::get(nginx.port(), "/open").await.status, 200);
    assert_eq!(http::get(nginx.port(), "/close").await.status, 429);
    assert_eq!(http::get(nginx.port(), "/named?tokens=x").await.status, 200);

    let samples = Samples::of(&nginx).await;
    assert_eq!(
        samples.counted("failures_total"),
        [(r#"failures_total{cause="invalid-value"}"#, 1.0), (r#"failures_total{cause="timeout"}"#, 2.0),]
    );
    assert_eq!(samples.get(r#"admissions_total{outcome="fail_open"}"#), 2.0);
    assert_eq!(samples.get(r#"admissions_total{outcome="fail_close"}"#), 1.0);
    dev.clear([FaultKind::Silent]).await;
    nginx.finish().await;
}

#[tokio::test]
async fn z04_a_request_that_no_rule_applied_to_is_counted_once_as_a_skip() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;

    assert_eq!(http::get(nginx.port(), "/skip").await.status, 200);
    assert_eq!(http::get(nginx.port(), "/skip?asked=1").await.status, 200);

    let samples = Samples::of(&nginx).await;
    assert_eq!(samples.get(r#"admissions_total{outcome="skip"}"#), 1.0);
    assert_eq!(samples.get(r#"admissions_total{outcome="allow"}"#), 1.0);
    assert_eq!(samples.get("admission_duration_seconds_count"), 1.0);
    nginx.finish().await;
}

#[tokio::test]
async fn z05_datagrams_discoveries_and_members_are_counted() {
    let dev = Dev::start().await;
    let nginx = site(&dev).await;

    for _ in 0..3 {
        assert_eq!(http::get(nginx.port(), "/open").await.status, 200);
    }

    let sent = dev.requests().len() as f64;
    let samples = Samples::of(&nginx).await;
    let of_kind = |kind| samples.get(&format!(r#"datagrams_sent_total{{kind="{kind}"}}"#));
    assert_eq!(of_kind("request") + of_kind("replay") + of_kind("completion"), sent);
    assert_eq!(of_kind("request"), 9.0);
    assert!(samples.get(r#"datagrams_received_total{result="valid"}"#) >= 3.0);
    assert_eq!(samples.get(r#"discoveries_total{result="found"}"#), 1.0);
    assert_eq!(samples.get("members"), 3.0);
    assert!(samples.get("members_updated_timestamp_seconds") > 1.7e9);
    assert_eq!(samples.get("unit_seconds"), 0.1);
    nginx.finish().await;
}
