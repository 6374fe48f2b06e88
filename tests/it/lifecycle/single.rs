//! nginx without a master: one process that goes on after a reload, with what it accepted before, and the client of the
//! configuration that was replaced has to go by itself. A new configuration gets no request there, whatever the
//! module does: nginx gives events to the sockets that it listens on once, when the process starts.

use crate::lifecycle::{CONFIGURATION, PATIENCE, count_logged, start, statuses, waiting};
use ratelimitly_core::key::{ApiKey, KeyKind};
use ratelimitly_devserver::{Config, Fault};
use ratelimitly_harness::http::Client;
use ratelimitly_harness::{Dev, Nginx, eventually, eventually_some, http, key, quotas};

/// nginx that is master and worker at once.
async fn single_process(dev: &Dev) -> Nginx {
    start(dev, "master_process off;", "open").await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_master_the_process_admits_and_quits_cleanly() {
    let dev = Dev::start().await;
    let mut nginx = single_process(&dev).await;

    assert_eq!(http::get(nginx.port(), "/").await.status, 200);

    count_logged(&nginx, "200 allow ", 1).await;
    nginx.only_udp_socket().await;
    assert!(nginx.quit().await.success());
    nginx.finish().await;
}

/// After such a reload nginx itself, with or without this module, has no connection to give to what it accepts, until one
/// that it had before is given back. What the process has accepted before goes on, and the client of the old
/// configuration goes with it.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_master_a_reload_loses_no_waiting_request_and_leaves_no_socket() {
    let dev = Dev::start().await;
    let mut nginx = single_process(&dev).await;
    nginx.admits().await;
    dev.fault(Fault::Hold).await;
    let clients = waiting(&dev, &nginx, 5).await;

    nginx.set("key", key(KeyKind::Cookie).encode());
    nginx.reload().await;
    dev.clear([]).await;

    assert_eq!(statuses(clients).await, [200; 5]);
    eventually(PATIENCE, "the old client's socket is closed", || nginx.udp_sockets().is_empty()).await;
    assert!(nginx.log_lines("admission failure=").is_empty());
    assert!(nginx.quit().await.success());
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_master_an_idle_client_goes_with_its_configuration() {
    let dev = Dev::start().await;
    let mut nginx = single_process(&dev).await;
    let mut kept = Client::connect(nginx.port()).await.expect("nginx accepts");
    assert_eq!(kept.get("/").await.expect("a response").status, 200);
    nginx.only_udp_socket().await;

    nginx.reload().await;

    eventually(PATIENCE, "the socket is closed", || nginx.udp_sockets().is_empty()).await;
    // A connection keeps the configuration that it was accepted with.
    assert_eq!(kept.get("/").await.expect("a response").status, 200);
    eventually(PATIENCE, "the socket is closed again", || nginx.udp_sockets().is_empty()).await;
    drop(kept);
    nginx.allow_log("worker_connections are not enough");
    assert!(nginx.quit().await.success());
    nginx.finish().await;
}

/// Some connections that have each been admitted, for nginx to get back later.
async fn admitted(nginx: &Nginx, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = Client::connect(nginx.port()).await.expect("nginx accepts");
        assert_eq!(client.get("/").await.expect("a response").status, 200);
        clients.push(client);
    }
    clients
}

/// nginx goes on with the events of the sockets that it listened on at first: whatever it accepts after a reload, once
/// connections have been given back, has the first configuration. So that one's key is asked with, never the new one,
/// and its client is made anew for the request and goes again.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_master_what_is_accepted_after_a_reload_asks_with_the_old_key() {
    let new = ApiKey::new(KeyKind::Aes, 43, [0x5b; 32], quotas()).expect("a key");
    let both = |config: Config| config.servers(1).key(key(KeyKind::Aes)).key(new.clone());
    let dev = Dev::with(both).await;
    // Quiet: nginx closes the old configuration's log files, and what is logged goes to whatever has their numbers then.
    let text = CONFIGURATION
        .replace("{process}", "master_process off;")
        .replace("server {", "access_log off; server {");
    let builder = Nginx::builder(&text).dev(&dev).set("fail", "close").log_level("notice");
    let mut nginx = builder.warm().await;
    let kept = admitted(&nginx, 20).await;

    nginx.set("key", new.encode());
    nginx.reload().await;
    eventually(PATIENCE, "the old client's socket is closed", || nginx.udp_sockets().is_empty()).await;
    dev.clear_events();
    drop(kept);
    eventually_some(PATIENCE, "nginx accepts and admits", async || {
        (http::try_get(nginx.port(), "/").await.ok()?.status == 200).then_some(())
    })
    .await;

    let keys: Vec<u64> = dev.requests().iter().map(|event| event.key_id).collect();
    assert!(!keys.is_empty() && keys.iter().all(|id| *id == 42), "asked with the keys {keys:?}");
    eventually(PATIENCE, "its socket is closed again", || nginx.udp_sockets().is_empty()).await;
    assert!(nginx.quit().await.success());
    nginx.finish().await;
}
