//! The lifecycle checks themselves: each fails a test that breaks what it guards. A check that nobody has seen fail
//! guards nothing.

use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx, check_config, eventually};
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

const PROTECTED: &str = r#"
    {service}
    ratelimitly_zone any "bucket=any" rate=1000r/s;
    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=any; empty_gif; }
    }
"#;

async fn nginx() -> Nginx {
    Nginx::builder(PROTECTED).dev(&Dev::start().await).start().await
}

/// Kills the worker, waits for the line about its death and for the next worker, and announces only the latter.
async fn replace_worker(nginx: &mut Nginx) {
    nginx.signal(nginx.worker_pid(), Signal::KILL);
    nginx.await_log_line("exited on signal 9").await;
    eventually(Duration::from_secs(10), "another worker", || nginx.worker_pids().len() == 1).await;
    nginx.expect_new_workers();
}

/// Adds a line as nginx would: at the end, whole.
fn append_to_error_log(nginx: &Nginx, message: &str) {
    let path = nginx.prefix().join("error.log");
    let mut file = OpenOptions::new().append(true).open(path).expect("nginx has made its log");
    file.write_all(format!("2026/01/01 00:00:00 {message}\n").as_bytes()).expect("the log takes a line");
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "did not await Nginx::finish")]
async fn a_test_without_an_end_fails() {
    drop(nginx().await);
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "the worker was replaced")]
async fn a_dead_worker_fails_the_test() {
    let nginx = nginx().await;
    let worker = nginx.worker_pid();
    nginx.signal(worker, Signal::KILL);
    let replaced = || nginx.worker_pids().iter().any(|pid| *pid != worker);
    eventually(Duration::from_secs(10), "the master starts another worker", replaced).await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "the error log holds what no test may cause")]
async fn an_unannounced_alert_fails_the_test() {
    let mut nginx = nginx().await;
    replace_worker(&mut nginx).await;
    nginx.finish().await;
}

/// No worker of a sound module exits with code 1, so the test writes the master's line itself.
#[tokio::test(flavor = "multi_thread")]
#[should_panic(
    expected = "cause: [\n    \"2026/01/01 00:00:00 [notice] 1#1: worker process 2 exited with code 1\",\n]"
)]
async fn a_worker_that_exits_with_a_code_fails_the_test() {
    let nginx = nginx().await;
    nginx.admits().await;
    append_to_error_log(&nginx, "[notice] 1#1: worker process 2 exited with code 0");
    append_to_error_log(&nginx, "[notice] 1#1: worker process 2 exited with code 1");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announced_alert_is_accepted() {
    let mut nginx = nginx().await;
    nginx.expect_log("exited on signal 9");
    replace_worker(&mut nginx).await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "lacks the announced line")]
async fn an_announced_line_that_never_comes_fails_the_test() {
    let mut nginx = nginx().await;
    nginx.expect_log("a line that nginx never writes");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "files: [")]
async fn files_that_are_not_given_back_fail_the_test() {
    let nginx = nginx().await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(Raw::connect(nginx.port()).await.expect("nginx accepts"));
    }
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_configuration_tells_why() {
    let checked = check_config("http { listen 80; }").await;
    checked.refused(&["\"listen\" directive is not allowed here"]);
    check_config("http { }").await.accepted();
}
