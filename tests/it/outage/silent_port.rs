//! A worker that gets no answers leaves its source port: what pins the port to a dead backend is left behind with it.

use super::relay::Relay;
use super::{CONFIGURATION, status};
use ratelimitly_devserver::{Command, Fault, FaultKind, Member, Servers};
use ratelimitly_harness::{Dev, Nginx, eventually_some, http};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(30);
/// From one request of the open-loop load to the next.
const BETWEEN: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_port_without_answers_is_left_after_five_seconds_of_requests() {
    let dev = Dev::single().await;
    let builder = Nginx::builder(CONFIGURATION).dev(&dev).set("fail", "open").set("unit", "20ms");
    let nginx = builder.log_level("info").warm().await;
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

/// The load balancer switches to another server, and the first one ends: only a new source port reaches the second.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_pinned_to_a_dead_server_is_left() {
    let (first, second) = (Dev::restartable(1).await, Dev::single().await);
    let server = first.servers()[0];
    let relay = Relay::start(server.addr).await;
    let behind_relay = Member { id: server.id, address: Some(relay.address) };
    let members = Command::Members { remove: vec![server.id], add: vec![behind_relay] };
    first.apply(members).await.expect("members can be changed");
    let builder = Nginx::builder(CONFIGURATION).dev(&first).set("fail", "close").set("unit", "20ms");
    let nginx = builder.log_level("info").warm().await;

    relay.switch_to(second.servers()[0].addr);
    first.apply(Command::Down { servers: Servers::All }).await.expect("the server ends");

    assert_eq!(status(&nginx).await, 429);
    assert!(second.requests().is_empty(), "the old port stays with the first server");
    eventually_some(PATIENCE, "an answer of the second server", async || {
        (status(&nginx).await == 200).then_some(())
    })
    .await;
    assert!(!second.requests().is_empty());
    nginx.await_log_line("UDP socket rebound as no server answers").await;
    nginx.finish().await;
}

/// An admission of one round sends one datagram, so its answer can arrive only at the port from which that was sent.
#[tokio::test(flavor = "multi_thread")]
async fn an_admission_in_flight_is_answered_at_the_port_that_is_left() {
    let dev = Dev::single().await;
    let text = CONFIGURATION.replace("ratelimitly_policy standard ", "ratelimitly_policy single_round ");
    let builder = Nginx::builder(&text).dev(&dev).set("fail", "close").set("unit", "300ms");
    let nginx = builder.log_level("info").warm().await;

    // A machine at a standstill may let the horizon pass between the new port and the answers; not each time.
    let mut told = Vec::new();
    while told.len() < 3 && told.iter().all(|(admitted, from_new)| admitted <= from_new) {
        told.push(answered_after_the_move(&dev, &nginx).await);
    }

    let (admitted, from_new) = told[told.len() - 1];
    assert!(admitted > from_new, "admitted, and asked about from the new port: {told:?}");
    nginx.finish().await;
}

/// Requests at a steady pace, whose answers wait until the worker sends from a new port. Gives the number of admitted
/// requests and of those that were asked about from the new port.
async fn answered_after_the_move(dev: &Dev, nginx: &Nginx) -> (usize, usize) {
    let old = nginx.only_udp_socket().await.port;
    let before = dev.requests().len();
    let from_new = || dev.requests()[before..].iter().filter(|request| request.source_port != old).count();
    dev.fault(Fault::Hold).await;
    let (started, port, mut clients) = (Instant::now(), nginx.port(), JoinSet::new());
    while from_new() == 0 {
        assert!(started.elapsed() < PATIENCE, "the worker keeps its port");
        clients.spawn(async move { http::get(port, "/").await.status });
        tokio::time::sleep(BETWEEN).await; // the load's pace
    }
    dev.clear([FaultKind::Hold]).await;
    let admitted = clients.join_all().await.into_iter().filter(|status| *status == 200).count();
    (admitted, from_new())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_port_stays_where_no_other_socket_is_to_be_had() {
    let dev = Dev::single().await;
    let text = CONFIGURATION.replace("{service}", "{service} ratelimitly_fault rebind;");
    let builder = Nginx::builder(&text).fault_module().dev(&dev).set("fail", "close").set("unit", "20ms");
    let nginx = builder.log_level("info").warm().await;
    let old = nginx.only_udp_socket().await.port;
    dev.fault(Fault::Silent).await;

    let line = r"\[warn\].*rebind failed: .*; retaining the old UDP socket, from which no answers come";
    eventually_some(PATIENCE, "a rebind that fails", async || {
        status(&nginx).await;
        (!nginx.log_lines(line).is_empty()).then_some(())
    })
    .await;
    dev.clear([FaultKind::Silent]).await;

    eventually_some(PATIENCE, "an answer", async || (status(&nginx).await == 200).then_some(())).await;
    assert_eq!(nginx.only_udp_socket().await.port, old);
    nginx.finish().await;
}
