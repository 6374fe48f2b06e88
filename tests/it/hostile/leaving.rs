//! Clients that leave: before the worker has looked at their request, while it waits, and while the upstream works.

use crate::hostile::{REQUEST, warm};
use ratelimitly_devserver::Fault;
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, eventually};
use rustix::process::Signal;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const PATIENCE: Duration = Duration::from_secs(10);

/// The kernel has the end of the connection before the worker reads the request, and tells the worker no second time.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_left_before_its_request_was_read_is_noticed_at_once() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let nginx = warm(&dev, fail).await;
        dev.fault(Fault::Hold).await;
        let worker = nginx.worker_pid();

        nginx.signal(worker, Signal::STOP);
        let mut client = Raw::connect(nginx.port()).await.expect("the kernel accepts");
        client.send(REQUEST).await.expect("the kernel takes it");
        drop(client);
        nginx.signal(worker, Signal::CONT);

        assert_eq!(nginx.await_access_log(1).await, ["499 - \"GET / HTTP/1.1\""]);
        assert!(nginx.log_lines("admission failure=").is_empty(), "an aborted request has no completion");
        nginx.finish().await;
    }
}

const REPORTED: &str = r#"
    {usual}
    ratelimitly_zone hostile "bucket=hostile" rate=1000r/s;
    ratelimitly_tracker app "service=app";

    server {
        listen 127.0.0.1:{port};
        ratelimitly zone=hostile;
        ratelimitly_label $uri;
        ratelimitly_report app;
        location / { proxy_pass http://{upstream}; {after} }
        location @after { proxy_pass http://{upstream}; }
        location = /after { proxy_pass http://{upstream}; }
    }
"#;

async fn reported(dev: &Dev, fail: &str, upstream: &Upstream, after: &str) -> Nginx {
    let builder = Nginx::builder(REPORTED).dev(dev).set("fail", fail).set("after", after);
    builder.set("upstream", upstream.address()).warm().await
}

/// Waits until everything that the worker has sent so far has arrived.
async fn settled(dev: &Dev, nginx: &Nginx) {
    dev.reset().await.expect("the server answers again");
    nginx.admits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_while_the_upstream_works_was_allowed_and_is_not_reported() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let gate = Arc::new(Notify::new());
        let upstream = {
            let gate = gate.clone();
            Upstream::start(move |_| Answer::When(gate.clone(), 200, "late".into())).await
        };
        let nginx = reported(&dev, fail, &upstream, "").await;

        let mut client = Raw::connect(nginx.port()).await.expect("nginx accepts");
        client.send(REQUEST).await.expect("nginx reads");
        eventually(PATIENCE, "the upstream has the request", || upstream.seen().len() == 1).await;
        drop(client);

        assert_eq!(nginx.await_access_log(1).await, ["499 allow \"GET / HTTP/1.1\""]);
        gate.notify_one();
        settled(&dev, &nginx).await;
        assert_eq!(dev.admissions().len(), 1);
        assert!(dev.reports().is_empty(), "how long the upstream takes is not known");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_post_action_of_a_client_that_left_while_waiting_asks_nothing() {
    for (fail, after) in [("open", "post_action @after;"), ("close", "post_action /after;")] {
        let dev = Dev::single().await;
        let upstream = Upstream::ok("noted").await;
        let nginx = reported(&dev, fail, &upstream, after).await;
        dev.fault(Fault::Hold).await;

        let mut client = Raw::connect(nginx.port()).await.expect("nginx accepts");
        client.send(REQUEST).await.expect("nginx reads");
        dev.await_requests("it is asked about", |seen| !seen.is_empty()).await;
        drop(client);

        // The line follows the action, whose status nginx logs in place of 499.
        assert_eq!(nginx.await_access_log(1).await, ["200 - \"GET / HTTP/1.1\""]);
        assert_eq!(upstream.seen().len(), 1, "the action itself");
        assert!(nginx.log_lines("admission failure=").is_empty(), "an aborted request has no completion");
        settled(&dev, &nginx).await;
        assert_eq!(dev.admissions().len(), 1);
        assert!(dev.reports().is_empty());
        nginx.finish().await;
    }
}
