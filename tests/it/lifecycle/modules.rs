//! Reloads that add the module to a configuration that did not load it, and that take it out again, with a master and
//! without.
//!
//! Without a master nginx gives no events to what it listens on anew: after a reload it goes on with the configuration
//! that its sockets had at first. What counts there is that the process survives.

use crate::lifecycle::PATIENCE;
use ratelimitly_harness::http::Client;
use ratelimitly_harness::{Dev, Nginx, eventually, http};

/// The harness's log line wants the variable that the module would bring.
const WITHOUT: &str = r#"
    # no load_module
    {process}
    http {
        map $host $ratelimitly_verdict {
            default absent;
        }
        server {
            listen 127.0.0.1:{port};
            location / { empty_gif; }
        }
    }
"#;

const WITH: &str = r#"
    {process}
    http {
        {service}
        ratelimitly_policy single_round unit=2000ms;
        ratelimitly_fail close;
        ratelimitly_zone lifecycle "bucket=lifecycle" rate=1000r/s;
        server {
            listen 127.0.0.1:{port};
            location / { ratelimitly zone=lifecycle; empty_gif; }
        }
    }
"#;

const SINGLE: &str = "master_process off;";

/// nginx with the text, and without `Builder::dev`: the checks at the end cannot ask for an admission in both.
async fn start(dev: &Dev, text: &str, process: &str) -> Nginx {
    let builder = Nginx::builder(&text.replace("{process}", process));
    builder.set("key", dev.key()).set("dns", dev.dns_addr()).set("zone", dev.zone()).start().await
}

/// Reloads with another text.
async fn turn(nginx: &mut Nginx, text: &str, process: &str) {
    nginx.configure(&text.replace("{process}", process));
    nginx.reload().await;
}

async fn await_status(dev: &Dev, nginx: &Nginx, verdict: &str, asked: usize) {
    dev.clear_events();
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    let lines = nginx.await_access_log(1).await;
    assert_eq!(lines.last().map(String::as_str), Some(&*format!("200 {verdict} \"GET / HTTP/1.1\"")));
    assert_eq!(dev.admissions().len(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_adds_the_module_and_another_takes_it_out() {
    let dev = Dev::single().await;
    let mut nginx = start(&dev, WITHOUT, "").await;
    await_status(&dev, &nginx, "absent", 0).await;

    turn(&mut nginx, WITH, "").await;
    // A worker's first request waits for discovery.
    await_status(&dev, &nginx, "allow", 1).await;

    turn(&mut nginx, WITHOUT, "").await;
    await_status(&dev, &nginx, "absent", 0).await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_master_the_process_survives_a_reload_that_adds_the_module() {
    let dev = Dev::single().await;
    let mut nginx = start(&dev, WITHOUT, SINGLE).await;
    let mut kept = Client::connect(nginx.port()).await.expect("nginx accepts");
    assert_eq!(kept.get("/").await.expect("a response").status, 200);

    turn(&mut nginx, WITH, SINGLE).await;
    // And once more, now that the old configuration has the module too.
    nginx.reload().await;

    assert_eq!(kept.get("/").await.expect("the process is still there").status, 200);
    assert!(nginx.quit().await.success());
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_master_the_process_survives_a_reload_that_takes_the_module_out() {
    let dev = Dev::single().await;
    let mut nginx = start(&dev, WITH, SINGLE).await;
    let mut kept = Client::connect(nginx.port()).await.expect("nginx accepts");
    assert_eq!(kept.get("/").await.expect("a response").status, 200);

    turn(&mut nginx, WITHOUT, SINGLE).await;

    // A connection keeps the configuration that it was accepted with, and the module with it.
    dev.clear_events();
    assert_eq!(kept.get("/").await.expect("the process is still there").status, 200);
    eventually(PATIENCE, "it is asked about", || !dev.requests().is_empty()).await;
    assert!(nginx.quit().await.success());
    nginx.finish().await;
}
