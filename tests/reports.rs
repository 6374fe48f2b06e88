//! When a latency is reported, when it is not, and what is measured: whether a request reached admission, what became of
//! it, and whether its client was still there.

use ratelimitly_devserver::{Command, DnsFault, Fault, FaultKind, Member, Servers};
use ratelimitly_tests::raw::Raw;
use ratelimitly_tests::{Answer, Dev, Nginx, Upstream, eventually, http};
use std::time::Duration;

/// Longest wait for what follows within a moment.
const SOON: Duration = Duration::from_secs(10);

fn attempts(nginx: &Nginx) -> Vec<String> {
    nginx.log_lines("ratelimitly: report ")
}

async fn fault(dev: &Dev, fault: Fault) {
    dev.apply(Command::Fault { servers: Servers::All, fault }).await.expect("the fault is set");
}

async fn dns(dev: &Dev, fault: DnsFault) {
    dev.apply(Command::Dns { fault }).await.expect("the fault is set");
}

/// Waits until so many reports have arrived.
async fn arrived(dev: &Dev, count: usize) {
    dev.await_reports(&format!("{count} reports"), |reports| reports.len() >= count).await;
}

const ADMITTED: &str = r#"
    http {
        ratelimitly_auth_key {key};
        ratelimitly_dns_srv {zone};
        ratelimitly_dns_resolver {dns};
        ratelimitly_policy standard unit=600ms;
        ratelimitly_zone calls "bucket=reports" rate=1000r/s;
        ratelimitly_tracker shop "service=shop";

        server {
            listen 127.0.0.1:{port};
            location / {
                ratelimitly zone=calls;
                ratelimitly_report shop;
                empty_gif;
            }
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn g09_a_client_that_left_before_the_verdict_is_not_reported() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(ADMITTED).dev(&dev).start().await;
    nginx.admits().await;
    fault(&dev, Fault::Hold).await;

    let mut client = Raw::connect(nginx.port()).await.expect("connected");
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    dev.await_requests("the client's", |requests| !requests.is_empty()).await;
    client.reset().expect("reset");
    let logged = nginx.await_access_log(1).await;
    dev.apply(Command::Clear { servers: Servers::All, faults: vec![FaultKind::Hold] })
        .await
        .expect("the answer leaves");

    assert_eq!(logged, ["499 - \"GET / HTTP/1.1\""]);
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    nginx.await_access_log(2).await;
    assert_eq!(attempts(&nginx).len(), 1, "only the second client's request is reported");
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 1);
}

