//! Counters outlive workers and reloads, in memory that is known from the start.

use crate::metrics::Samples;
use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::{Dev, Nginx, http};
use std::collections::BTreeSet;

const SITE: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=300ms;
        ratelimitly_zone {name} "bucket=many" rate=1000r/s;
        log_format pid $pid;
        server {
            listen 127.0.0.1:{port_metrics};
            location = /metrics { ratelimitly_metrics; }
        }
        server {
            listen 127.0.0.1:{port};
            access_log {prefix}/access.log pid;
            location / { ratelimitly zone={name}; empty_gif; }
        }
    }
"#;

const ALLOWED: &str = r#"admissions_total{outcome="allow"}"#;

async fn site(dev: &Dev, processes: &str) -> Nginx {
    Nginx::builder(&text(processes)).dev(dev).set("name", "many").start().await
}

fn text(processes: &str) -> String {
    format!("{processes}\n{SITE}")
}

async fn ask(nginx: &Nginx, count: usize) {
    for _ in 0..count {
        assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    }
}

#[tokio::test]
async fn z11_a_killed_worker_loses_nothing_that_it_had_counted() {
    let dev = Dev::single().await;
    let mut nginx = site(&dev, "").await;
    ask(&nginx, 3).await;

    nginx.replace_worker().await;
    ask(&nginx, 2).await;

    let samples = Samples::of(&nginx).await;
    assert_eq!(samples.get(ALLOWED), 5.0);
    assert_eq!(samples.get("workers"), 1.0);
    nginx.finish().await;
}

#[tokio::test]
async fn z12_a_reload_keeps_the_counters_of_the_same_definitions_and_begins_anew_with_others() {
    let dev = Dev::single().await;
    let mut nginx = site(&dev, "").await;
    ask(&nginx, 3).await;

    nginx.reload().await;
    ask(&nginx, 1).await;
    assert_eq!(Samples::of(&nginx).await.get(ALLOWED), 4.0);

    nginx.set("name", "others");
    nginx.configure(SITE);
    nginx.reload().await;
    ask(&nginx, 1).await;
    assert_eq!(Samples::of(&nginx).await.get(ALLOWED), 1.0);
    nginx.finish().await;
}

#[tokio::test]
async fn z13_without_a_master_counters_go_on_across_reloads_too() {
    let dev = Dev::single().await;
    let mut nginx = site(&dev, "master_process off;").await;
    let mut kept = http::Client::connect(nginx.port()).await.expect("nginx accepts");
    nginx.allow_log("worker_connections are (not enough|in use)|cannot be set up");
    let mut reader = http::Client::connect(nginx.named_port("port_metrics")).await.expect("nginx accepts");
    assert_eq!(kept.get("/").await.expect("a response").status, 200);

    nginx.set("name", "others");
    nginx.configure(&text("master_process off;"));
    nginx.reload().await;

    // The old configuration's counters have left nginx's list, and its connections still count in them. nginx may have no
    // connection to give to a new set-up of the worker, so that the second request may fail open.
    assert_eq!(kept.get("/").await.expect("a response").status, 200);
    let page = reader.get("/metrics").await.expect("a response");
    assert_eq!(Samples::parse(&page.text()).get("admission_duration_seconds_count"), 2.0);
    assert!(nginx.quit().await.success());
    nginx.finish().await;
}

#[tokio::test]
async fn z14_workers_add_up() {
    let dev = Dev::single().await;
    let nginx = site(&dev, "worker_processes 2;").await;
    let pids = || BTreeSet::from_iter(nginx.access_log());

    // The kernel chooses the worker, so that requests go on until both have answered some.
    while pids().len() < 2 {
        assert!(nginx.access_log().len() < 1000, "one worker answers everything");
        ask(&nginx, 8).await;
    }

    let answered = nginx.access_log().len();
    let samples = Samples::of(&nginx).await;
    assert_eq!(samples.get(ALLOWED) as usize, answered);
    assert_eq!(samples.get("workers"), 2.0);
    nginx.finish().await;
}

#[tokio::test]
async fn z15_a_dead_worker_has_nothing_in_flight() {
    let dev = Dev::single().await;
    let mut nginx = site(&dev, "").await;
    nginx.admits().await;
    dev.fault(Fault::Silent).await;
    let port = nginx.port();
    let before = dev.requests().len();
    let waiting = tokio::spawn(async move { http::try_get(port, "/").await.is_ok() });
    dev.await_requests("the question", |requests| requests.len() > before).await;
    assert_eq!(Samples::of(&nginx).await.get("admissions_in_flight"), 1.0);

    nginx.replace_worker().await;

    assert!(!waiting.await.expect("the client ends"), "its connection was cut");
    assert_eq!(Samples::of(&nginx).await.get("admissions_in_flight"), 0.0);
    dev.clear([FaultKind::Silent]).await;
    nginx.finish().await;
}

/// On a machine with at most 16 processors there are 16 sets of counters.
#[tokio::test]
async fn z16_nginx_tells_the_memory_which_is_small() {
    let dev = Dev::single().await;
    let many =
        |kind, text: &str| (0..25).map(|n| text.replace("NAME", &format!("{kind}{n}"))).collect::<String>();
    let zones = many("z", "ratelimitly_zone NAME bucket=NAME rate=1r/s; ");
    let guards = many("g", "ratelimitly_guard NAME tracker=app threshold=1s; ");
    let text = MANY.replace("ZONES", &zones).replace("GUARDS", &guards);
    let nginx = Nginx::builder(&text).dev(&dev).log_level("info").start().await;

    let lines = nginx.log_lines("KiB of shared memory for \"ratelimitly_");
    let kib = |line: &String| -> u32 {
        let before = line.split(" KiB of").next().expect("a figure");
        before.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a figure")
    };
    // `nginx -t`, which the harness runs first, tells them too.
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines[..2].iter().map(kib).sum::<u32>() < 256, "{lines:#?}");
    nginx.finish().await;
}

const MANY: &str = r#"
    http {
        {service}
        ZONES
        ratelimitly_tracker app service=app ttl=5s min_sample_threshold=1;
        GUARDS
        server {
            listen 127.0.0.1:{port};
            ratelimitly zone=z0 guard=g0;
            ratelimitly_report app;
            location / { empty_gif; }
        }
    }
"#;
