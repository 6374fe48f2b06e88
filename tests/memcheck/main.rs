//! The life of a worker for `ci/memcheck`, which runs it with an nginx under valgrind: verdicts, failures, aborts, redirects,
//! reports, a rebind, discovery that fails, panics inside, reloads, and an end while requests wait. Judges only what is
//! answered; what memory had to say is in valgrind's logs, which `ci/memcheck` reads.
#![forbid(unsafe_code)]

use clap::{Parser, ValueEnum};
use ratelimitly_core::key::KeyKind;
use ratelimitly_devserver::{Command, DnsFault, Fault, Servers};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx, eventually, eventually_some, h2, http, key, process};
use std::time::Duration;

/// Under valgrind everything takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

const CONFIGURATION: &str = r#"
    {service}
    resolver_timeout 2s;
    ratelimitly_policy standard unit=600ms;
    ratelimitly_fail close;
    ratelimitly_zone plenty "bucket=memory" rate=100000r/s;
    ratelimitly_zone scarce "bucket=$arg_name" rate=1r/h;
    ratelimitly_group both zone=plenty zone=scarce;
    ratelimitly_tracker t "service=memory" min_sample_threshold=1;
    ratelimitly_guard g tracker=t threshold=1h;
    {fault}
    server {
        listen 127.0.0.1:{port};
        listen 127.0.0.1:{port_h2}{http2};
        root {prefix}/html;
        ratelimitly_label $request_uri;
        location / { ratelimitly zone=plenty guard=g; ratelimitly_report t; empty_gif; }
        location /once { ratelimitly group=both; error_page 429 /refused; empty_gif; }
        location /refused { ratelimitly zone=plenty; try_files /__alive =404; }
        location /index/ { ratelimitly zone=plenty; index /__alive; }
        location /tried { ratelimitly zone=plenty; try_files /nothing @named; }
        location @named { ratelimitly zone=plenty; empty_gif; }
    }
"#;

/// The life of a worker, with an nginx that ci/memcheck runs under valgrind.
#[derive(Parser)]
#[command(name = "ratelimitly-memcheck")]
struct Cli {
    mode: Mode,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// One process, AES key
    Single,
    /// One process, cookie key: no byte of a datagram comes out of a cipher, so valgrind can judge all of them
    Cookie,
    /// Master and workers, with reloads and panics inside
    Workers,
}

#[tokio::main]
async fn main() {
    let (process, kind) = match Cli::parse().mode {
        Mode::Single => ("master_process off;", KeyKind::Aes),
        Mode::Cookie => ("master_process off;", KeyKind::Cookie),
        Mode::Workers => ("", KeyKind::Aes),
    };
    life(process, kind).await;
}

async fn life(process: &str, kind: KeyKind) {
    let dev = Dev::with(|config| config.key(key(kind))).await;
    let text = format!("{process}{CONFIGURATION}");
    let builder = Nginx::builder(&text).fault_module().dev(&dev).set("fault", "").log_level("info");
    let mut nginx = builder.start().await;
    // Panics that are asked for below.
    nginx.allow_log("panic");

    discovery(&dev, &nginx).await;
    nginx.admits().await;
    verdicts(&nginx).await;
    failures(&dev, &nginx).await;
    aborts(&dev, &nginx).await;
    rebind(&dev, &nginx).await;
    // Without a master nginx goes on with the old configuration after a reload (operations.md).
    if process.is_empty() {
        faults_inside(&mut nginx).await;
        reload(&mut nginx, "").await;
        nginx.admits().await;
        verdicts(&nginx).await;
    }
    end(&dev, nginx, process.is_empty()).await;
}

async fn set(dev: &Dev, command: Command) {
    dev.apply(command).await.expect("a command that makes sense");
}

async fn mend(dev: &Dev) {
    dev.reset().await.expect("the servers can be mended");
}

/// The first discovery of a worker, failing in each way and then succeeding.
async fn discovery(dev: &Dev, nginx: &Nginx) {
    for fault in
        [DnsFault::Silent, DnsFault::ServFail, DnsFault::NoSrv, DnsFault::NoTarget { servers: Servers::All }]
    {
        set(dev, Command::Dns { fault }).await;
        assert_eq!(http::get(nginx.port(), "/").await.status, 429);
        set(dev, Command::ClearDns { faults: vec![] }).await;
    }
    set(dev, Command::Dns { fault: DnsFault::Truncate }).await;
    eventually_some(PATIENCE, "an admission of members found over TCP", async || {
        (http::get(nginx.port(), "/").await.status == 200).then_some(())
    })
    .await;
    mend(dev).await;
}

