//! Values rendered from a request: what is refused before anything is sent, and what reaches the servers byte for byte.
//! Conformance rows V01 to V16, each under both failure policies. The variables come from request arguments here so that a
//! test can choose them; a real bucket is never keyed by what a client chooses.

use ratelimitly_core::id::{BucketId, TrackerId, TrackerSettings};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_devserver::Event;
use ratelimitly_harness::{Dev, Nginx, http, quotas};

/// Both failure policies, and the status of a request that follows them.
const BOTH: [(&str, u16); 2] = [("open", 200), ("close", 429)];

const ARGUMENTS_AS_VALUES: &str = r#"
    {service}
    # One datagram for each admission, however slow the machine is.
    ratelimitly_policy single_round unit=2s;
    ratelimitly_fail {fail};

    map $arg_value $tier {
        default nonsense;
        gold    10r/s;
    }

    ratelimitly_zone fixed   "bucket=shop"                     rate=10000r/s;
    ratelimitly_zone bucket  "bucket=$arg_value"               rate=10000r/s;
    ratelimitly_zone prefix  "bucket=boundary:$arg_value"      rate=10000r/s;
    ratelimitly_zone address "bucket=$binary_remote_addr"      rate=10000r/s;
    ratelimitly_zone tier    "bucket=shop"                     rate=$tier;

    ratelimitly_tracker fixed   "service=shop";
    ratelimitly_tracker service "service=$arg_value";
    ratelimitly_guard service   tracker=service threshold=100ms;
    ratelimitly_guard threshold tracker=fixed   threshold=$arg_value;

    server {
        listen 127.0.0.1:{port};
        location /bucket    { ratelimitly zone=bucket; empty_gif; }
        location /prefix    { ratelimitly zone=prefix; empty_gif; }
        location /address   { ratelimitly zone=address; empty_gif; }
        location /tier      { ratelimitly zone=tier; empty_gif; }
        location /service   { ratelimitly zone=fixed guard=service; empty_gif; }
        location /threshold { ratelimitly zone=fixed guard=threshold; empty_gif; }
        location /label     { ratelimitly zone=fixed; ratelimitly_label $arg_value; empty_gif; }
        location /cut       { ratelimitly zone=fixed; ratelimitly_label $arg_value cut; empty_gif; }
        location /report    { ratelimitly zone=fixed; ratelimitly_report service; empty_gif; }
    }
"#;

/// The request follows the failure policy, nothing is sent, no verdict is logged, and a warning tells whose value it was.
async fn refuses(path: &str, marker: &str) {
    for (fail, status) in BOTH {
        let dev = Dev::single().await;
        let nginx = Nginx::builder(ARGUMENTS_AS_VALUES).dev(&dev).set("fail", fail).start().await;
        // The servers are known: it is the value that keeps the worker from asking.
        nginx.admits().await;

        let response = http::get(nginx.port(), path).await;

        assert_eq!(response.status, status, "fail {fail}");
        nginx.await_log_line(&format!(r"\[warn\].* ratelimitly: .*{}", regex::escape(marker))).await;
        let logged = nginx.await_access_log(1).await;
        assert_eq!(logged, [format!("{status} - \"GET {path} HTTP/1.1\"")]);
        // A later datagram of the same socket has arrived, hence all earlier ones.
        nginx.admits().await;
        assert!(dev.requests().is_empty(), "sent: {:#?}", dev.requests());
        nginx.finish().await;
    }
}

/// The request is asked about with one datagram, which `check` looks at, and allowed.
async fn asks(path: &str, check: impl Fn(&Event)) {
    for (fail, _) in BOTH {
        let dev = Dev::single().await;
        let nginx = Nginx::builder(ARGUMENTS_AS_VALUES).dev(&dev).set("fail", fail).warm().await;

        let response = http::get(nginx.port(), path).await;

        assert_eq!(response.status, 200, "fail {fail}");
        let logged = nginx.await_access_log(1).await;
        assert_eq!(logged, [format!("200 allow \"GET {} HTTP/1.1\"", escaped(path))]);
        nginx.admits().await;
        let requests = dev.requests();
        assert_eq!(requests.len(), 1, "{requests:#?}");
        check(&requests[0]);
        nginx.finish().await;
    }
}

/// A path as nginx logs it.
fn escaped(path: &str) -> String {
    let escape =
        |byte: u8| if byte.is_ascii() { char::from(byte).to_string() } else { format!("\\x{byte:02X}") };
    path.bytes().map(escape).collect()
}

fn with_value(path: &str, value: &str) -> String {
    format!("{path}?value={value}")
}

