//! Reload, quit, killed workers, and a process without a master.
//!
//! `Nginx::finish` repeats the lifecycle checks in every test; here each is the subject. L08 is a run of these tests
//! with a sanitized nginx, L11 is about the core and shown there.

use ratelimitly_devserver::{DnsFault, Fault};
use ratelimitly_harness::http::{Error, Response};
use ratelimitly_harness::{Dev, Nginx, environment, eventually, eventually_some, http, log, process};
use rustix::process::Signal;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinHandle;

mod modules;
mod single;

const PATIENCE: Duration = Duration::from_secs(10);

/// A request waits for as long as a key can allow, so that a reload fits in.
const CONFIGURATION: &str = r#"
    {process}
    http {
        {service}
        ratelimitly_policy single_round unit=2000ms;
        ratelimitly_fail {fail};
        ratelimitly_zone lifecycle "bucket=lifecycle" rate=1000r/s;

        server {
            listen 127.0.0.1:{port};
            location / { ratelimitly zone=lifecycle; empty_gif; }
        }
    }
"#;

async fn start(dev: &Dev, process: &str, fail: &str) -> Nginx {
    // Put into the text itself: the harness looks there for what kind of process it deals with.
    let text = CONFIGURATION.replace("{process}", process);
    Nginx::builder(&text).dev(dev).set("fail", fail).start().await
}

async fn warm(dev: &Dev) -> Nginx {
    let nginx = start(dev, "", "close").await;
    nginx.admits().await;
    nginx
}

type Waiting = Vec<JoinHandle<Result<Response, Error>>>;

fn clients(nginx: &Nginx, count: usize) -> Waiting {
    let port = nginx.port();
    (0..count).map(|_| tokio::spawn(http::try_get(port, "/"))).collect()
}

/// So many requests that the servers know of and have not answered.
async fn waiting(dev: &Dev, nginx: &Nginx, count: usize) -> Waiting {
    let clients = clients(nginx, count);
    dev.await_requests("every request is asked about", |seen| {
        seen.iter().map(|event| &event.request_id).collect::<HashSet<_>>().len() == count
    })
    .await;
    clients
}

async fn statuses(clients: Waiting) -> Vec<u16> {
    let mut statuses = Vec::new();
    for client in clients {
        statuses.push(client.await.expect("the client ends").expect("a response").status);
    }
    statuses
}

/// Waits until the worker has been told to leave; one that lets its requests down is gone by then.
async fn leaves(worker: u32) {
    eventually(PATIENCE, "the worker is shutting down", || process::title(worker).contains("shutting down"))
        .await;
}

