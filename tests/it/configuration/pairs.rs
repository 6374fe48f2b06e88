//! Pairs of configurations across a reload: nginx starts with the first, is reloaded to the second under traffic, and back.
//! A seeded generator makes the pairs; every one of its configurations loads. With every pair, each request gets a
//! response, and the error log tells of no broken invariant. A failure prints the pair.

use ratelimitly_core::key::KeyKind;
use ratelimitly_harness::http::Client;
use ratelimitly_harness::{Dev, Nginx, http, key};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::task::JoinHandle;

/// Pairs for each process model. Each takes about a second.
const PAIRS: u64 = 4;
const SINGLE: &str = "master_process off;\n";

const KEYS: [&str; 2] = ["{key}", "{key_cookie}"];
const RESOLVERS: [&str; 4] = [
    "ratelimitly_dns_resolver {dns};",
    "ratelimitly_resolver {dns} valid=1s ipv6=off;",
    "resolver {dns};",
    "resolver {dns} valid=2s; resolver_timeout 3s;",
];
const SETTINGS: [&str; 10] = [
    "ratelimitly_policy standard unit=5ms;",
    "ratelimitly_policy single_round unit=300ms;",
    "ratelimitly_policy custom unit=10ms replays=3 replay_gap=linear:1:1:3 final_wait_units=2 completion_delivery=on;",
    "ratelimitly_fail open;",
    "ratelimitly_fail close;",
    "ratelimitly_bind 127.0.0.1;",
    "ratelimitly_debug on;",
    "",
    "",
    "",
];
const BUCKETS: [&str; 4] = ["fixed", "$remote_addr", "$arg_user", "a:$server_name:$uri"];
const RATES: [&str; 4] = ["1000000r/s", "1r/h", "$rate", "5r/2m"];
const THRESHOLDS: [&str; 3] = ["1ms", "10s", "$threshold"];
const LABELS: [&str; 4] =
    ["", "ratelimitly_label plain;", "ratelimitly_label $uri cut;", "ratelimitly_label $arg_x;"];
const REPORTS: [&str; 4] = ["", "ratelimitly_report t;", "ratelimitly_report u;", "ratelimitly_report off;"];
const RULES: [&str; 7] = [
    "",
    "ratelimitly zone=z;",
    "ratelimitly zone=y guard=g;",
    "ratelimitly group=all;",
    "ratelimitly group=all guard=g guard=h;",
    "ratelimitly guard=h;",
    "ratelimitly zone=z; ratelimitly zone=y;",
];

#[tokio::test(flavor = "multi_thread")]
async fn workers_answer_across_reloads_between_any_two_configurations() {
    let dev = Dev::single().await;
    for seed in 0..PAIRS {
        Pair::new(seed, "").across(&dev).await.finish().await;
    }
}

/// nginx without a master gives no event to what it listens on anew, so one connection carries the traffic. It keeps the
/// configuration that it was accepted with, while the process has the other one. After a reload nginx has no connection to
/// give, not even to a discovery, until one of before is given back.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_master_the_process_answers_across_reloads_between_any_two_configurations() {
    let dev = Dev::single().await;
    for seed in PAIRS..2 * PAIRS {
        let mut nginx = Pair::new(seed, SINGLE).across(&dev).await;
        nginx.allow_log("worker_connections are not enough");
        assert!(nginx.quit().await.success());
        nginx.finish().await;
    }
}

struct Pair {
    seed: u64,
    first: String,
    second: String,
    single: bool,
}

impl Pair {
    fn new(seed: u64, process: &str) -> Pair {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut made = || format!("{process}{}", configuration(&mut random));
        Pair { seed, first: made(), second: made(), single: !process.is_empty() }
    }

    /// Starts nginx with the first, and reloads it to the second and back.
    async fn across(&self, dev: &Dev) -> Nginx {
        eprintln!("seed {}, first:\n{}\nsecond:\n{}", self.seed, self.first, self.second);
        // Without `Builder::dev`: the checks at the end cannot ask for an admission where there is no key.
        let builder = Nginx::builder(&self.first).log_level("notice");
        let builder = builder.set("key", dev.key()).set("key_cookie", key(KeyKind::Cookie).encode());
        let mut nginx = builder.set("dns", dev.dns_addr()).set("zone", dev.zone()).start().await;
        let traffic = Traffic::start(nginx.port(), self.single).await;
        for text in [&self.second, &self.first] {
            traffic.more().await;
            nginx.configure(text);
            nginx.reload().await;
            traffic.more().await;
        }
        let is_cut_off = traffic.end().await;
        let reused = nginx.log_lines("worker_connections are not enough, reusing connections");
        assert!(!is_cut_off || !reused.is_empty(), "nginx closed a connection that it had no need to reuse");
        nginx
    }
}

