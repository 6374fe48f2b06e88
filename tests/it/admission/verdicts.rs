//! From a verdict to a status, and to the access log: exact quotas, each condition of an allow by itself, what no
//! failure afterwards takes back.

use crate::POLICIES;
use crate::admission::warm;
use ratelimitly_devserver::Fault;
use ratelimitly_harness::{Dev, Nginx, http};

const THREE_AN_HOUR: &str = r#"
    {usual}
    ratelimitly_zone three "bucket=three" rate=3r/h;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=three; empty_gif; }
        location /health { return 204; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c11_the_quota_ends_exactly_where_it_should() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(THREE_AN_HOUR, &dev, fail).await;

        assert_eq!(statuses(&nginx, 5).await, [200, 200, 200, 429, 429]);

        let admissions = dev.admissions();
        let counts: Vec<_> =
            admissions.iter().map(|event| (event.guard_count, event.resource_count)).collect();
        assert_eq!(counts, [(0, 1); 5]);
        assert!(admissions.is_sorted_by_key(|event| event.timestamp_ms), "{admissions:#?}");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c12_the_access_log_tells_the_verdicts_at_the_boundary() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(THREE_AN_HOUR, &dev, fail).await;

        statuses(&nginx, 5).await;

        let logged = nginx.await_access_log(5).await;
        let verdicts: Vec<&str> = logged.iter().filter_map(|line| line.split(" \"").next()).collect();
        assert_eq!(verdicts, ["200 allow", "200 allow", "200 allow", "429 deny", "429 deny"]);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c13_an_unprotected_location_sends_nothing() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(THREE_AN_HOUR, &dev, fail).await;

        assert_eq!(http::get(nginx.port(), "/health").await.status, 204);

        assert_eq!(nginx.await_access_log(1).await, ["204 - \"GET /health HTTP/1.1\""]);
        nginx.admits().await; // whatever was sent before this has arrived before it
        assert!(dev.requests().is_empty());
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c10_the_worker_admits_again_after_it_has_refused() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(THREE_AN_HOUR, &dev, fail).await;
        let worker = nginx.worker_pid();
        dev.fault(Fault::ForceDeny).await;
        assert_eq!(http::get(nginx.port(), "/").await.status, 429);

        dev.reset().await.expect("the server allows again");

        assert_eq!(http::get(nginx.port(), "/").await.status, 200);
        assert_eq!(nginx.worker_pid(), worker);
        assert_eq!(dev.admissions().len(), 2);
        nginx.finish().await;
    }
}

const TWO_OF_EACH: &str = r#"
    {usual}
    ratelimitly_zone first "bucket=first" rate=1000r/s;
    ratelimitly_zone second "bucket=second" rate=1000r/s;
    ratelimitly_tracker one "service=one";
    ratelimitly_tracker other "service=other";
    ratelimitly_guard quick tracker=one threshold=50ms;
    ratelimitly_guard slow tracker=other threshold=100ms;

    server {
        listen 127.0.0.1:{port};
        location / {
            ratelimitly zone=first guard=quick;
            ratelimitly zone=second guard=slow;
            empty_gif;
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c21_each_guard_and_each_resource_can_deny_alone() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(TWO_OF_EACH, &dev, fail).await;

        assert_eq!(answer_under(&nginx, &dev, None).await, "200 allow");
        for guard in [(0, 50), (1, 100)] {
            let at_threshold = Fault::Latency { guard: guard.0, ms: guard.1 };
            assert_eq!(answer_under(&nginx, &dev, Some(at_threshold)).await, "429 deny", "{guard:?}");
        }
        for resource in [0, 1] {
            let short_of_one = Fault::Deficit { resource, tokens: 1 };
            assert_eq!(answer_under(&nginx, &dev, Some(short_of_one)).await, "429 deny", "{resource}");
        }
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c21_another_number_of_results_is_no_allow() {
    for (fail, unanswered) in [("open", "200 -"), ("close", "429 -")] {
        let dev = Dev::start().await;
        let nginx = warm(TWO_OF_EACH, &dev, fail).await;

        for fault in [Fault::EmptyResults, Fault::ShortResults, Fault::ExtraResults] {
            let answer = answer_under(&nginx, &dev, Some(fault.clone())).await;
            assert_eq!(answer, unanswered, "{fault:?}");
        }
        nginx.finish().await;
    }
}

const ONE_FOR_A_DEAD_UPSTREAM: &str = r#"
    {usual}
    ratelimitly_zone one "bucket=one" rate=1r/h;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=one; proxy_pass http://127.0.0.1:{port_dead}; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c23_an_upstreams_failure_gives_no_token_back() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(ONE_FOR_A_DEAD_UPSTREAM, &dev, fail).await;

        assert_eq!(statuses(&nginx, 2).await, [502, 429]);

        let request = "\"GET / HTTP/1.1\"";
        let expected = [format!("502 allow {request}"), format!("429 deny {request}")];
        assert_eq!(nginx.await_access_log(2).await, expected);
        nginx.finish().await;
    }
}

/// After the early reads nothing but the access log reads the verdict: another reader could refresh it.
const READ_EARLY: &str = r#"
    {usual}
    ratelimitly_zone one "bucket=one" rate=1r/h;
    map $ratelimitly_verdict $known {
        default yes;
        "" no;
    }

    server {
        listen 127.0.0.1:{port};
        set $before "verdict:$ratelimitly_verdict known:$known";
        location / { ratelimitly zone=one; add_header X-Before $before always; empty_gif; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c39_a_verdict_that_was_read_early_is_logged_as_it_became() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(READ_EARLY, &dev, fail).await;

        for _ in 0..2 {
            let response = http::get(nginx.port(), "/").await;
            assert_eq!(response.header("x-before"), Some("verdict: known:no"));
        }

        let request = "\"GET / HTTP/1.1\"";
        let expected = [format!("200 allow {request}"), format!("429 deny {request}")];
        assert_eq!(nginx.await_access_log(2).await, expected);
        nginx.finish().await;
    }
}

async fn statuses(nginx: &Nginx, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(http::get(nginx.port(), "/").await.status);
    }
    statuses
}

/// Status and verdict, as logged, of one request while only this fault is set.
async fn answer_under(nginx: &Nginx, dev: &Dev, fault: Option<Fault>) -> String {
    let before = nginx.access_log().len();
    dev.clear([]).await;
    if let Some(fault) = fault {
        dev.fault(fault).await;
    }
    http::get(nginx.port(), "/").await;
    let mut logged = nginx.await_access_log(before + 1).await;
    let line = logged.pop().expect("a line was waited for");
    line.split(" \"").next().expect("status and verdict").to_owned()
}
