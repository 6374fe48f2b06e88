//! Steering: a server asks for another UDP source port, and the worker changes it when that hurts nobody.

use ratelimitly_devserver::{Command, Config, Fault, FaultKind, Kind, Order, Servers};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx, eventually, http};
use std::time::Duration;

/// Longest wait for what follows within a moment.
const SOON: Duration = Duration::from_secs(10);

/// `/slow` takes about two seconds to send its 8 KiB.
const SITE: &str = r#"
    {service}
    ratelimitly_policy single_round unit=2s;
    ratelimitly_fail close;
    ratelimitly_zone calls "bucket=steering" rate=1000r/s;
    ratelimitly_tracker shop "service=shop";
    ratelimitly_guard fast tracker=shop threshold=1h;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        location / { ratelimitly zone=calls; empty_gif; }
        location = /slow {
            ratelimitly zone=calls guard=fast;
            ratelimitly_report shop;
            limit_rate 4k;
        }
    }
"#;

/// One server, looked up once: a later lookup's sockets would be taken for the worker's own.
async fn one_server() -> Dev {
    Dev::with(|config| Config { ttl: Duration::from_secs(300), ..config }.servers(1)).await
}

async fn start(dev: &Dev) -> Nginx {
    let nginx = Nginx::builder(SITE).dev(dev).warm().await;
    std::fs::write(nginx.prefix().join("html/slow"), [b'x'; 8 << 10]).expect("a file");
    nginx
}

/// The port of the worker's only UDP socket; waits while there are others.
async fn port(nginx: &Nginx) -> u16 {
    nginx.only_udp_socket().await.port
}

fn only_port(nginx: &Nginx) -> Option<u16> {
    match nginx.udp_sockets()[..] {
        [socket] => Some(socket.port),
        _ => None,
    }
}

/// Waits until the worker's only UDP socket has another port than this one.
async fn port_leaves(nginx: &Nginx, old: u16) {
    let moved = || only_port(nginx).is_some_and(|port| port != old);
    eventually(SOON, format!("the socket leaves port {old}"), moved).await;
}

/// The place in the error log of the first line that matches.
fn place(nginx: &Nginx, text: &str) -> usize {
    let log = nginx.error_log();
    log.iter().position(|line| line.contains(text)).unwrap_or_else(|| panic!("no line with {text}"))
}

/// Waits until the server keeps so many answers back.
async fn held(dev: &Dev, count: usize) {
    eventually(SOON, format!("{count} answers are held"), || dev.status().held >= count).await;
}