async fn count_logged(nginx: &Nginx, start: &str, count: usize) {
    let lines = nginx.await_access_log(count).await;
    assert_eq!(lines.iter().filter(|line| line.starts_with(start)).count(), count, "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn l01_the_configuration_is_accepted_without_a_warning() {
    let nginx = warm(&Dev::single().await).await;
    assert!(!nginx.check_output().contains("[warn]"), "{}", nginx.check_output());
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l02_l03_a_fresh_worker_admits_and_stays_the_same() {
    let dev = Dev::single().await;
    let nginx = start(&dev, "", "close").await;
    let worker = nginx.worker_pid();

    let mut tries = 0;
    eventually_some(Duration::from_secs(10), "an admission", async || {
        tries += 1;
        (http::get(nginx.port(), "/").await.status == 200).then_some(())
    })
    .await;

    assert!(tries <= 40, "{tries} tries");
    assert!(!dev.requests().is_empty());
    assert_eq!(nginx.worker_pid(), worker);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l04_l05_a_reload_brings_a_new_worker_that_works() {
    let dev = Dev::single().await;
    let mut nginx = warm(&dev).await;
    let old = nginx.worker_pid();

    nginx.reload().await;

    assert_ne!(nginx.worker_pid(), old);
    assert!(!process::is_running(old));
    assert_eq!(nginx.udp_sockets().len(), 0, "a worker opens its socket with its first request");
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    nginx.only_udp_socket().await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l06_l07_an_idle_nginx_quits_cleanly() {
    let dev = Dev::single().await;
    let mut nginx = warm(&dev).await;

    assert!(nginx.quit().await.success());

    assert_eq!(log::forbidden(&nginx.error_log(), &[]), [""; 0]);
    nginx.finish().await;
}

/// Puts a module in the place of the one that may be there, as `install` does: a new file, not new bytes in the old one.
fn install(module: &Path, place: &Path) {
    let new = place.with_extension("new");
    std::fs::copy(module, &new).expect("the module can be copied");
    std::fs::rename(&new, place).expect("it can be renamed");
}

/// How a module is upgraded (install.md). That of the fault builds is told by a directive that no other knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_module_installed_over_the_old_one_harms_no_reload_and_is_loaded_by_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("module.so");
    install(&environment::module(), &place);
    let dev = Dev::single().await;
    let text = CONFIGURATION.replace("{process}", "");
    let builder =
        |text: &str| Nginx::builder(text).dev(&dev).set("fail", "close").set("module", place.display());
    let mut nginx = builder(&text).warm().await;

    install(&environment::fault_module(), &place);
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    nginx.reload().await;

    assert_eq!(http::get(nginx.port(), "/").await.status, 200, "the old module is still there");
    nginx.finish().await;
    let of_the_new = text.replace("http {", "http { ratelimitly_fault rebind=1;");
    let nginx = builder(&of_the_new).warm().await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_loses_no_waiting_request() {
    let dev = Dev::start().await;
    let mut nginx = warm(&dev).await;
    dev.fault(Fault::Hold).await;
    let clients = waiting(&dev, &nginx, 20).await;

    let old = nginx.start_reload().await;
    leaves(old[0]).await;
    dev.clear([]).await;

    assert_eq!(statuses(clients).await, [200; 20]);
    nginx.await_gone(&old).await;
    count_logged(&nginx, "200 allow ", 20).await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_lets_waiting_requests_run_into_their_timeout() {
    for (fail, expected) in [("open", 200), ("close", 429)] {
        let dev = Dev::single().await;
        let mut nginx = start(&dev, "", fail).await;
        nginx.admits().await;
        dev.fault(Fault::Silent).await;
        let clients = waiting(&dev, &nginx, 5).await;

        let old = nginx.start_reload().await;

        assert_eq!(statuses(clients).await, [expected; 5]);
        nginx.await_gone(&old).await;
        assert_eq!(nginx.log_lines("admission failure=timeout").len(), 5);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_loses_no_request_that_waits_for_discovery() {
    let dev = Dev::single().await;
    dev.dns_fault(DnsFault::Silent).await;
    let mut nginx = start(&dev, "", "close").await;
    let clients = clients(&nginx, 5);
    nginx.await_log_lines(r#"http request line: "GET / "#, 5).await;
    eventually(PATIENCE, "discovery asks", || dev.dns_counts().srv > 0).await;

    let old = nginx.start_reload().await;
    leaves(old[0]).await;
    dev.clear_dns().await;

    assert_eq!(statuses(clients).await, [200; 5]);
    nginx.await_gone(&old).await;
    count_logged(&nginx, "200 allow ", 5).await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discovery_under_way_keeps_no_worker() {
    let dev = Dev::single().await;
    dev.dns_fault(DnsFault::Silent).await;
    let mut nginx = start(&dev, "", "close").await;
    assert_eq!(http::get(nginx.port(), "/").await.status, 429);
    assert!(
        nginx.log_lines("discovery failed").is_empty(),
        "it goes on for as long as resolver_timeout says"
    );

    nginx.reload().await;

    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quit_loses_no_waiting_request() {
    let dev = Dev::start().await;
    let mut nginx = warm(&dev).await;
    dev.fault(Fault::Hold).await;
    let clients = waiting(&dev, &nginx, 10).await;
    let worker = nginx.worker_pid();

    nginx.signal(nginx.master_pid(), Signal::QUIT);
    leaves(worker).await;
    dev.clear([]).await;

    assert_eq!(statuses(clients).await, [200; 10]);
    assert!(nginx.quit().await.success());
    count_logged(&nginx, "200 allow ", 10).await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_shutdown_timeout_ends_waiting_requests_cleanly() {
    let dev = Dev::single().await;
    let mut nginx = start(&dev, "worker_shutdown_timeout 100ms;", "close").await;
    nginx.admits().await;
    dev.fault(Fault::Silent).await;
    let clients = waiting(&dev, &nginx, 5).await;

    nginx.reload().await;

    for client in clients {
        let response = client.await.expect("the client ends");
        assert!(response.is_err(), "nginx closes the connection without a response: {response:?}");
    }
    assert!(nginx.log_lines("admission failure=").is_empty(), "a request cut off has no completion");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_shutdown_timeout_ends_requests_that_wait_for_discovery() {
    let dev = Dev::single().await;
    dev.dns_fault(DnsFault::Silent).await;
    let mut nginx = start(&dev, "worker_shutdown_timeout 100ms;", "close").await;
    let clients = clients(&nginx, 5);
    nginx.await_log_lines(r#"http request line: "GET / "#, 5).await;

    nginx.reload().await;

    for client in clients {
        assert!(client.await.expect("the client ends").is_err());
    }
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_is_replaced() {
    let dev = Dev::single().await;
    let mut nginx = warm(&dev).await;
    let old = nginx.worker_pid();
    dev.fault(Fault::Hold).await;
    let clients = waiting(&dev, &nginx, 3).await;

    nginx.signal(old, Signal::KILL);
    eventually(
        PATIENCE,
        "the master starts another worker",
        || matches!(nginx.worker_pids()[..], [worker] if worker != old),
    )
    .await;
    nginx.expect_log(r"\[alert\].*exited on signal 9");
    nginx.expect_new_workers();
    dev.clear([]).await;

    for client in clients {
        assert!(client.await.expect("the client ends").is_err(), "its worker is dead");
    }
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    nginx.finish().await;
}
