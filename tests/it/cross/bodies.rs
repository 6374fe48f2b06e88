//! Uploads and their admission: of nothing, of what fits nginx's memory and of what does not, read before they are passed
//! on or while. Whatever the outcome, it is the same over every protocol: an allowed body arrives whole, a refused
//! one not at all.

use crate::cross::protocol::protocols;
use crate::cross::site::{Row, Site};
use ratelimitly_devserver::{Command, DnsFault, Fault};

/// Each test says which zones there are and which rules are in effect.
const UPLOADS: &str = r#"
    {service}
    ratelimitly_policy single_round unit={unit};
    ratelimitly_fail {fail};
    {zones}
    client_max_body_size 2m;

    server {
        {listeners}
        ratelimitly_label $request_uri;
        {rules}
        proxy_http_version 1.1;
        location /buffered { proxy_pass http://{upstream}; }
        location /unbuffered { proxy_request_buffering off; proxy_pass http://{upstream}; }
    }
"#;

/// A site of these zones and rules whose verdicts have time to come.
async fn patient(fail: &str, zones: &str, rules: &str) -> Site {
    let values = [("unit", "1900ms"), ("fail", fail), ("zones", zones), ("rules", rules)];
    Site::warm(UPLOADS, &values, &[]).await
}

/// The uploads of each test: three lengths, each buffered and not.
fn uploads(row: impl Fn(Row) -> Row) -> Vec<Row> {
    let lengths = [0, 16 << 10, 2 << 20];
    let both = |length| [Row::post("/buffered", length), Row::post("/unbuffered", length)];
    lengths.into_iter().flat_map(both).map(row).collect()
}

const CALLS: &str = r#"ratelimitly_zone calls "bucket=calls" rate=1000r/s;"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_body_arrives_whole() {
    // Without a verdict nothing would arrive.
    let mut site = patient("close", CALLS, "ratelimitly zone=calls;").await;

    let responses = site.over_each_protocol(&uploads(|row| row.arrives(1))).await;

    for (protocol, responses) in responses {
        assert!(responses.iter().all(|response| response.text() == "stored"), "{protocol}");
    }
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_the_rate_gets_429_and_goes_nowhere() {
    // Without a verdict everything would arrive. Each protocol has a port and with it a bucket of its own.
    let zones = r#"ratelimitly_zone once "bucket=once:$server_port" rate=1r/h;"#;
    let mut site = patient("open", zones, "ratelimitly zone=once;").await;

    site.over_each_protocol(&[Row::get("/buffered").arrives(1)]).await;
    site.over_each_protocol(&uploads(|row| row.gives(429, "deny"))).await;

    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_a_guard_refuses_gets_429_and_goes_nowhere() {
    let zones = r#"
        ratelimitly_zone calls "bucket=calls" rate=1000r/s;
        ratelimitly_tracker shop "service=shop";
        ratelimitly_guard quick tracker=shop threshold=100ms;
    "#;
    let mut site = patient("open", zones, "ratelimitly zone=calls guard=quick;").await;
    site.dev.fault(Fault::Latency { guard: 0, ms: 100 }).await;

    site.over_each_protocol(&uploads(|row| row.gives(429, "deny"))).await;

    let asked = site.admissions_of("/");
    assert!(asked.iter().all(|event| (event.guard_count, event.resource_count) == (1, 1)), "{asked:#?}");
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_an_answer_follows_the_failure_policy() {
    for (fail, status, arrivals) in [("open", 200, 1), ("close", 429, 0)] {
        // Nobody answers, so nothing is gained by patience.
        let rules = "ratelimitly zone=calls;";
        let values = [("unit", "50ms"), ("fail", fail), ("zones", CALLS), ("rules", rules)];
        let mut site = Site::warm(UPLOADS, &values, &[]).await;
        site.dev.fault(Fault::Silent).await;

        site.over_each_protocol(&uploads(|row| row.gives(status, "-").arrives(arrivals))).await;

        site.finish().await;
    }
}

/// Bucket, rate and threshold come with the request.
const OF_THE_REQUEST: &str = r#"
    ratelimitly_zone asked "bucket=$http_x_bucket" rate=$http_x_rate;
    ratelimitly_tracker shop "service=$http_x_bucket";
    ratelimitly_guard quick tracker=shop threshold=$http_x_threshold;
"#;

fn valued(row: Row, rate: &'static str) -> Row {
    row.header("x-bucket", "given").header("x-rate", rate).header("x-threshold", "321ms")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_values_of_a_request_are_those_that_are_asked_for() {
    let mut site = patient("close", OF_THE_REQUEST, "ratelimitly zone=asked guard=quick;").await;

    site.over_each_protocol(&uploads(|row| valued(row, "1234r/5s").arrives(1))).await;

    for event in site.admissions_of("/") {
        let (resource, guard) = (&event.resources[0], &event.guards[0]);
        let seen = (resource.rate_limit, resource.window_size_ms, guard.threshold_ms);
        assert_eq!(seen, (1234, 5000, 321), "{event:#?}");
    }
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_makes_no_sense_is_not_asked_about_and_follows_the_failure_policy() {
    for (fail, status, arrivals) in [("open", 200, 1), ("close", 429, 0)] {
        let mut site = patient(fail, OF_THE_REQUEST, "ratelimitly zone=asked guard=quick;").await;

        let rows = uploads(|row| valued(row, "often").unasked().gives(status, "-").arrives(arrivals));
        site.over_each_protocol(&rows).await;

        site.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_at_a_cold_worker_waits_for_discovery_and_arrives_whole() {
    let rules = "ratelimitly zone=calls;";
    let values = [("unit", "1900ms"), ("fail", "close"), ("zones", CALLS), ("rules", rules)];
    let mut site = Site::cold(UPLOADS, &values).await;
    // Long enough for every stream to come before the servers are known.
    let slow = Command::Dns { fault: DnsFault::Delay { ms: 100 } };
    site.dev.apply(slow).await.expect("DNS can be slow");

    for (place, protocol) in protocols().iter().enumerate() {
        if place > 0 {
            site.nginx.reload().await;
        }
        assert!(site.nginx.udp_sockets().is_empty(), "{protocol}: the worker has asked before");
        site.over(*protocol, &uploads(|row| row.arrives(1))).await;
    }

    site.finish().await;
}
