//! Each cause in `$ratelimitly_failure` is the word of the admission's log line.

use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_devserver::{Command, DnsFault, Fault, Member};
use ratelimitly_harness::{Dev, Nginx, http, quotas};
use std::net::Ipv4Addr;

const SITE: &str = r#"
    http {
        {service}
        {extra}
        ratelimitly_policy standard unit=100ms;
        ratelimitly_fail close;
        ratelimitly_zone plain "bucket=plain" rate=1000r/s;
        ratelimitly_zone named "bucket=$arg_bucket" rate=1000r/s;
        ratelimitly_zone long  "bucket=long" rate=1000r/1h;
        log_format told '$status $ratelimitly_verdict $ratelimitly_outcome $ratelimitly_failure';

        server {
            listen 127.0.0.1:{port};
            access_log {prefix}/access.log told;
            location /plain { ratelimitly zone=plain; empty_gif; }
            location /named { ratelimitly zone=named; empty_gif; }
            location /long  { ratelimitly zone=long; empty_gif; }
        }
    }
"#;

async fn start(dev: &Dev, extra: &str) -> Nginx {
    let builder = Nginx::builder(SITE).dev(dev).set("extra", extra);
    if extra.contains("ratelimitly_fault") { builder.fault_module() } else { builder }.start().await
}

/// The only request is refused for this cause, which the error log names too.
async fn fails(nginx: &Nginx, path: &str, cause: &str) {
    let (status, outcome) = if cause == "internal" { (500, "error") } else { (429, "fail_close") };
    assert_eq!(http::get(nginx.port(), path).await.status, status, "{cause}");
    let told = nginx.await_access_log(1).await;
    assert_eq!(told, [format!("{status} - {outcome} {cause}")]);
    nginx.await_log_line(&format!("ratelimitly: admission failure={cause}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t03_causes_that_lie_with_the_servers() {
    for (fault, cause) in [(Fault::Silent, "timeout"), (Fault::EmptyResults, "cardinality")] {
        let dev = Dev::single().await;
        let nginx = start(&dev, "").await;
        nginx.admits().await;
        dev.fault(fault).await;
        fails(&nginx, "/plain", cause).await;
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t03_causes_that_lie_with_dns_and_the_network() {
    let dev = Dev::single().await;
    dev.dns_fault(DnsFault::NoSrv).await;
    let nginx = start(&dev, "").await;
    fails(&nginx, "/plain", "discovery").await;
    nginx.finish().await;

    // The kernel lets nothing go from 127.0.0.1 to an address that is not of this machine.
    let dev = Dev::single().await;
    let unreachable = Member { id: 999 << 23, address: Some((Ipv4Addr::new(192, 0, 2, 1), 9).into()) };
    let remove = dev.servers().iter().map(|server| server.id).collect();
    dev.apply(Command::Members { remove, add: vec![unreachable] }).await.expect("members can be changed");
    let nginx = start(&dev, "ratelimitly_bind 127.0.0.1;").await;
    fails(&nginx, "/plain", "send").await;
    let (remove, add) = (vec![999 << 23], dev.servers());
    let add = add.iter().map(|server| Member { id: server.id, address: Some(server.addr) }).collect();
    dev.apply(Command::Members { remove, add }).await.expect("members can be changed");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t03_causes_that_lie_with_the_request_and_the_configuration() {
    let dev = Dev::single().await;
    let nginx = start(&dev, "").await;
    nginx.admits().await;
    fails(&nginx, "/named", "invalid-value").await;
    nginx.finish().await;

    let short = Quotas { rate_window_size_ms_max: 1 << 16, ..quotas() };
    let key = ApiKey::new(KeyKind::Aes, 43, [0x3c; 32], short).expect("quotas that a key can express");
    let dev = Dev::with(|config| config.servers(1).key(key)).await;
    let nginx = start(&dev, "").await;
    nginx.admits().await;
    fails(&nginx, "/long", "window-above-quota").await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t03_causes_that_lie_with_the_worker() {
    let dev = Dev::single().await;
    let mut nginx = start(&dev, "ratelimitly_fault socket;").await;
    fails(&nginx, "/plain", "worker-not-set-up").await;
    nginx.set("extra", "");
    nginx.reload().await;
    nginx.finish().await;

    let mut nginx = start(&dev, "ratelimitly_fault handler_panic=1;").await;
    nginx.expect_log(r"\[alert\].*panic at .*injected panic in the handler");
    nginx.expect_log(r"\[alert\].*a panic was stopped in the pre-content handler");
    fails(&nginx, "/plain", "internal").await;
    nginx.finish().await;
}
