//! nginx's connections and the system's descriptors used up by clients, when the worker has its socket and when it has not.

use crate::FAILURES;
use crate::pressure::{CONFIGURATION, builder, builder_with};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Builder, Dev, Nginx, eventually_some, http};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
/// A request but for its last line: nginx holds the connection and can neither answer nor close it.
const HALF: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
const NO_CONNECTIONS: &str = "worker_connections are not enough";
const NO_FILES: &str = r"accept4?\(\) failed \(24: ";
const CANNOT_SET_UP: &str = "ratelimitly: this worker cannot be set up: ";

/// Clients that have begun a request; as many more as it takes until the log says that there is no room.
async fn fill(nginx: &Nginx, sign: &str) -> Vec<Raw> {
    let mut clients = Vec::new();
    eventually_some(PATIENCE, sign, async || {
        let mut client = Raw::connect(nginx.port()).await.expect("the kernel accepts");
        client.send(HALF).await.expect("the kernel takes it");
        clients.push(client);
        (!nginx.log_lines(sign).is_empty()).then_some(())
    })
    .await;
    clients
}

/// The first client ends its request and gets an answer.
async fn complete(clients: &mut Vec<Raw>) -> u16 {
    let mut client = clients.remove(0);
    client.send("\r\n").await.expect("the connection is held");
    client.response().await.expect("an answer").status
}

async fn recovers(nginx: &Nginx) {
    eventually_some(PATIENCE, "an admission", async || {
        // What comes before the worker has noticed that others have gone is closed unanswered.
        let _ = http::try_get(nginx.port(), "/").await;
        let log = nginx.access_log();
        log.last().is_some_and(|line| line.starts_with("200 allow ")).then_some(())
    })
    .await;
}

/// 16 connections, of which listening sockets and nginx itself take some.
fn few_connections(dev: &Dev, fail: &str) -> Builder {
    let text = format!("    events {{ worker_connections 16; }} http {{{CONFIGURATION}}}");
    builder_with(&text, dev, fail)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_has_no_connection_left_for_its_socket_follows_the_failure_policy() {
    for (fail, expected) in FAILURES {
        let dev = Dev::single().await;
        let mut nginx = few_connections(&dev, fail).start().await;
        nginx.allow_log(NO_CONNECTIONS);
        let mut clients = fill(&nginx, NO_CONNECTIONS).await;

        assert_eq!(complete(&mut clients).await, expected, "fail {fail}");

        nginx.await_log_line(CANNOT_SET_UP).await;
        assert!(dev.requests().is_empty());
        drop(clients);
        recovers(&nginx).await;
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_has_its_socket_admits_while_connections_are_used_up() {
    let dev = Dev::single().await;
    let mut nginx = few_connections(&dev, "close").warm().await;
    nginx.allow_log(NO_CONNECTIONS);
    let mut clients = fill(&nginx, NO_CONNECTIONS).await;

    for _ in 0..3 {
        assert_eq!(complete(&mut clients).await, 200);
    }

    assert!(nginx.await_access_log(3).await.iter().all(|line| line.starts_with("200 allow ")));
    drop(clients);
    recovers(&nginx).await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_has_no_descriptor_left_follows_the_failure_policy() {
    for (fail, expected) in FAILURES {
        let dev = Dev::single().await;
        let nginx = builder(&dev, fail).start().await;
        let worker = nginx.worker_pid();
        let before = limit_files(worker, Some(nginx.open_files() as u64 + 4));
        let mut clients = fill(&nginx, NO_FILES).await;

        assert_eq!(complete(&mut clients).await, expected, "fail {fail}");

        nginx.await_log_line(CANNOT_SET_UP).await;
        limit_files(worker, before);
        drop(clients);
        recovers(&nginx).await;
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_has_its_socket_admits_while_descriptors_are_used_up() {
    let dev = Dev::single().await;
    let nginx = builder(&dev, "close").warm().await;
    let worker = nginx.worker_pid();
    nginx.only_udp_socket().await;
    let before = limit_files(worker, Some(nginx.open_files() as u64 + 4));
    let mut clients = fill(&nginx, NO_FILES).await;

    assert_eq!(complete(&mut clients).await, 200);

    assert!(nginx.await_access_log(1).await[0].starts_with("200 allow "));
    limit_files(worker, before);
    drop(clients);
    recovers(&nginx).await;
    nginx.finish().await;
}

/// Sets how many files a process may open, and gives what it was.
fn limit_files(pid: u32, current: Option<u64>) -> Option<u64> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).expect("a limit can be set").current
}