/// `/` has no rule; `/health` inherits nothing.
const REPORT_ONLY: &str = r#"
    http {
        ratelimitly_auth_key {key};
        ratelimitly_dns_srv {zone};
        ratelimitly_dns_resolver {dns};
        ratelimitly_policy standard unit=200ms;
        ratelimitly_tracker shop "service=shop";

        server {
            listen 127.0.0.1:{port};
            ratelimitly_report shop;
            location / {
                empty_gif;
                location /nested/ {
                    empty_gif;
                }
            }
            location /quiet {
                ratelimitly_report off;
                empty_gif;
            }
            location /health {
                ratelimitly_report off;
                return 204;
            }
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn g10_a_location_without_rules_reports_and_never_asks() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).start().await;
    nginx.admits().await;

    let response = http::get(nginx.port(), "/").await;

    assert_eq!(response.status, 200);
    arrived(&dev, 1).await;
    assert_eq!(nginx.await_access_log(1).await, ["200 - \"GET / HTTP/1.1\""]);
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 1);
    assert!(dev.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn g11_reports_go_on_after_the_server_was_restarted() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).start().await;
    nginx.admits().await;
    http::get(nginx.port(), "/").await;
    arrived(&dev, 1).await;

    dev.apply(Command::Down { servers: Servers::All }).await.expect("the server is down");
    let lost = http::get(nginx.port(), "/").await;
    nginx.await_access_log(2).await;
    dev.apply(Command::Up { servers: Servers::All }).await.expect("the server is up");
    let response = http::get(nginx.port(), "/").await;

    assert_eq!((lost.status, response.status), (200, 200));
    arrived(&dev, 2).await;
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn g12_an_inherited_report_is_made_once() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).start().await;
    nginx.admits().await;

    let response = http::get(nginx.port(), "/nested/").await;

    assert_eq!(response.status, 200);
    arrived(&dev, 1).await;
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g13_off_stops_an_inherited_report() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).start().await;
    nginx.admits().await;

    let health = http::get(nginx.port(), "/health").await;
    let quiet = http::get(nginx.port(), "/quiet").await;

    assert_eq!((health.status, quiet.status), (204, 200));
    nginx.await_access_log(2).await;
    assert_eq!(attempts(&nginx), [""; 0]);
    nginx.finish().await;
    assert!(dev.reports().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn g14_a_cold_workers_first_report_does_not_delay_the_response() {
    let dev = Dev::single().await;
    dns(&dev, DnsFault::Silent).await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).start().await;

    // DNS never answers: a response at all is one that did not wait for it.
    let response = http::get(nginx.port(), "/").await;

    assert_eq!(response.status, 200);
    nginx.await_access_log(1).await;
    let made = attempts(&nginx);
    assert_eq!(made.len(), 1, "{made:#?}");
    assert!(made[0].contains("failure="), "{made:#?}");
    eventually(SOON, "the report started a discovery", || dev.dns_counts().srv > 0).await;
    assert!(dev.reports().is_empty());
    nginx.finish().await;
    assert!(dev.reports().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_a_request_of_no_time_is_reported_as_one_millisecond() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).start().await;
    nginx.admits().await;

    // nginx reads, answers and logs each within one turn of its loop, whose clock stands still.
    for _ in 0..5 {
        http::get(nginx.port(), "/").await;
    }

    arrived(&dev, 5).await;
    let latencies: Vec<u32> = dev.reports().iter().map(|report| report.observations[0].latency_ms).collect();
    assert_eq!(latencies, [1; 5]);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_a_report_that_cannot_be_sent_changes_nothing() {
    let dev = Dev::single().await;
    let id = dev.servers()[0].id;
    // The kernel refuses to send to a broadcast address, here the loopback interface's, without a socket option.
    let address = Some("127.255.255.255:9".parse().expect("an address"));
    dev.apply(Command::Members { remove: vec![id], add: vec![Member { id, address }] })
        .await
        .expect("the zone is changed");
    let mut nginx = Nginx::builder(REPORT_ONLY).dev(&dev).start().await;
    nginx.expect_log("sending to a server's address failed");
    http::get(nginx.port(), "/").await;
    nginx.await_log_line("members of .* are now").await;

    let response = http::get(nginx.port(), "/").await;

    assert_eq!(response.status, 200);
    nginx.await_log_line("sending to a server's address failed").await;
    nginx.finish().await;
    assert!(dev.reports().is_empty());
}

const PANICKING: &str = r#"
    http {
        ratelimitly_auth_key {key};
        ratelimitly_dns_srv {zone};
        ratelimitly_dns_resolver {dns};
        ratelimitly_policy standard unit=200ms;
        ratelimitly_fault handler_panic=1;
        ratelimitly_zone calls "bucket=reports" rate=1000r/s;
        ratelimitly_tracker shop "service=shop";

        server {
            listen 127.0.0.1:{port};
            location / {
                ratelimitly zone=calls;
                ratelimitly_report shop;
                empty_gif;
            }
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn g17_an_internal_failure_is_not_reported() {
    let dev = Dev::single().await;
    let mut nginx = Nginx::builder(PANICKING).dev(&dev).fault_module().start().await;
    nginx.expect_log("injected panic in the handler");
    nginx.allow_log("panic");

    let broken = http::get(nginx.port(), "/").await;
    nginx.await_access_log(1).await;
    let after_failure = attempts(&nginx);
    let whole = http::get(nginx.port(), "/").await;

    assert_eq!((broken.status, whole.status), (500, 200));
    assert_eq!(after_failure, [""; 0]);
    arrived(&dev, 1).await;
    // The lifecycle checks' reload reads the fault again, and the first admission after it is theirs.
    nginx.configure(ADMITTED);
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 1, "the second request's");
}

/// More than all socket buffers on the way hold.
const BIG: usize = 64 << 20;

const SLOW_CLIENT: &str = r#"
    http {
        ratelimitly_auth_key {key};
        ratelimitly_dns_srv {zone};
        ratelimitly_dns_resolver {dns};
        ratelimitly_policy standard unit=200ms;
        ratelimitly_zone calls "bucket=reports" rate=1000r/s;
        ratelimitly_tracker shop "service=shop";

        server {
            listen 127.0.0.1:{port};
            root {prefix}/html;
            send_timeout 1s;
            ratelimitly zone=calls;
            ratelimitly_report shop;
        }
    }
"#;

/// Starts to fetch a big file and reads nothing of it.
async fn stalled(nginx: &Nginx) -> Raw {
    let big = std::fs::File::create(nginx.prefix().join("html/big")).expect("a file");
    big.set_len(BIG as u64).expect("a big file");
    let mut client = Raw::connect(nginx.port()).await.expect("connected");
    client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn g17_a_client_that_stops_reading_is_not_reported() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(SLOW_CLIENT).dev(&dev).start().await;
    nginx.admits().await;

    let client = stalled(&nginx).await;
    let logged = nginx.await_access_log(1).await;

    assert!(logged[0].contains(" allow "), "{logged:?}");
    nginx.await_log_line("client timed out").await;
    assert_eq!(attempts(&nginx), [""; 0]);
    drop(client);
    nginx.finish().await;
    assert!(dev.reports().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn g17_a_client_that_breaks_the_connection_is_not_reported() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(SLOW_CLIENT).dev(&dev).start().await;
    nginx.admits().await;

    let client = stalled(&nginx).await;
    // The first is the warm-up's.
    nginx.await_log_lines("admission verdict=allow", 2).await;
    client.reset().expect("reset");
    let logged = nginx.await_access_log(1).await;

    assert!(logged[0].contains(" allow "), "{logged:?}");
    assert_eq!(attempts(&nginx), [""; 0]);
    nginx.finish().await;
    assert!(dev.reports().is_empty());
}

const REFUSED_EARLIER: &str = r#"
    http {
        ratelimitly_auth_key {key};
        ratelimitly_dns_srv {zone};
        ratelimitly_dns_resolver {dns};
        ratelimitly_policy standard unit=200ms;
        ratelimitly_zone calls "bucket=reports" rate=1000r/s;
        ratelimitly_tracker shop "service=shop";
        limit_req_zone $server_addr zone=one:64k rate=1r/m;

        server {
            listen 127.0.0.1:{port};
            root {prefix}/html;
            ratelimitly zone=calls;
            ratelimitly_report shop;
            location = /limited {
                limit_req zone=one;
                empty_gif;
            }
            location = /private {
                auth_basic "private";
                auth_basic_user_file {prefix}/html/none;
                empty_gif;
            }
            location = /returned {
                return 200 "done\n";
            }
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn g18_a_request_that_never_reaches_admission_is_not_reported() {
    let dev = Dev::single().await;
    let mut nginx = Nginx::builder(REFUSED_EARLIER).dev(&dev).start().await;
    nginx.allow_log("limiting requests");
    nginx.admits().await;
    assert_eq!(http::get(nginx.port(), "/limited").await.status, 200, "the first in a minute");
    nginx.await_access_log(1).await;
    assert_eq!(attempts(&nginx).len(), 1, "it reached admission and is reported");

    let mut statuses = Vec::new();
    for path in ["/limited", "/private", "/returned"] {
        statuses.push(http::get(nginx.port(), path).await.status);
    }

    assert_eq!(statuses, [503, 401, 200]);
    nginx.await_access_log(4).await;
    assert_eq!(attempts(&nginx).len(), 1);
    nginx.finish().await;
    assert_eq!((dev.admissions().len(), dev.reports().len()), (1, 1));
}

const FAILING_UPSTREAM: &str = r#"
    http {
        ratelimitly_auth_key {key};
        ratelimitly_dns_srv {zone};
        ratelimitly_dns_resolver {dns};
        ratelimitly_policy standard unit=200ms;
        ratelimitly_zone calls "bucket=reports" rate=1000r/s;
        ratelimitly_tracker shop "service=shop";

        server {
            listen 127.0.0.1:{port};
            location / {
                ratelimitly zone=calls;
                ratelimitly_report shop;
                proxy_pass http://{upstream};
                proxy_read_timeout 1s;
            }
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn g19_an_upstreams_failure_after_an_allow_is_reported() {
    let dev = Dev::single().await;
    let upstream = Upstream::start(|seen| match seen.target.as_str() {
        "/late" => Answer::Late(Duration::from_secs(60), 200, "too late".into()),
        _ => Answer::Close,
    })
    .await;
    let mut nginx =
        Nginx::builder(FAILING_UPSTREAM).dev(&dev).set("upstream", upstream.address()).start().await;
    nginx.allow_log("upstream (prematurely closed|timed out)");

    let closed = http::get(nginx.port(), "/closed").await;
    arrived(&dev, 1).await;
    let late = http::get(nginx.port(), "/late").await;
    arrived(&dev, 2).await;

    assert_eq!((closed.status, late.status), (502, 504));
    assert_eq!(
        nginx.await_access_log(2).await,
        ["502 allow \"GET /closed HTTP/1.1\"", "504 allow \"GET /late HTTP/1.1\""]
    );
    assert!(dev.reports()[1].observations[0].latency_ms >= 900, "the wait for the upstream is part of it");
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 2);
}