/// The bucket's id under a rate of 10000r/s.
fn bucket(name: &[u8]) -> String {
    BucketId::new(name, 1000, 10_000).to_string()
}

fn tracker(service: &[u8]) -> String {
    let defaults = TrackerSettings { ttl_ms: 30_000, max_samples: 128, min_sample_threshold: 8 };
    TrackerId::new(service, defaults).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn v01_empty_bucket() {
    refuses(
        "/bucket",
        "the text that names the bucket of zone \"bucket\" came out empty, 1 to 1024 bytes are allowed",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v02_empty_service() {
    refuses(
        "/service",
        "the text that names the service of guard \"service\" came out empty, 1 to 1024 bytes are allowed",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v03_bucket_of_1025_bytes() {
    let path = with_value("/bucket", &"b".repeat(1025));
    refuses(&path, "the bucket of zone \"bucket\" has 1025 bytes, at most 1024 are allowed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v04_service_of_1025_bytes() {
    let path = with_value("/service", &"s".repeat(1025));
    refuses(&path, "the service of guard \"service\" has 1025 bytes, at most 1024 are allowed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v05_label_of_257_bytes() {
    let path = with_value("/label", &"l".repeat(257));
    refuses(&path, "the label has 257 bytes, at most 256 are allowed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v06_threshold_of_zero() {
    let path = with_value("/threshold", "0");
    refuses(&path, "the threshold \"0\" of guard \"threshold\" is zero").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v07_empty_label_is_not_sent() {
    asks("/label", |request| assert_eq!(request.label, None)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v08_bucket_of_1024_bytes() {
    let name = "b".repeat(1024);
    let expected = bucket(name.as_bytes());
    asks(&with_value("/bucket", &name), |request| assert_eq!(request.resources[0].bucket, expected)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v09_service_of_1024_bytes() {
    let name = "s".repeat(1024);
    let expected = tracker(name.as_bytes());
    asks(&with_value("/service", &name), |request| assert_eq!(request.guards[0].tracker, expected)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v10_label_of_256_bytes() {
    let label = "l".repeat(256);
    let text = |request: &Event| request.label.as_ref().map(|label| label.text.clone());
    asks(&with_value("/label", &label), |request| assert_eq!(text(request), Some(label.clone()))).await;
}

/// 254 bytes and a character of three: it would be split.
#[tokio::test(flavor = "multi_thread")]
async fn a_label_with_cut_is_sent_as_its_first_whole_characters() {
    let text = |request: &Event| request.label.as_ref().map(|label| label.text.clone());
    let start = "l".repeat(254);
    let path = with_value("/cut", &format!("{start}\u{20ac}{}", "x".repeat(300)));
    asks(&path, |request| assert_eq!(text(request), Some(start.clone()))).await;
    let label = "l".repeat(257);
    asks(&with_value("/cut", &label), |request| assert_eq!(text(request), Some(label[..256].to_owned())))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v11_threshold_without_a_unit_is_seconds() {
    asks(&with_value("/threshold", "1"), |request| {
        assert_eq!(request.guards[0].threshold_ms, 1000);
        assert_eq!(request.guards[0].tracker, tracker(b"shop"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v12_known_bucket() {
    asks(&with_value("/prefix", "known-bucket"), |request| {
        assert_eq!((request.guard_count, request.resource_count), (0, 1));
        assert_eq!(request.resources[0].bucket, "98300f8a73dd010d75b92ce8d2298cc7");
    })
    .await;
}

/// Only the configuration file may not begin a bucket with one.
#[tokio::test(flavor = "multi_thread")]
async fn rendered_bucket_that_begins_with_a_quote() {
    let expected = bucket(b"'x");
    asks(&with_value("/bucket", "'x"), |request| assert_eq!(request.resources[0].bucket, expected)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v13_six_accepted_values_are_exactly_six_datagrams() {
    let paths = [
        with_value("/label", ""),
        with_value("/bucket", &"b".repeat(1024)),
        with_value("/service", &"s".repeat(1024)),
        with_value("/label", &"l".repeat(256)),
        with_value("/threshold", "1"),
        with_value("/prefix", "known-bucket"),
    ];
    for (fail, _) in BOTH {
        let dev = Dev::single().await;
        let nginx = Nginx::builder(ARGUMENTS_AS_VALUES).dev(&dev).set("fail", fail).warm().await;

        for path in &paths {
            assert_eq!(http::get(nginx.port(), path).await.status, 200, "fail {fail}: {path}");
        }

        nginx.admits().await;
        assert_eq!(dev.requests().len(), 6, "{:#?}", dev.requests());
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn v14_rate_that_is_none() {
    let marker = "the rate \"nonsense\" of zone \"tier\" is not a rate, expected <n>r/<period><unit>";
    refuses(&with_value("/tier", "unknown"), marker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v14_rate_from_a_variable() {
    asks(&with_value("/tier", "gold"), |request| {
        let resource = &request.resources[0];
        assert_eq!((resource.rate_limit, resource.window_size_ms), (10, 1000));
    })
    .await;
}

/// 127.0.0.1 in four bytes, two of which are NULs.
#[tokio::test(flavor = "multi_thread")]
async fn v15_binary_bucket_is_hashed_whole() {
    asks("/address", |request| {
        assert_eq!(request.resources[0].bucket, bucket(&[127, 0, 0, 1]));
        assert_ne!(request.resources[0].bucket, bucket(&[127]));
    })
    .await;
}

const ONE_LONG_WINDOW: &str = r#"
    {service}
    ratelimitly_policy single_round unit=2s;
    ratelimitly_fail {fail};
    ratelimitly_zone short "bucket=short" rate=10r/65s;
    ratelimitly_zone long  "bucket=long"  rate={rate};
    map $server_name $of_two_minutes { default 10r/2m; }
    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=short; ratelimitly zone=long; empty_gif; }
    }
"#;

/// A worker's first request: not even DNS is asked, for the client needs no server to refuse it.
#[tokio::test(flavor = "multi_thread")]
async fn v16_window_above_the_quota_of_the_key() {
    let short_windows = Quotas { rate_window_size_ms_max: 1 << 16, ..quotas() };
    for (fail, status) in BOTH {
        for rate in ["10r/2m", "$of_two_minutes"] {
            let key = ApiKey::new(KeyKind::Aes, 42, [0x17; 32], short_windows).expect("a key");
            let dev = Dev::with(|config| config.servers(1).key(key)).await;
            let nginx = Nginx::builder(ONE_LONG_WINDOW).dev(&dev);
            let nginx = nginx.set("fail", fail).set("rate", rate).start().await;

            let response = http::get(nginx.port(), "/").await;

            assert_eq!(response.status, status, "fail {fail}, rate {rate}");
            assert_eq!(dev.dns_counts().udp + dev.dns_counts().tcp, 0, "DNS was asked");
            let line = nginx.await_log_line(r"\[warn\].* ratelimitly: .*zone").await;
            assert!(line.contains("zone \"long\""), "the zone is named: {line}");
            assert!(line.contains("120000") && line.contains("65536"), "both windows are named: {line}");
            let logged = nginx.await_access_log(1).await;
            assert_eq!(logged, [format!("{status} - \"GET / HTTP/1.1\"")]);
            nginx.admits().await;
            assert!(dev.requests().is_empty(), "sent: {:#?}", dev.requests());
            nginx.finish().await;
        }
    }
}

/// The admission goes its way; only the report is left out.
#[tokio::test(flavor = "multi_thread")]
async fn report_to_a_service_that_is_refused_is_not_sent() {
    for path in ["/report".to_owned(), with_value("/report", &"s".repeat(1025))] {
        let dev = Dev::single().await;
        let nginx = Nginx::builder(ARGUMENTS_AS_VALUES).dev(&dev).set("fail", "close").warm().await;

        assert_eq!(http::get(nginx.port(), &path).await.status, 200);
        // The next report, of a good service, would come after it.
        assert_eq!(http::get(nginx.port(), &with_value("/report", "shop")).await.status, 200);

        let reports = dev.await_reports("of the good service", |reports| !reports.is_empty()).await;
        assert_eq!(reports.len(), 1, "{reports:#?}");
        assert_eq!(reports[0].observations[0].tracker, tracker(b"shop"));
        let line = nginx
            .await_log_line(r"\[warn\].* ratelimitly: the (text that names the )?service of tracker")
            .await;
        assert!(line.contains("tracker \"service\""), "{line}");
        nginx.finish().await;
    }
}

/// The error log does not grow with the request rate.
#[tokio::test(flavor = "multi_thread")]
async fn refused_values_are_warned_of_once_a_minute() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(ARGUMENTS_AS_VALUES).dev(&dev).set("fail", "open").start().await;

    for _ in 0..30 {
        assert_eq!(http::get(nginx.port(), "/bucket").await.status, 200);
    }

    let warned =
        nginx.await_log_lines(r"\[warn\].* ratelimitly: the text that names the bucket of zone", 1).await;
    assert!(warned.len() <= 2, "{warned:#?}");
    nginx.finish().await;
}
