//! Faults inside the module: set-up, discovery, panics. Each test also shows that the fault did fire (O17): by the line
//! that it leaves in the error log. The replacement socket's faults are steering's.

use crate::FAILURES;
use ratelimitly_devserver::{Command, Config, DnsFault, Fault};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx, eventually, eventually_some, http};
use rustix::process::Signal;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

const CONFIGURATION: &str = r#"
    {usual}
    ratelimitly_fault {fault};
    ratelimitly_zone faults "bucket=faults" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=faults; empty_gif; }
    }
"#;

async fn start(dev: &Dev, fail: &str, fault: &str) -> Nginx {
    let builder = Nginx::builder(CONFIGURATION).fault_module().dev(dev);
    builder.set("fail", fail).set("fault", fault).start().await
}

/// Goes on without the fault, so that the lifecycle checks can ask for admissions.
async fn finish_without_fault(mut nginx: Nginx) {
    nginx.configure(&CONFIGURATION.replace("ratelimitly_fault {fault};", ""));
    nginx.reload().await;
    nginx.finish().await;
}

async fn status(nginx: &Nginx) -> u16 {
    http::get(nginx.port(), "/").await.status
}

async fn statuses(nginx: &Nginx, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(status(nginx).await);
    }
    statuses
}

/// The worker holds so many UDP sockets, and of other files no more than before.
async fn holds(nginx: &Nginx, files_before: usize, sockets: usize) {
    eventually(PATIENCE, format!("{sockets} UDP sockets and nothing else"), || {
        nginx.udp_sockets().len() == sockets && nginx.open_files() <= files_before + sockets
    })
    .await;
}

const CANNOT_SET_UP: &str = r"\[error\].*ratelimitly: this worker cannot be set up: ";

/// The line of each attempt, at the level of single requests.
const ATTEMPT: &str = "ratelimitly: set-up tried, ";

/// The faults of the set-up and what each leaves in the log.
const SET_UP: [(&str, &str); 5] = [
    ("socket", "too many open files"),
    ("connection", "all worker_connections are in use"),
    ("event", "nginx's event method refused the socket"),
    ("random", "the kernel gave no random bytes"),
    ("resolver", "no nameserver is known"),
];

