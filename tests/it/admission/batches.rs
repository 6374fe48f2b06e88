//! Many admissions at once: each client gets its own verdict, however the answers come.

use crate::POLICIES;
use crate::admission::warm;
use ratelimitly_devserver::{Command, Fault, Order, Reply, Servers};
use ratelimitly_harness::{Dev, Nginx, eventually, http};
use rustix::process::Signal;
use std::time::Duration;
use tokio::task::JoinSet;

const CLIENTS: usize = 20;

/// One long round without a replay: each admission is one datagram, however slow the machine.
const MANY: &str = r#"
    {service}
    ratelimitly_policy single_round unit=1900ms;
    ratelimitly_fail {fail};
    ratelimitly_zone plenty "bucket=plenty" rate=1000r/s;
    ratelimitly_zone one "bucket=one" rate=1r/h;
    ratelimitly_tracker files "service=files";

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        location /plenty { ratelimitly zone=plenty; empty_gif; }
        location /one { ratelimitly zone=one; empty_gif; }
        location /file { ratelimitly zone=plenty; ratelimitly_report files; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c33_each_client_gets_its_own_verdict_when_answers_come_in_reverse() {
    for fail in POLICIES {
        let dev = Dev::single().await;
        let nginx = warm(MANY, &dev, fail).await;
        assert_eq!(http::get(nginx.port(), "/one").await.status, 200, "the bucket's only token");
        dev.clear_events();
        dev.fault(Fault::Hold).await;

        let paths = (0..CLIENTS).map(|n| if n % 2 == 0 { "/plenty" } else { "/one" });
        let clients = ask(&nginx, paths);
        await_held(&dev).await;
        release(&dev, Order::Reverse).await;

        for (path, status) in clients.join_all().await {
            assert_eq!(status, if path == "/plenty" { 200 } else { 429 }, "{path}");
        }
        let logged = nginx.await_access_log(CLIENTS + 1).await;
        let with = |start: &str| logged.iter().filter(|line| line.starts_with(start)).count();
        let allowed = with("200 allow \"GET /plenty ");
        assert_eq!((allowed, with("429 deny \"GET /one ")), (CLIENTS / 2, CLIENTS / 2), "{logged:#?}");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c37_twenty_verdicts_in_one_read_batch_send_twenty_files_and_reports() {
    for fail in POLICIES {
        let dev = Dev::single().await;
        let nginx = warm(MANY, &dev, fail).await;
        std::fs::write(nginx.prefix().join("html/file"), "small").expect("a file to serve");
        dev.fault(Fault::Hold).await;

        let clients = ask(&nginx, std::iter::repeat_n("/file", CLIENTS));
        await_held(&dev).await;
        // The worker wakes up with all of them in its socket.
        nginx.signal(nginx.worker_pid(), Signal::STOP);
        release(&dev, Order::Fifo).await;
        nginx.signal(nginx.worker_pid(), Signal::CONT);

        let answers = clients.join_all().await;
        assert!(answers.iter().all(|(_, status)| *status == 200), "{answers:?}");
        dev.await_reports("a report for each file", |reports| reports.len() >= CLIENTS).await;
        dev.reset().await.expect("answers are no longer held");
        nginx.admits().await; // whatever was sent before this has arrived before it
        assert_eq!(dev.reports().len(), CLIENTS);
        assert_eq!(dev.requests().len(), CLIENTS);
        nginx.finish().await;
    }
}

/// One client for each path, all at once; each gives its path and status.
fn ask(nginx: &Nginx, paths: impl Iterator<Item = &'static str>) -> JoinSet<(&'static str, u16)> {
    let port = nginx.port();
    paths.map(|path| async move { (path, http::get(port, path).await.status) }).collect()
}

async fn await_held(dev: &Dev) {
    let held = || dev.status().held == CLIENTS;
    eventually(Duration::from_secs(10), "the server holds an answer for every client", held).await;
}

async fn release(dev: &Dev, order: Order) {
    let reply = dev.apply(Command::Release { servers: Servers::All, order }).await;
    let Ok(Reply::Released { answers }) = reply else { panic!("answers can be released: {reply:?}") };
    assert_eq!(answers, CLIENTS);
}
