//! `ratelimitly_warm_up`: a worker finds its servers before the first request. `ratelimitly_ready`: a balancer learns when each
//! worker has, and an outage of the limiter does not take nginx out of it.

use ratelimitly_devserver::{DnsFault, Fault, FaultKind};
use ratelimitly_harness::{Dev, Nginx, eventually_some, http};

const WARM: &str = r#"
    http {
        {service}
        ratelimitly_warm_up {warm};
        ratelimitly_fail close;
        ratelimitly_zone many "bucket=many" rate=1000r/s;
        server {
            listen 127.0.0.1:{port};
            location / { ratelimitly zone=many; empty_gif; }
            location /free { empty_gif; }
        }
    }
"#;

const READY: &str = r#"
    {http}
        {service}
        ratelimitly_fail close;
        ratelimitly_zone many "bucket=many" rate=1000r/s;
        server {
            listen 127.0.0.1:{port};
            ratelimitly zone=many;
            location / { empty_gif; }
            location = /ready { ratelimitly_ready; }
            location = /strict { ratelimitly_ready strict; }
        }
    }
"#;

async fn warm(dev: &Dev, warm: &str) -> Nginx {
    Nginx::builder(WARM).dev(dev).set("warm", warm).start().await
}

async fn ready(dev: &Dev, processes: &str) -> Nginx {
    Nginx::builder(&format!("{processes}\n{}", READY.replace("{http}", "http {"))).dev(dev).start().await
}

async fn page(nginx: &Nginx, path: &str) -> (u16, String) {
    let page = http::get(nginx.port(), path).await;
    (page.status, page.text())
}

/// Waits until the page says so.
async fn await_page(nginx: &Nginx, path: &str, status: u16, words: &str) {
    eventually_some(http::PATIENCE, format!("{path} gives {status} and \"{words}\""), async || {
        let (found, text) = page(nginx, path).await;
        (found == status && text.contains(words)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn b31_a_worker_that_is_warmed_up_finds_its_servers_before_any_request() {
    let dev = Dev::single().await;
    let nginx = warm(&dev, "on").await;

    nginx.await_log_line("members of .* are now").await;
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);

    nginx.finish().await;
}

#[tokio::test]
async fn b32_without_it_nothing_is_looked_up_before_the_first_request() {
    let dev = Dev::single().await;
    let nginx = warm(&dev, "off").await;

    assert_eq!(http::get(nginx.port(), "/free").await.status, 200);
    assert_eq!(dev.dns_counts().srv, 0);

    nginx.finish().await;
}

#[tokio::test]
async fn b33_a_worker_tries_again_until_dns_answers() {
    let dev = Dev::single().await;
    dev.dns_fault(DnsFault::ServFail).await;
    let mut nginx = warm(&dev, "on").await;
    nginx.allow_log("discovery failed");
    nginx.await_log_line("discovery failed").await;

    dev.clear_dns().await;

    nginx.await_log_line("members of .* are now").await;
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    nginx.finish().await;
}

#[tokio::test]
async fn b34_a_worker_that_is_told_to_leave_does_not_wait_for_dns() {
    let dev = Dev::single().await;
    dev.dns_fault(DnsFault::Silent).await;
    let mut nginx = warm(&dev, "on").await;
    nginx.allow_log("discovery|no answer");

    nginx.reload().await;
    nginx.reload().await;
    dev.clear_dns().await;

    nginx.await_log_line("members of .* are now").await;
    nginx.finish().await;
}

#[tokio::test]
async fn b35_without_a_master_the_process_is_warmed_up_too() {
    let dev = Dev::single().await;
    let text = format!("master_process off;\n{WARM}");
    let mut nginx = Nginx::builder(&text).dev(&dev).set("warm", "on").start().await;

    nginx.await_log_line("members of .* are now").await;

    assert!(nginx.quit().await.success());
    nginx.finish().await;
}

#[tokio::test]
async fn b36_nginx_is_ready_once_each_worker_has_found_servers() {
    let dev = Dev::single().await;
    dev.dns_fault(DnsFault::ServFail).await;
    let mut nginx = ready(&dev, "worker_processes 2;").await;
    nginx.allow_log("discovery failed");

    await_page(&nginx, "/ready", 503, "0 of 2 workers have found servers").await;
    dev.clear_dns().await;
    await_page(&nginx, "/ready", 200, "ready").await;

    assert!(dev.requests().is_empty(), "a probe is never asked about");
    nginx.finish().await;
}

#[tokio::test]
async fn b37_an_outage_of_the_limiter_does_not_make_nginx_unready() {
    let dev = Dev::single().await;
    let mut nginx = ready(&dev, "").await;
    nginx.allow_log("no valid answer");
    await_page(&nginx, "/ready", 200, "ready").await;
    dev.fault(Fault::Silent).await;
    assert_eq!(http::get(nginx.port(), "/").await.status, 429);

    assert_eq!(page(&nginx, "/ready").await, (200, "ready\n".to_owned()));

    dev.clear([FaultKind::Silent]).await;
    nginx.finish().await;
}

#[tokio::test]
async fn b38_nginx_is_ready_again_after_a_reload_and_after_a_killed_worker() {
    let dev = Dev::single().await;
    let mut nginx = ready(&dev, "").await;
    await_page(&nginx, "/ready", 200, "ready").await;

    nginx.reload().await;
    await_page(&nginx, "/ready", 200, "ready").await;

    nginx.replace_worker().await;
    await_page(&nginx, "/ready", 200, "ready").await;
    await_page(&nginx, "/strict", 200, "ready").await;
    nginx.finish().await;
}