async fn verdicts(nginx: &Nginx) {
    let name = fastrand::u64(..);
    for (path, status) in [
        ("/".into(), 200),
        (format!("/once?name={name}"), 200),
        (format!("/once?name={name}"), 429),
        ("/index/".into(), 200),
        ("/tried".into(), 200),
        ("/once?name=".into(), 429),
    ] {
        let answered = http::get(nginx.port(), &path).await.status;
        println!("{path}: {answered}");
        assert_eq!(answered, status, "{path}");
    }
}

async fn failures(dev: &Dev, nginx: &Nginx) {
    let faults =
        [Fault::Silent, Fault::WrongAuthentication, Fault::Truncated { bytes: None }, Fault::EmptyResults];
    for fault in faults {
        println!("{fault:?}");
        dev.fault(fault).await;
        assert_eq!(http::get(nginx.port(), "/").await.status, 429);
        mend(dev).await;
    }
    set(dev, Command::Down { servers: Servers::All }).await;
    assert_eq!(http::get(nginx.port(), "/").await.status, 429);
    mend(dev).await;
}

/// Connections and streams that their clients give up.
async fn aborts(dev: &Dev, nginx: &Nginx) {
    println!("aborts");
    dev.fault(Fault::Hold).await;
    let held = dev.requests().len();
    let mut clients = waiting(nginx, 5).await;
    let mut connection = h2::Connection::connect(nginx.named_port("port_h2")).await.expect("nginx accepts");
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(connection.get("/").await.expect("a stream"));
    }
    dev.await_requests("all of them wait", |seen| seen.len() >= held + 30).await;
    clients.drain(..3).for_each(|client| client.reset().expect("a reset"));
    streams.drain(..3).for_each(h2::Stream::reset);
    // The others still wait, so the last lines are theirs.
    eventually(PATIENCE, "all six are logged as gone", || {
        nginx.access_log().iter().rev().take(6).filter(|line| line.starts_with("499 ")).count() == 6
    })
    .await;
    set(dev, Command::Clear { servers: Servers::All, faults: vec![] }).await;
    for stream in streams {
        let status = stream.response().await.expect("an answer").status;
        assert!(matches!(status, 200 | 429), "{status}");
    }
    mend(dev).await;
}

async fn waiting(nginx: &Nginx, count: usize) -> Vec<Raw> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = Raw::connect(nginx.port()).await.expect("nginx accepts");
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("nginx reads");
        clients.push(client);
    }
    clients
}

async fn rebind(dev: &Dev, nginx: &Nginx) {
    println!("rebind");
    dev.fault(Fault::Rebind).await;
    http::get(nginx.port(), "/").await;
    nginx.await_log_line("UDP socket rebound").await;
    mend(dev).await;
}

/// Each in a worker of its own.
async fn faults_inside(nginx: &mut Nginx) {
    for fault in ["handler_panic", "core_panic", "receive_panic", "task_panic", "socket", "resolver"] {
        reload(nginx, &format!("ratelimitly_fault {fault}=1;")).await;
        let status = http::get(nginx.port(), "/").await.status;
        println!("with the fault {fault}: {status}");
        assert!(matches!(status, 429 | 500), "the fault {fault} did nothing: {status}");
    }
}

async fn reload(nginx: &mut Nginx, fault: &str) {
    nginx.set("fault", fault);
    let old = nginx.start_reload().await;
    eventually(PATIENCE, "the old worker ends", || !old.iter().any(|pid| process::is_running(*pid))).await;
}

/// nginx ends; with workers, while requests wait for held answers.
async fn end(dev: &Dev, mut nginx: Nginx, under_way: bool) {
    let mut clients = Vec::new();
    if under_way {
        dev.fault(Fault::Hold).await;
        let held = dev.requests().len();
        clients = waiting(&nginx, 3).await;
        dev.await_requests("all of them wait", |seen| seen.len() >= held + 9).await;
        // nginx closes their connections itself and says so.
        nginx.allow_log("open socket|aborting");
    }
    let status = nginx.terminate(PATIENCE).await;
    println!("nginx ended: {status}");
    drop(clients);
    nginx.finish().await;
}