/// `GET path` on a connection of its own; the response is read later.
async fn begin(nginx: &Nginx, path: &str) -> Raw {
    let mut client = Raw::connect(nginx.port()).await.expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.send(request).await.expect("sent");
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn s01_a_server_gets_the_new_source_port_that_it_asked_for() {
    let dev = one_server().await;
    let nginx = start(&dev).await;
    let worker = nginx.worker_pid();
    let old = port(&nginx).await;
    dev.fault(Fault::Rebind).await;

    let first = http::get(nginx.port(), "/").await;
    port_leaves(&nginx, old).await;
    dev.clear([FaultKind::Rebind]).await;
    let second = http::get(nginx.port(), "/").await;

    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(nginx.log_lines("ratelimitly: rebind pending").len(), 1);
    let requests = dev.requests();
    let ports: Vec<u16> = requests.iter().map(|request| request.source_port).collect();
    assert_eq!(ports, [old, port(&nginx).await]);
    assert_eq!(nginx.worker_pid(), worker);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s01_a_server_that_keeps_the_port_changes_nothing() {
    let dev = one_server().await;
    let nginx = start(&dev).await;
    let old = port(&nginx).await;

    for _ in 0..5 {
        assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    }

    assert_eq!(port(&nginx).await, old);
    assert_eq!(nginx.log_lines("rebind|rebound"), [""; 0]);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s02_the_socket_is_replaced_in_a_later_turn_than_the_read_event() {
    let dev = one_server().await;
    let nginx = start(&dev).await;
    dev.fault(Fault::Rebind).await;

    http::get(nginx.port(), "/").await;
    nginx.await_log_line("UDP socket rebound").await;

    let (pending, rebound) = (place(&nginx, "rebind pending"), place(&nginx, "UDP socket rebound"));
    let log = nginx.error_log();
    // nginx says so once per event-loop iteration, after the sockets' events have been collected.
    let turns = log[pending..rebound].iter().filter(|line| line.contains("timer delta:")).count();
    assert!(turns > 0, "no new turn between {} and {}", log[pending], log[rebound]);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s03_the_port_changes_before_a_slow_response_ends() {
    let dev = one_server().await;
    let nginx = start(&dev).await;
    let old = port(&nginx).await;
    dev.fault(Fault::Rebind).await;

    let mut client = begin(&nginx, "/slow").await;
    port_leaves(&nginx, old).await;
    let response = client.response().await.expect("a response");

    assert_eq!((response.status, response.body.len()), (200, 8 << 10));
    // The log phase, in which the report is made, ends the request: the worker's own order of things.
    nginx.await_log_line("ratelimitly: report ").await;
    assert!(place(&nginx, "UDP socket rebound") < place(&nginx, "ratelimitly: report "));
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s04_a_report_after_the_rebind_leaves_from_the_new_port() {
    let dev = one_server().await;
    let nginx = start(&dev).await;
    dev.clear_events();
    dev.fault(Fault::Rebind).await;

    let response = http::get(nginx.port(), "/slow").await;
    let reports = dev.await_reports("one", |reports| !reports.is_empty()).await;

    assert_eq!(response.status, 200);
    let events = dev.events();
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::Request, Kind::Report]);
    assert!(place(&nginx, "UDP socket rebound") < place(&nginx, "ratelimitly: report "));
    assert_ne!(events[0].source_port, reports[0].source_port);
    assert_eq!(reports[0].source_port, port(&nginx).await);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s05_the_port_stays_while_an_admission_is_in_flight() {
    let dev = one_server().await;
    let nginx = start(&dev).await;
    let old = port(&nginx).await;
    for kind in [Fault::Rebind, Fault::Hold] {
        dev.fault(kind).await;
    }
    let mut waiting = begin(&nginx, "/?waiting").await;
    held(&dev, 1).await;
    let mut answered = begin(&nginx, "/?answered").await;
    held(&dev, 2).await;

    let release = Command::Release { servers: Servers::All, order: Order::List(vec![1]) };
    dev.apply(release).await.expect("the second answer leaves");
    let second = answered.response().await.expect("a response");
    nginx.await_log_line("rebind pending").await;
    let third = begin(&nginx, "/?third").await;
    held(&dev, 2).await;
    assert_eq!(port(&nginx).await, old, "one admission is still in flight");
    dev.clear([FaultKind::Hold]).await;
    let first = waiting.response().await.expect("a response");
    port_leaves(&nginx, old).await;

    assert_eq!((first.status, second.status), (200, 200));
    drop(third);
    assert!(dev.requests().iter().all(|request| request.source_port == old), "the old port served all");
    let log = nginx.error_log();
    let lines = |text: &str| log.iter().filter(|line| line.contains(text)).count();
    assert_eq!(lines("rebind pending"), 1);
    assert_eq!(lines("UDP socket rebound"), 1);
    nginx.finish().await;
}

const FAILING: &str = r#"
    {service}
    ratelimitly_policy single_round unit=2s;
    ratelimitly_fail close;
    ratelimitly_fault {fault};
    ratelimitly_zone calls "bucket=steering" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=calls; empty_gif; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn s06_a_rebind_that_fails_keeps_the_old_socket_and_is_tried_again() {
    let dev = one_server().await;
    let nginx = Nginx::builder(FAILING).dev(&dev).set("fault", "rebind").fault_module().warm().await;
    let old = port(&nginx).await;
    dev.fault(Fault::Rebind).await;

    let first = http::get(nginx.port(), "/").await;
    nginx.await_log_line("rebind failed: .*; retaining the old UDP socket").await;
    nginx.await_log_lines("rebind tried, ", 2).await;
    let second = http::get(nginx.port(), "/").await;

    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(port(&nginx).await, old);
    assert!(dev.requests().iter().all(|request| request.source_port == old));
    assert_eq!(nginx.log_lines("rebind failed").len(), 1, "one a minute");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s06_a_rebind_that_failed_succeeds_later() {
    let dev = one_server().await;
    let nginx = Nginx::builder(FAILING).dev(&dev).set("fault", "rebind=1").fault_module().warm().await;
    let old = port(&nginx).await;
    dev.fault(Fault::Rebind).await;

    let response = http::get(nginx.port(), "/").await;
    nginx.await_log_line("rebind failed: .*; retaining the old UDP socket").await;
    dev.clear([FaultKind::Rebind]).await;
    // No further request: the retry's own timer does it.
    port_leaves(&nginx, old).await;

    assert_eq!(response.status, 200);
    assert_eq!(nginx.log_lines("rebind failed").len(), 1);
    nginx.finish().await;
}
