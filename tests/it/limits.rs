//! Beside nginx's own limiters: of six clients that are released together, exactly those that `limit_req` and `limit_conn`
//! let through reach the development server, each once, the delayed ones when they go on. What a single refused or
//! delayed request does is in `routing/limits.rs`.

mod rates;

use crate::POLICIES;
use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::http::Response;
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx, eventually, eventually_some, http};
use rustix::process::Signal;
use std::time::Duration;
use tokio::task::JoinSet;

const CLIENTS: usize = 6;

/// Rates are low where nothing has to recover, so that a slow machine lets nobody else in.
const LIMIT_REQ: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    limit_req_zone $uri zone=one_a_second:1m rate=1r/s;
    limit_req_zone $uri zone=one_in_two:1m rate=30r/m;
    limit_req_zone $uri zone=rare:1m rate=1r/m;
    limit_req_status 429;

    server {
        listen 127.0.0.1:{port};
        ratelimitly zone=all;
        add_header X-Limit $limit_req_status always;
        location / { {limit} empty_gif; }
    }
"#;

const LIMIT_CONN: &str = r#"
    {service}
    ratelimitly_policy single_round unit=1900ms;
    ratelimitly_fail {fail};
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    limit_conn_zone $server_addr zone=together:1m;
    limit_conn_status 429;

    server {
        listen 127.0.0.1:{port};
        location / {
            limit_conn together 2;
            {limit}
            ratelimitly zone=all;
            empty_gif;
        }
    }
"#;

async fn warm(text: &str, dev: &Dev, fail: &str, limit: &str) -> Nginx {
    Nginx::builder(text).dev(dev).set("fail", fail).set("limit", limit).warm().await
}

/// Six clients with a connection each, whose requests the worker finds at the same moment: it stands still until all are
/// there.
async fn together(nginx: &Nginx) -> JoinSet<Response> {
    let worker = nginx.worker_pid();
    nginx.signal(worker, Signal::STOP);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut client = Raw::connect(nginx.port()).await.expect("the kernel takes the connection");
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("the kernel takes the request");
        clients.spawn(async move { client.response().await.expect("a response") });
    }
    nginx.signal(worker, Signal::CONT);
    clients
}

fn count(responses: &[Response], status: u16, limit: &str) -> usize {
    let fits = |response: &&Response| response.status == status && response.header("x-limit") == Some(limit);
    responses.iter().filter(fits).count()
}

/// Waits until everything that the worker has sent so far has arrived, and counts the test's admissions.
async fn admissions(dev: &Dev, nginx: &Nginx) -> usize {
    nginx.admits().await;
    dev.admissions().len()
}

/// When the worker sent each of the test's admissions, by its own clock.
fn asked_at(dev: &Dev) -> Vec<u64> {
    dev.admissions().iter().map(|event| event.timestamp_ms).collect()
}

/// Statuses and verdicts of the access log, sorted.
async fn outcomes(nginx: &Nginx, count: usize) -> Vec<String> {
    let lines = nginx.await_access_log(count).await;
    let outcome = |line: String| line.split(" \"").next().unwrap_or_default().to_owned();
    let mut outcomes: Vec<String> = lines.into_iter().map(outcome).collect();
    outcomes.sort_unstable();
    outcomes
}

/// Six clients under one `limit_req`: how many get each status and `$limit_req_status`. Those with 200 reach the server, the
/// last ones of them, as many as are delayed, only when they go on.
async fn six_clients(limit: &str, expected: &[(u16, &str, usize)]) {
    let sum = |of: &dyn Fn(u16, &str) -> bool| -> usize {
        expected.iter().filter(|row| of(row.0, row.1)).map(|row| row.2).sum()
    };
    let (passed, delayed) = (sum(&|status, _| status == 200), sum(&|_, said| said == "DELAYED"));
    let logged = [vec!["200 allow"; passed], vec!["429 -"; CLIENTS - passed]].concat();
    for fail in POLICIES {
        let dev = Dev::single().await;
        let nginx = warm(LIMIT_REQ, &dev, fail, limit).await;

        let responses = together(&nginx).await.join_all().await;

        for (status, said, clients) in expected {
            assert_eq!(count(&responses, *status, said), *clients, "{said}");
        }
        assert_eq!(outcomes(&nginx, CLIENTS).await, logged);
        assert_eq!(admissions(&dev, &nginx).await, passed);
        let asked = asked_at(&dev);
        let mut late = asked.windows(2).rev().take(delayed);
        assert!(late.all(|pair| pair[1] - pair[0] > 250), "asked when they go on: {asked:?}");
        nginx.finish().await;
    }
}