#[tokio::test(flavor = "multi_thread")]
async fn o14_o17_a_set_up_that_fails_is_not_tried_by_every_request() {
    for (fault, text) in SET_UP {
        let dev = Dev::single().await;
        let nginx = start(&dev, "close", fault).await;
        let files = nginx.open_files();

        assert_eq!(statuses(&nginx, 8).await, [429; 8], "{fault}");

        let attempts = nginx.log_lines(ATTEMPT);
        assert!((1..8).contains(&attempts.len()), "{attempts:#?}");
        let lines = nginx.log_lines(CANNOT_SET_UP);
        assert!(lines.len() == 1 && lines[0].contains(text), "{lines:#?}");
        assert_eq!(nginx.log_lines("admission failure=worker-not-set-up").len(), 8);
        holds(&nginx, files, 0).await;
        finish_without_fault(nginx).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o14_a_set_up_that_fails_under_fail_open_admits_without_a_verdict() {
    let dev = Dev::single().await;
    let nginx = start(&dev, "open", "socket").await;

    assert_eq!(statuses(&nginx, 8).await, [200; 8]);

    assert!(nginx.await_access_log(8).await.iter().all(|line| line.starts_with("200 - ")));
    finish_without_fault(nginx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o15_after_the_back_off_there_is_one_more_attempt() {
    for (fault, _) in SET_UP {
        let dev = Dev::single().await;
        let nginx = start(&dev, "close", fault).await;
        let files = nginx.open_files();
        let started = Instant::now();
        assert_eq!(status(&nginx).await, 429);
        assert_eq!(nginx.log_lines(ATTEMPT).len(), 1, "{fault}");

        eventually_some(PATIENCE, "another attempt", async || {
            assert_eq!(status(&nginx).await, 429);
            (nginx.log_lines(ATTEMPT).len() > 1).then_some(())
        })
        .await;

        assert!(started.elapsed() > Duration::from_millis(900), "after {:?}", started.elapsed());
        assert_eq!(nginx.log_lines(ATTEMPT).len(), 2);
        holds(&nginx, files, 0).await;
        finish_without_fault(nginx).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o15_a_set_up_that_succeeds_after_the_back_off_admits() {
    let dev = Dev::single().await;
    let nginx = start(&dev, "close", "socket=1").await;
    assert_eq!(status(&nginx).await, 429);

    eventually_some(PATIENCE, "an admission", async || (status(&nginx).await == 200).then_some(())).await;

    assert_eq!(nginx.log_lines(ATTEMPT).len(), 1);
    nginx.only_udp_socket().await;
    nginx.finish().await;
}

/// The faults of discovery and what each leaves in the log. A connection over TCP takes a truncated answer.
const DISCOVERY: [(&str, &str); 5] = [
    ("dns_bind", "injected fault DnsBind"),
    ("dns_connect", "injected fault DnsConnect"),
    ("dns_timer", "injected fault DnsTimer"),
    ("spawn", "the task of the discovery could not be started"),
    ("task_panic", "the discovery ended in a panic"),
];

#[tokio::test(flavor = "multi_thread")]
async fn o16_o17_a_discovery_that_fails_leaves_the_module_one_socket() {
    for (fault, text) in DISCOVERY {
        let truncate = Command::Dns { fault: DnsFault::Truncate };
        let dev = Dev::with(|config: Config| config.servers(1).command(truncate)).await;
        let mut nginx = start(&dev, "close", fault).await;
        let files = nginx.open_files();
        if fault == "task_panic" {
            nginx.expect_log(r"\[alert\].*panic at .*task");
            nginx.expect_log(r"\[alert\].*a panic was stopped in a task of discovery");
        }

        assert_eq!(statuses(&nginx, 8).await, [429; 8], "{fault}");

        let lines = nginx.await_log_lines(r"\[error\].*ratelimitly: discovery failed: ", 1).await;
        assert!(lines[0].contains(text), "{fault}: {lines:#?}");
        assert_eq!(nginx.log_lines("admission failure=discovery").len(), 8);
        assert!(dev.requests().is_empty());
        holds(&nginx, files, 1).await;
        finish_without_fault(nginx).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_the_back_off_grows_to_five_seconds() {
    let dev = Dev::single().await;
    let nginx = start(&dev, "close", "socket").await;
    let started = Instant::now();

    // The subject demands the time: the fifth attempt comes after 1 + 2 + 4 + 5 seconds.
    let lines = eventually_some(Duration::from_secs(30), "five attempts", async || {
        assert_eq!(status(&nginx).await, 429);
        Some(nginx.log_lines(ATTEMPT)).filter(|lines| lines.len() >= 5)
    })
    .await;

    let delay = |line: &String| line.split("next attempt in ").nth(1)?.split(' ').next()?.parse().ok();
    let delays: Vec<u32> = lines.iter().filter_map(delay).collect();
    assert_eq!(delays, [1000, 2000, 4000, 5000, 5000]);
    assert!(started.elapsed() > Duration::from_millis(11_500), "after {:?}", started.elapsed());
    finish_without_fault(nginx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o20_a_client_that_cannot_be_watched_is_an_internal_failure() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let nginx = start(&dev, fail, "watch=1").await;

        assert_eq!(status(&nginx).await, 500);
        assert!(nginx.await_access_log(1).await[0].starts_with("500 - "));

        // Its admission is cancelled: a rebind waits until none is in flight.
        eventually_some(PATIENCE, "an allow", async || (status(&nginx).await == 200).then_some(())).await;
        let port = nginx.only_udp_socket().await.port;
        dev.fault(Fault::Rebind).await;
        assert_eq!(status(&nginx).await, 200);
        let is_left = || nginx.udp_sockets().iter().all(|socket| socket.port != port);
        eventually(PATIENCE, "the socket is rebound", is_left).await;
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_the_handler_ends_its_own_request_only() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let mut nginx = start(&dev, fail, "handler_panic=1").await;
        nginx.expect_log(r"\[alert\].*panic at .*injected panic in the handler");
        nginx.expect_log(r"\[alert\].*a panic was stopped in the pre-content handler");

        assert_eq!(status(&nginx).await, 500);
        assert!(dev.requests().is_empty());
        assert_eq!(status(&nginx).await, 200);

        let lines = nginx.await_access_log(2).await;
        assert!(lines[0].starts_with("500 - ") && lines[1].starts_with("200 allow "), "{lines:?}");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_that_every_request_repeats_is_logged_once_a_minute() {
    let dev = Dev::single().await;
    let mut nginx = start(&dev, "close", "handler_panic=5").await;
    nginx.expect_log(r"\[alert\].*panic at .*injected panic in the handler");
    nginx.expect_log(r"\[alert\].*a panic was stopped in the pre-content handler");

    assert_eq!(statuses(&nginx, 6).await, [500, 500, 500, 500, 500, 200]);

    nginx.await_access_log(6).await;
    assert_eq!(nginx.log_lines(r"\[alert\]").len(), 2, "{:#?}", nginx.log_lines(r"\[alert\]"));
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_inside_the_core_drops_the_client_until_the_back_off_ends() {
    for (fail, expected) in FAILURES {
        let dev = Dev::single().await;
        let mut nginx = start(&dev, fail, "core_panic=1").await;
        let files = nginx.open_files();
        nginx.expect_log(r"\[alert\].*panic at .*injected panic inside the core");
        nginx.expect_log(r"\[alert\].*a panic was stopped in starting an admission");

        let [hit, next] = two_at_once(&nginx).await;
        assert_eq!(hit, 500, "the request that it hit");
        assert_eq!(next, expected, "the client is gone");
        holds(&nginx, files, 0).await;
        nginx.await_log_line("admission failure=worker-not-set-up").await;

        recovers(&nginx).await;
        let lines = nginx.access_log();
        assert!(lines[0].starts_with("500 - "), "{lines:?}");
        let between = &lines[1..lines.len() - 1];
        assert!(between.iter().all(|line| line.starts_with(&format!("{expected} - "))), "{lines:?}");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_answers_come_in_hands_every_waiting_request_to_the_failure_policy() {
    for (fail, expected) in FAILURES {
        let dev = Dev::single().await;
        dev.fault(Fault::Hold).await;
        let mut nginx = start(&dev, fail, "receive_panic=1").await;
        let files = nginx.open_files();
        nginx.expect_log(r"\[alert\].*panic at .*injected panic while the core takes datagrams in");
        nginx.expect_log(r"\[alert\].*a panic was stopped in receiving");
        let port = nginx.port();
        let clients: Vec<_> = (0..5).map(|_| tokio::spawn(http::get(port, "/"))).collect();
        dev.await_requests("five requests wait", |seen| {
            seen.iter().filter(|seen| seen.copy == 1).count() == 5
        })
        .await;

        dev.clear([]).await;

        for client in clients {
            assert_eq!(client.await.expect("a client").status, expected, "fail {fail}");
        }
        let lines = nginx.await_access_log(5).await;
        assert!(lines.iter().all(|line| line.starts_with(&format!("{expected} - "))), "{lines:?}");
        assert!(nginx.log_lines("admission failure=timeout").is_empty(), "nobody waits for the horizon");
        holds(&nginx, files, 0).await;

        recovers(&nginx).await;
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_task_of_discovery_fails_that_discovery_only() {
    for (fail, expected) in FAILURES {
        let dev = Dev::single().await;
        let mut nginx = start(&dev, fail, "task_panic=1").await;
        nginx.expect_log(r"\[alert\].*panic at .*task");
        nginx.expect_log(r"\[alert\].*a panic was stopped in a task of discovery");

        assert_eq!(status(&nginx).await, expected);
        nginx.await_log_line("discovery failed: the discovery ended in a panic").await;

        recovers(&nginx).await;
        nginx.only_udp_socket().await;
        nginx.finish().await;
    }
}

/// The statuses of two requests that a worker finds at once, so that no back-off ends between them.
async fn two_at_once(nginx: &Nginx) -> [u16; 2] {
    let worker = nginx.worker_pid();
    nginx.signal(worker, Signal::STOP);
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = Raw::connect(nginx.port()).await.expect("the kernel accepts");
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.expect("sent");
        clients.push(client);
    }
    nginx.signal(worker, Signal::CONT);
    let mut statuses = [0; 2];
    for (client, status) in clients.iter_mut().zip(&mut statuses) {
        *status = client.response().await.expect("a response").status;
    }
    statuses
}

/// Asks until the worker gets a verdict.
async fn recovers(nginx: &Nginx) {
    let mut asked = nginx.await_access_log(1).await.len();
    eventually_some(PATIENCE, "a request is allowed", async || {
        let status = status(nginx).await;
        asked += 1;
        let lines = nginx.await_access_log(asked).await;
        (status == 200 && lines[asked - 1].starts_with("200 allow ")).then_some(())
    })
    .await;
}
