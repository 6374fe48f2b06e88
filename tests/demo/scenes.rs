//! What the demo shows, scene by scene. Every row is a real request; server and time come from the module's own log
//! line. Called by `main` and `keep`.

use crate::table::{ALLOW, DENY, FAIL_CLOSE, FAIL_OPEN, Row, Table};
use ratelimitly_devserver::{Command, NOTICE, Servers};
use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, environment, http};
use std::path::PathBuf;
use std::time::Duration;

/// How long the upstream needs for a search: longer than the guard's threshold.
const SLOW: Duration = Duration::from_millis(150);
/// The module's line for a finished admission.
const ADMISSION: &str = r"ratelimitly: admission (verdict|failure)=\w+ server=(\S+) waited=(\d+)ms";

/// The demo after its last scene; everything in it is still running.
pub struct Played {
    pub nginx: Nginx,
    pub all_right: bool,
    stage: Stage,
}

struct Stage {
    dev: Dev,
    _upstream: Upstream,
}

/// Plays every scene.
pub async fn play() -> Played {
    println!("{NOTICE}\n");
    let dev = Dev::start().await;
    let upstream = Upstream::start(|seen| match seen.target.as_str() {
        "/search" => Answer::Late(SLOW, 200, "found\n".into()),
        _ => Answer::ok("done\n"),
    })
    .await;
    let mut nginx = start(&dev, &upstream).await;
    nginx.admits().await;

    let mut table = Table::new();
    rate(&nginx, &mut table).await;
    guard(&nginx, &dev, &mut table).await;
    one_down(&nginx, &dev, &mut table).await;
    all_down(&mut nginx, &dev, &mut table).await;
    println!("{}", if table.all_right { "Every row is as it should be." } else { "Some row is WRONG." });
    Played { nginx, all_right: table.all_right, stage: Stage { dev, _upstream: upstream } }
}

/// Opens the servers' sockets again and waits until nginx gets verdicts.
pub async fn servers_back(played: &Played) {
    played.stage.dev.reset().await.expect("the servers come back");
    played.nginx.admits().await;
}

/// Lets a person give the development server commands while everything runs on.
pub fn open_control(played: &Played) -> PathBuf {
    let path = played.nginx.prefix().join("control");
    played.stage.dev.open_control(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

async fn start(dev: &Dev, upstream: &Upstream) -> Nginx {
    let path = environment::repository().join("nginx-conf/demo.conf");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let builder = Nginx::builder(&text).dev(dev).set("upstream", upstream.address()).set("fail", "open");
    builder.log_level("info").start().await
}

async fn rate(nginx: &Nginx, table: &mut Table) {
    table.scene("three tokens in ten minutes");
    for expected in [ALLOW, ALLOW, ALLOW, DENY] {
        table.row(&ask(nginx, "/checkout").await, expected);
    }
}

async fn guard(nginx: &Nginx, dev: &Dev, table: &mut Table) {
    table.scene("the upstream needs 150 ms, the guard closes at 100 ms");
    table.row(&ask(nginx, "/search").await, ALLOW);
    let servers = dev.servers().len();
    dev.await_reports("the latency is reported to every server", |seen| seen.len() >= servers).await;
    table.row(&ask(nginx, "/search").await, DENY);
}

async fn one_down(nginx: &Nginx, dev: &Dev, table: &mut Table) {
    let oldest = dev.servers().iter().map(|server| server.id).min().expect("there are three");
    table.scene(&format!("server {oldest} is killed, and nobody notices"));
    dev.apply(Command::Down { servers: Servers::from(oldest) }).await.expect("a server can be stopped");
    for _ in 0..3 {
        table.row(&ask(nginx, "/browse").await, ALLOW.but_not(oldest));
    }
}

async fn all_down(nginx: &mut Nginx, dev: &Dev, table: &mut Table) {
    dev.apply(Command::Down { servers: Servers::All }).await.expect("servers can be stopped");
    for (policy, expected) in [("open", FAIL_OPEN), ("close", FAIL_CLOSE)] {
        table.scene(&format!("all servers are down, ratelimitly_fail {policy}"));
        if policy != "open" {
            nginx.set("fail", policy);
            nginx.reload().await;
        }
        table.row(&ask(nginx, "/browse").await, expected);
    }
}

/// Sends a request and waits for the log line of its admission.
async fn ask(nginx: &Nginx, path: &str) -> Row {
    let before = nginx.log_lines(ADMISSION).len();
    let response = http::get(nginx.port(), path).await;
    let lines = nginx.await_log_lines(ADMISSION, before + 1).await;
    let found =
        ratelimitly_harness::log::pattern(ADMISSION).captures(&lines[before]).map(|found| found.extract());
    let (_, [_, server, waited]) = found.expect("the line matched before");
    Row {
        request: format!("GET {path}"),
        status: response.status,
        verdict: response.header("x-verdict").unwrap_or("-").to_owned(),
        server: server.to_owned(),
        waited: waited.to_owned(),
    }
}
