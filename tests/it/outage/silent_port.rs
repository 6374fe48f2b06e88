//! A worker that gets no answers leaves its source port: what pins the port to a dead backend is left behind with it.

use super::{CONFIGURATION, status};
use ratelimitly_devserver::Fault;
use ratelimitly_harness::{Dev, Nginx, eventually_some};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_port_without_answers_is_left_after_five_seconds_of_requests() {
    let dev = Dev::single().await;
    let builder = Nginx::builder(CONFIGURATION).dev(&dev).set("fail", "open").set("unit", "20ms");
    let nginx = builder.log_level("info").start().await;
    nginx.admits().await;
    let old = nginx.only_udp_socket().await.port;
    dev.fault(Fault::Silent).await;
    let started = Instant::now();

    let new = eventually_some(PATIENCE, "a request from another port", async || {
        status(&nginx).await;
        dev.requests().iter().map(|request| request.source_port).find(|port| *port != old)
    })
    .await;
    let took = started.elapsed();
    dev.clear([]).await;
    nginx.admits().await;

    assert!(took >= Duration::from_secs(5), "after {took:?}");
    let line = format!("UDP socket rebound as no server answers: source port {old} is now {new}");
    nginx.await_log_line(&line).await;
    // The old socket is closed one horizon later.
    assert_eq!(nginx.only_udp_socket().await.port, new);
    nginx.finish().await;
}