/// One request after the other, from before the first reload until after the last. The kept connection may end before:
/// where nginx has no connection to give, it closes one that lies between two requests and uses that.
struct Traffic {
    answered: Arc<AtomicUsize>,
    enough: Arc<AtomicBool>,
    /// Whether the kept connection was closed between two requests.
    task: JoinHandle<bool>,
}

impl Traffic {
    async fn start(port: u16, kept: bool) -> Traffic {
        let (answered, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let mut client = if kept { Some(Client::connect(port).await.expect("nginx accepts")) } else { None };
        let (count, is_enough) = (Arc::clone(&answered), Arc::clone(&enough));
        let task = tokio::spawn(async move {
            while !is_enough.load(Ordering::Relaxed) {
                let path = format!("/{}?user=u", count.load(Ordering::Relaxed) % 3);
                let response = match &mut client {
                    Some(client) => match client.get(&path).await {
                        Ok(response) => response,
                        Err(_) => return true,
                    },
                    None => http::get(port, &path).await,
                };
                assert!([200, 429].contains(&response.status), "{}", response.status);
                count.fetch_add(1, Ordering::Relaxed);
            }
            false
        });
        Traffic { answered, enough, task }
    }

    /// Waits until two requests more were answered: the second began after this call.
    async fn more(&self) {
        let wanted = self.answered.load(Ordering::Relaxed) + 2;
        let done = || self.task.is_finished() || self.answered.load(Ordering::Relaxed) >= wanted;
        ratelimitly_harness::eventually(http::PATIENCE, "requests are answered", done).await;
    }

    /// Whether the kept connection was closed between two requests.
    async fn end(self) -> bool {
        self.enough.store(true, Ordering::Relaxed);
        self.task.await.expect("each request gets a response")
    }
}

/// A configuration that loads, with or without a key; without one no rule is in effect.
fn configuration(random: &mut fastrand::Rng) -> String {
    let mut text = String::from("http {\n");
    let has_key = random.u8(0..4) > 0;
    if has_key {
        let (key, resolver) = (pick(random, &KEYS), pick(random, &RESOLVERS));
        line(&mut text, &format!("ratelimitly_auth_key {key}; ratelimitly_dns_srv {{zone}}; {resolver}"));
    }
    // Three neighbours of one list: two of one directive would be an error.
    let settings = [&SETTINGS[..3], &SETTINGS[3..5], &SETTINGS[5..]];
    settings.iter().for_each(|some| line(&mut text, pick(random, some)));
    let mut definition = |name: &str, rest: String| line(&mut text, &format!("ratelimitly_{name} {rest};"));
    for zone in ["z", "y"] {
        let (bucket, rate) = (pick(random, &BUCKETS), pick(random, &RATES));
        definition("zone", format!("{zone} \"bucket={bucket}\" rate={rate}"));
    }
    for (tracker, guard) in [("t", "g"), ("u", "h")] {
        let (service, threshold) = (pick(random, &BUCKETS), pick(random, &THRESHOLDS));
        definition("tracker", format!("{tracker} \"service={service}\" ttl=1s min_sample_threshold=1"));
        definition("guard", format!("{guard} tracker={tracker} threshold={threshold}"));
    }
    definition("group", "all zone=y zone=z".to_owned());
    line(&mut text, "map $arg_x $rate { default 9r/s; }\nmap $arg_x $threshold { default 2s; }");
    line(&mut text, "server {\nlisten 127.0.0.1:{port};\naccess_log off;");
    place(random, &mut text, has_key);
    line(&mut text, "location /1 {");
    place(random, &mut text, has_key);
    line(&mut text, "empty_gif;\n}\nlocation / {");
    place(random, &mut text, has_key);
    line(&mut text, "empty_gif;\n}\n}\n}");
    text
}

fn place(random: &mut fastrand::Rng, text: &mut String, has_key: bool) {
    line(text, pick(random, &LABELS));
    if has_key {
        line(text, pick(random, &RULES));
        line(text, pick(random, &REPORTS));
    }
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes everything");
}

fn pick<'a>(random: &mut fastrand::Rng, from: &[&'a str]) -> &'a str {
    from[random.usize(0..from.len())]
}