/// One test for each `limit_req`: its name, the directives, and the clients by their answer.
macro_rules! six_clients {
    ($($name:ident: $limit:literal, $expected:expr;)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            six_clients($limit, &$expected).await;
        }
    )+};
}

six_clients! {
    a_burst_lets_three_reach_the_server_two_of_them_later: "limit_req zone=one_a_second burst=2;",
        [(200, "PASSED", 1), (200, "DELAYED", 2), (429, "REJECTED", 3)];
    a_burst_without_delay_lets_three_reach_the_server_at_once: "limit_req zone=rare burst=2 nodelay;",
        [(200, "PASSED", 3), (429, "REJECTED", 3)];
    a_burst_with_some_delay_lets_three_reach_the_server_one_of_them_later: "limit_req zone=one_a_second burst=2 delay=1;",
        [(200, "PASSED", 2), (200, "DELAYED", 1), (429, "REJECTED", 3)];
    without_a_burst_one_reaches_the_server: "limit_req zone=rare;",
        [(200, "PASSED", 1), (429, "REJECTED", 5)];
    a_dry_run_of_limit_req_lets_all_six_reach_the_server: "limit_req zone=rare; limit_req_dry_run on;",
        [(200, "PASSED", 1), (200, "REJECTED_DRY_RUN", 5)];
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debt_refuses_unasked_until_it_is_paid() {
    for fail in POLICIES {
        let dev = Dev::single().await;
        let nginx = warm(LIMIT_REQ, &dev, fail, "limit_req zone=one_in_two burst=2 nodelay;").await;
        together(&nginx).await.join_all().await;
        let before = admissions(&dev, &nginx).await;

        let mut refused = 0;
        eventually_some(Duration::from_secs(10), "the debt is paid", async || {
            let paid = http::get(nginx.port(), "/").await.status == 200;
            refused += usize::from(!paid);
            paid.then_some(())
        })
        .await;

        assert!(refused > 0, "nothing was refused after the burst");
        assert_eq!(admissions(&dev, &nginx).await, before + 1, "{refused} were refused meanwhile");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_conn_lets_two_of_six_reach_the_server() {
    for fail in POLICIES {
        let dev = Dev::single().await;
        let nginx = warm(LIMIT_CONN, &dev, fail, "").await;
        dev.fault(Fault::Hold).await;

        let mut clients = together(&nginx).await;

        // The refused ones are answered while the others wait for their verdicts.
        for _ in 0..4 {
            let refused = clients.join_next().await.expect("six clients").expect("none panics");
            assert_eq!(refused.status, 429);
        }
        eventually(Duration::from_secs(10), "two wait", || dev.status().held == 2).await;
        dev.clear([FaultKind::Hold]).await;
        let statuses: Vec<u16> =
            clients.join_all().await.into_iter().map(|response| response.status).collect();
        assert_eq!(statuses, [200, 200]);
        assert_eq!(admissions(&dev, &nginx).await, 2);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_of_limit_conn_lets_all_six_reach_the_server() {
    for fail in POLICIES {
        let dev = Dev::single().await;
        let nginx = warm(LIMIT_CONN, &dev, fail, "limit_conn_dry_run on;").await;
        dev.fault(Fault::Hold).await;

        let clients = together(&nginx).await;

        eventually(Duration::from_secs(10), "all wait", || dev.status().held == CLIENTS).await;
        dev.clear([FaultKind::Hold]).await;
        assert!(clients.join_all().await.iter().all(|response| response.status == 200));
        assert_eq!(admissions(&dev, &nginx).await, CLIENTS);
        nginx.finish().await;
    }
}
