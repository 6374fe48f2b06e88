//! Servers that one worker has found are handed on in shared memory: a worker that starts after it, after a reload or a kill,
//! begins with them instead of cold.

use ratelimitly_devserver::DnsFault;
use ratelimitly_harness::{Dev, Nginx, eventually, eventually_some, http};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const SITE: &str = r#"
    http {
        {service}
        ratelimitly_fail close;
        ratelimitly_policy standard unit=100ms;
        ratelimitly_zone many "bucket=many" rate=100000r/s;
        server {
            listen 127.0.0.1:{port};
            location / { ratelimitly zone=many; empty_gif; }
        }
    }
"#;

async fn site(dev: &Dev) -> Nginx {
    let nginx = Nginx::builder(SITE).dev(dev).start().await;
    nginx.admits().await;
    nginx
}

#[tokio::test]
async fn b21_a_worker_of_a_reload_asks_without_waiting_for_dns() {
    let dev = Dev::single().await;
    let mut nginx = site(&dev).await;
    dev.dns_fault(DnsFault::Silent).await;

    nginx.reload().await;

    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    dev.clear_dns().await;
    nginx.finish().await;
}

#[tokio::test]
async fn b22_a_worker_that_replaces_a_killed_one_asks_without_waiting_for_dns() {
    let dev = Dev::single().await;
    let mut nginx = site(&dev).await;
    dev.dns_fault(DnsFault::Silent).await;

    nginx.replace_worker().await;

    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    dev.clear_dns().await;
    nginx.finish().await;
}

/// The development server's records live for a second. crates/core/tests/client_discovery.rs has the times.
#[tokio::test]
async fn b23_members_that_are_over_are_used_and_looked_up_again() {
    let dev = Dev::single().await;
    let mut nginx = site(&dev).await;
    let before = nginx.log_lines("members of").len();
    nginx.reload().await;
    dev.dns_fault(DnsFault::ServFail).await;
    nginx.allow_log("discovery failed");

    eventually_some(http::PATIENCE, "a look-up that fails", async || {
        assert_eq!(http::get(nginx.port(), "/").await.status, 200);
        nginx.log_lines("discovery failed").pop()
    })
    .await;

    assert_eq!(nginx.log_lines("members of").len(), before, "the members are the same");
    dev.clear_dns().await;
    nginx.finish().await;
}

#[tokio::test]
async fn b24_another_name_is_another_area() {
    let dev = Dev::single().await;
    let mut nginx = site(&dev).await;
    dev.dns_fault(DnsFault::Silent).await;
    nginx.allow_log("discovery|no usable");

    let moved = SITE.replace(
        "{service}",
        "ratelimitly_auth_key {key}; ratelimitly_dns_srv other.test; ratelimitly_dns_resolver {dns};",
    );
    nginx.configure(&moved);
    nginx.reload().await;

    assert_eq!(http::get(nginx.port(), "/").await.status, 429, "nothing is known of this name");
    nginx.configure(SITE);
    nginx.reload().await;
    dev.clear_dns().await;
    nginx.finish().await;
}

/// docs/operations.md tells of 70 rounds (`RATELIMITLY_ROUNDS=70`): 50 reloads and 20 killed workers.
#[tokio::test(flavor = "multi_thread")]
async fn b25_reloads_and_killed_workers_under_load_cost_no_verdict() {
    let rounds = std::env::var("RATELIMITLY_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(8);
    let dev = Dev::single().await;
    let mut nginx = site(&dev).await;
    dev.dns_fault(DnsFault::Delay { ms: 300 }).await;
    let (load, started) = (Load::start(nginx.port()), Instant::now());

    for round in 0..rounds {
        load.more().await;
        if [3, 6].contains(&(round % 7)) {
            nginx.replace_worker().await;
        } else {
            nginx.reload().await;
        }
    }
    load.more().await;

    let (answered, refused, cut) = load.end().await;
    let rate = f64::from(answered) / started.elapsed().as_secs_f64();
    eprintln!("{answered} verdicts, {rate:.0} a second; {refused} without one; {cut} connections cut");
    assert_eq!(refused, 0, "requests that were refused without a verdict");
    dev.clear_dns().await;
    nginx.finish().await;
}

/// Of each client after a request, so that four of them ask about a thousand times a second.
const PAUSE: Duration = Duration::from_millis(2);

/// Four clients, one request after the other. Connections that a kill cuts are no answers.
struct Load {
    answered: Arc<AtomicU32>,
    refused: Arc<AtomicU32>,
    cut: Arc<AtomicU32>,
    enough: Arc<AtomicBool>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(port: u16) -> Load {
        let [answered, refused, cut]: [Arc<AtomicU32>; 3] = Default::default();
        let enough = Arc::new(AtomicBool::new(false));
        let client = || {
            let (answered, refused, cut) = (answered.clone(), refused.clone(), cut.clone());
            let enough = enough.clone();
            tokio::spawn(async move {
                let mut kept: Option<http::Client> = None;
                while !enough.load(Ordering::Relaxed) {
                    let asked = match &mut kept {
                        Some(client) => client.get("/").await,
                        None => match http::Client::connect(port).await {
                            Ok(client) => kept.insert(client).get("/").await,
                            Err(error) => Err(error),
                        },
                    };
                    match asked {
                        Ok(response) if response.status == 200 => answered.fetch_add(1, Ordering::Relaxed),
                        Ok(_) => refused.fetch_add(1, Ordering::Relaxed),
                        Err(_) => {
                            kept = None;
                            cut.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                    tokio::time::sleep(PAUSE).await; // the load's pace
                }
            })
        };
        let clients = (0..4).map(|_| client()).collect();
        Load { answered, refused, cut, enough, clients }
    }

    /// Waits until a hundred requests more were answered.
    async fn more(&self) {
        let wanted = self.answered.load(Ordering::Relaxed) + 100;
        eventually(http::PATIENCE, "requests are answered", || {
            self.answered.load(Ordering::Relaxed) >= wanted
        })
        .await;
    }

    /// Requests that were answered, that were refused, and whose connection was cut.
    async fn end(self) -> (u32, u32, u32) {
        self.enough.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.expect("a client ends");
        }
        let [answered, refused, cut] =
            [&self.answered, &self.refused, &self.cut].map(|count| count.load(Ordering::Relaxed));
        (answered, refused, cut)
    }
}
