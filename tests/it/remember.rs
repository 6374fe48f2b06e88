//! `remember_deny=` of a zone: a worker remembers a refusal and refuses again without asking, until the time that the answer
//! told is over.

use crate::metrics::Samples;
use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::{Dev, Nginx, http};
use std::time::{Duration, Instant};

const SITE: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=100ms;
        ratelimitly_log_level warn;
        ratelimitly_deny_status 503;
        ratelimitly_zone client "bucket=$arg_user" rate=2r/1h remember_deny=1m;
        ratelimitly_zone quick "bucket=q$arg_user" rate=2r/1s remember_deny=1m;
        ratelimitly_zone brief "bucket=b$arg_user" rate=2r/1h remember_deny=300ms;
        ratelimitly_zone other "bucket=other" rate=1000r/s;
        ratelimitly_tracker app "service=app" ttl=1m min_sample_threshold=1;
        ratelimitly_guard healthy tracker=app threshold=100ms;
        log_format said '$status $ratelimitly_outcome $ratelimitly_verdict [$ratelimitly_denied_by] $ratelimitly_time '
                        '$ratelimitly_server $ratelimitly_limit $ratelimitly_remaining $ratelimitly_retry_after '
                        '$ratelimitly_violated_policies';
        server {
            listen 127.0.0.1:{port_metrics};
            location = /metrics { ratelimitly_metrics; }
        }
        server {
            listen 127.0.0.1:{port};
            access_log {prefix}/access.log said;
            location / { ratelimitly zone=client tokens=$arg_tokens; ratelimitly zone=other; empty_gif; }
            location /quick { ratelimitly zone=quick; empty_gif; }
            location /brief { ratelimitly zone=brief; empty_gif; }
            location /tried { ratelimitly_dry_run on; ratelimitly zone=client; empty_gif; }
            location /guarded { ratelimitly zone=client guard=healthy; ratelimitly_report app time=$arg_time; empty_gif; }
        }
    }
"#;

async fn site(dev: &Dev) -> Nginx {
    let mut nginx = Nginx::builder(SITE).dev(dev).start().await;
    nginx.allow_log("request denied");
    nginx
}

async fn ask(nginx: &Nginx, path: &str) -> u16 {
    http::get(nginx.port(), path).await.status
}

/// The first refusal, and how many questions there were up to it.
async fn refused(dev: &Dev, nginx: &Nginx, path: &str) -> usize {
    for _ in 0..5 {
        if ask(nginx, path).await == 503 {
            return dev.admissions().len();
        }
    }
    panic!("{path} is never refused");
}

#[tokio::test]
async fn b11_a_flood_of_a_refused_client_asks_nothing_more() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let questions = refused(&dev, &nginx, "/?user=a&tokens=1").await;

    for _ in 0..50 {
        assert_eq!(ask(&nginx, "/?user=a&tokens=1").await, 503);
    }

    assert_eq!(dev.admissions().len(), questions);
    let samples = Samples::of(&nginx).await;
    assert_eq!(samples.get(r#"admissions_total{outcome="deny_remembered"}"#), 50.0);
    assert_eq!(samples.get(r#"zone_results_total{zone="client",result="deny_remembered"}"#), 50.0);
    assert_eq!(samples.get(r#"zone_results_total{zone="other",result="deny_remembered"}"#), 0.0);
    assert_eq!(samples.get("admission_duration_seconds_count"), questions as f64);
    nginx.finish().await;
}

#[tokio::test]
async fn b12_the_log_tells_a_remembered_denial_and_what_it_is_of() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    refused(&dev, &nginx, "/?user=a&tokens=1").await;
    let before = nginx.log_lines("request denied by zone:client").len();

    assert_eq!(ask(&nginx, "/?user=a&tokens=1").await, 503);

    let lines = nginx.await_access_log(4).await;
    assert_eq!(lines[3], r#"503 deny_remembered - [zone:client] - - - - 10 [\x22client\x22]"#, "{lines:#?}");
    assert_eq!(nginx.log_lines("request denied by zone:client").len(), before + 1);
    nginx.finish().await;
}

#[tokio::test]
async fn b13_another_client_is_asked_about() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    refused(&dev, &nginx, "/?user=a&tokens=1").await;

    assert_eq!(ask(&nginx, "/?user=b&tokens=1").await, 200);

    nginx.finish().await;
}

#[tokio::test]
async fn b14_no_refusal_outlives_the_time_that_the_answer_told() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    refused(&dev, &nginx, "/quick?user=a").await;
    let since = Instant::now();

    while ask(&nginx, "/quick?user=a").await == 503 {
        assert!(since.elapsed() < Duration::from_secs(5), "remembered for a minute");
    }

    nginx.finish().await;
}

#[tokio::test]
async fn b15_a_refusal_is_remembered_no_longer_than_the_operator_says() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let questions = refused(&dev, &nginx, "/brief?user=a").await;
    let since = Instant::now();

    while dev.admissions().len() == questions {
        assert_eq!(ask(&nginx, "/brief?user=a").await, 503);
        assert!(since.elapsed() < Duration::from_secs(5), "remembered for an hour");
    }

    nginx.finish().await;
}

#[tokio::test]
async fn b16_a_question_for_fewer_tokens_is_asked() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    assert_eq!(ask(&nginx, "/?user=a&tokens=1").await, 200);
    assert_eq!(ask(&nginx, "/?user=a&tokens=2").await, 503);
    let questions = dev.admissions().len();

    assert_eq!(ask(&nginx, "/?user=a&tokens=2").await, 503);
    assert_eq!(dev.admissions().len(), questions);
    assert_eq!(ask(&nginx, "/?user=a&tokens=1").await, 200);

    nginx.finish().await;
}

#[tokio::test]
async fn b17_a_dry_run_neither_remembers_nor_looks() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    for _ in 0..4 {
        assert_eq!(ask(&nginx, "/tried?user=a").await, 200);
    }
    assert_eq!(dev.admissions().len(), 4, "each was asked");

    assert_eq!(ask(&nginx, "/?user=a&tokens=1").await, 503);
    assert_eq!(dev.admissions().len(), 5, "nothing was remembered");
    assert_eq!(ask(&nginx, "/tried?user=a").await, 200);
    assert_eq!(dev.admissions().len(), 6, "nothing was looked up");

    nginx.finish().await;
}

#[tokio::test]
async fn b18_a_guards_refusal_is_not_remembered_and_a_remembered_denial_is_not_reported() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    assert_eq!(ask(&nginx, "/guarded?user=a&time=1").await, 200);
    dev.await_reports("one", |reports| !reports.is_empty()).await;
    for asked in [2, 3] {
        assert_eq!(ask(&nginx, "/guarded?user=b&time=1").await, 503);
        assert_eq!(dev.admissions().len(), asked);
    }

    refused(&dev, &nginx, "/?user=a&tokens=2").await;
    assert_eq!(ask(&nginx, "/?user=a&tokens=2").await, 503);
    assert_eq!(dev.distinct_reports().len(), 1);
    nginx.finish().await;
}

#[tokio::test]
async fn b19_an_outage_does_not_make_a_remembered_denial_a_failure() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    refused(&dev, &nginx, "/?user=a&tokens=1").await;
    dev.fault(Fault::Silent).await;

    assert_eq!(ask(&nginx, "/?user=a&tokens=1").await, 503);

    dev.clear([FaultKind::Silent]).await;
    nginx.finish().await;
}
