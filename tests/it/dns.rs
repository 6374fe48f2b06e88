//! Discovery through nginx: missing, wrong, silent and changing DNS.
//!
//! Rows D18 to D28 are about a pure function and are shown by the tests of `crates/config`.

mod recovery;
mod settings;
mod words;

use crate::FAILURES;
use ratelimitly_devserver::{Command, Config, DnsFault, Member, Servers};
use ratelimitly_harness::{Builder, Dev, Nginx, eventually_some, http};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

/// Longest recovery; a discovery that failed is repeated after a second.
const RECOVERY: Duration = Duration::from_secs(10);

const CONFIGURATION: &str = r#"
    ratelimitly_auth_key {key};
    ratelimitly_dns_srv {zone};
    ratelimitly_dns_resolver {nameservers};
    ratelimitly_policy standard unit={unit};
    ratelimitly_fail {fail};
    ratelimitly_zone dns "bucket=dns" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=dns; empty_gif; }
    }
"#;

async fn start(dev: &Dev, fail: &str) -> Nginx {
    start_with(dev, fail, &dev.dns_addr().to_string()).await
}

async fn start_with(dev: &Dev, fail: &str, nameservers: &str) -> Nginx {
    builder(dev, fail).set("nameservers", nameservers).set("unit", "600ms").start().await
}

/// An nginx whose requests wait for DNS for 600 ms only, for tests in which DNS never answers.
async fn start_impatient(dev: &Dev, fail: &str) -> Nginx {
    builder(dev, fail).set("nameservers", dev.dns_addr()).set("unit", "200ms").start().await
}

fn builder(dev: &Dev, fail: &str) -> Builder {
    Nginx::builder(CONFIGURATION).dev(dev).set("fail", fail)
}

/// Three servers whose DNS has this fault from the beginning.
async fn with_fault(fault: DnsFault) -> Dev {
    Dev::with(|config: Config| config.command(Command::Dns { fault })).await
}

async fn status(nginx: &Nginx) -> u16 {
    http::get(nginx.port(), "/").await.status
}

/// Asks until the worker gets a verdict.
async fn recovers(nginx: &Nginx) {
    let worker = nginx.worker_pid();
    let mut asked = nginx.await_access_log(nginx.access_log().len()).await.len();
    eventually_some(RECOVERY, "a request is allowed", async || {
        let status = status(nginx).await;
        asked += 1;
        let last = nginx.await_access_log(asked).await.swap_remove(asked - 1);
        (status == 200 && last.starts_with("200 allow ")).then_some(())
    })
    .await;
    assert_eq!(nginx.worker_pid(), worker, "the same worker recovers");
}

/// Without a member every request follows the failure policy, and nothing is sent.
async fn fails(fault: DnsFault) {
    for (fail, expected) in FAILURES {
        let dev = with_fault(fault.clone()).await;
        let nginx = start_impatient(&dev, fail).await;

        for _ in 0..3 {
            assert_eq!(status(&nginx).await, expected, "fail {fail}, {fault:?}");
        }

        let logged = nginx.await_access_log(3).await;
        assert!(logged.iter().all(|line| line.starts_with(&format!("{expected} - "))), "{logged:?}");
        assert_eq!(nginx.await_log_lines("admission failure=discovery", 3).await.len(), 3);
        assert!(dev.requests().is_empty());
        nginx.finish().await;
    }
}

/// Once DNS is right, the same worker gets verdicts without a reload.
async fn recovers_from(fault: DnsFault) {
    for (fail, expected) in FAILURES {
        let dev = with_fault(fault.clone()).await;
        let nginx = start_impatient(&dev, fail).await;
        assert_eq!(status(&nginx).await, expected, "fail {fail}, {fault:?}");
        nginx.await_access_log(1).await;

        dev.clear_dns().await;
        recovers(&nginx).await;
        nginx.finish().await;
    }
}

fn unresolvable() -> [DnsFault; 3] {
    [
        DnsFault::NoTarget { servers: Servers::All },
        DnsFault::NoAddress { servers: Servers::All },
        DnsFault::BadTarget { servers: Servers::All },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn d01_a_missing_srv_record_follows_the_failure_policy() {
    fails(DnsFault::NoSrv).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d02_an_srv_record_that_appears_is_found() {
    recovers_from(DnsFault::NoSrv).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d03_targets_that_cannot_be_resolved_follow_the_failure_policy() {
    for fault in unresolvable() {
        fails(fault).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d04_targets_that_become_resolvable_are_found() {
    for fault in unresolvable() {
        recovers_from(fault).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d05_a_silent_nameserver_follows_the_failure_policy() {
    fails(DnsFault::Silent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d06_a_nameserver_that_answers_again_is_heard() {
    recovers_from(DnsFault::Silent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d10_there_is_no_fallback_to_a_name_and_a_port() {
    let dev = with_fault(DnsFault::NoSrv).await;
    let nginx = start(&dev, "close").await;

    assert_eq!(status(&nginx).await, 429);

    let counts = dev.dns_counts();
    assert!(counts.srv > 0);
    assert_eq!((counts.a, counts.aaaa), (0, 0), "no address of any name is asked for");
    assert!(dev.requests().is_empty());
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nameserver_that_fails_follows_the_failure_policy() {
    fails(DnsFault::ServFail).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_target_without_an_address_is_left_out() {
    let dev = Dev::start().await;
    let [missing, second, third] = [0, 1, 2].map(|place| dev.servers()[place].id);
    dev.dns_fault(DnsFault::NoTarget { servers: missing.into() }).await;
    let nginx = start(&dev, "close").await;

    assert_eq!(status(&nginx).await, 200);

    let seen = dev.await_requests("the others are asked", |seen| seen.len() >= 2).await;
    assert!(seen.iter().all(|event| [second, third].contains(&event.server)), "{seen:#?}");
    nginx
        .await_log_line(&format!(r"members of .*; skipped: 1 server without a usable address: s-{missing}"))
        .await;
    nginx.finish().await;
}

/// DNS that answers with addresses that nothing can be sent to says something else than DNS that has none.
#[tokio::test(flavor = "multi_thread")]
async fn targets_with_unusable_addresses_only_are_named_as_such() {
    let dev = Dev::single().await;
    let remove = vec![dev.servers()[0].id];
    let unusable = ["0.0.0.0", "255.255.255.255", "224.0.0.1"].map(|text| text.parse().expect("an address"));
    let member = Member { id: 7, address: Some((unusable[0], 9).into()) };
    dev.apply(Command::Members { remove, add: vec![member] }).await.expect("members can be changed");
    dev.dns_fault(DnsFault::ExtraAddresses { server: 7, addresses: unusable[1..].to_vec() }).await;
    let nginx = start(&dev, "close").await;

    assert_eq!(status(&nginx).await, 429);

    let said = [
        r"\[error\].*no usable address was found for 1 server of .*; skipped: 3 addresses that nothing can be sent to: ",
        r"0\.0\.0\.0 224\.0\.0\.1 255\.255\.255\.255, 1 server without a usable address: s-7",
    ];
    nginx.await_log_line(&said.concat()).await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_answer_is_asked_for_over_tcp() {
    let dev = with_fault(DnsFault::Truncate).await;
    let nginx = start(&dev, "close").await;

    recovers(&nginx).await;

    let counts = dev.dns_counts();
    assert!(counts.udp > 0 && counts.tcp > 0, "{counts:?}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_first_nameserver_is_passed_over() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let dev = Dev::start().await;
    let nameservers = format!("{} {}", silent.local_addr().expect("an address"), dev.dns_addr());
    let nginx = start_with(&dev, "close", &nameservers).await;

    recovers(&nginx).await;

    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_that_fails_keeps_the_members() {
    let dev = Dev::start().await;
    let nginx = start(&dev, "close").await;
    assert_eq!(status(&nginx).await, 200);

    dev.dns_fault(DnsFault::NoSrv).await;
    eventually_some(RECOVERY, "a refresh fails", async || {
        assert_eq!(status(&nginx).await, 200);
        (!nginx.log_lines(r"\[error\].*discovery failed").is_empty()).then_some(())
    })
    .await;

    assert_eq!(status(&nginx).await, 200);
    assert!(nginx.access_log().iter().all(|line| line.starts_with("200 allow ")));
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_discovery_is_repeated_at_most_once_a_second() {
    let dev = with_fault(DnsFault::NoSrv).await;
    let nginx = start(&dev, "close").await;

    // A question that a machine at a standstill does not answer within half a second is asked again, which spoils a row.
    let mut took = Vec::new();
    while took.len() < 4 && took.iter().all(|took| *took < Duration::from_millis(1900)) {
        took.push(three_discoveries(&dev, &nginx).await);
    }

    let slow = took.iter().any(|took| *took > Duration::from_millis(1900));
    assert!(slow, "rows of three took {took:?}");
    let lines = nginx.log_lines(r"\[error\].*discovery failed");
    assert_eq!(lines.len(), 1, "a row of failures is logged once a minute: {lines:#?}");
    nginx.finish().await;
}

/// How long it takes from the beginning of the next discovery to that of the second one after it.
async fn three_discoveries(dev: &Dev, nginx: &Nginx) -> Duration {
    let before = dev.dns_counts().srv;
    let begun = async |count| {
        eventually_some(RECOVERY, format!("{count} discoveries"), async || {
            assert_eq!(status(nginx).await, 429);
            (dev.dns_counts().srv >= before + count).then_some(())
        })
        .await;
    };
    begun(1).await;
    let started = Instant::now();
    begun(3).await;
    started.elapsed()
}

/// How many datagrams have come so far; takes them off.
fn questions(nameserver: &UdpSocket) -> usize {
    nameserver.set_nonblocking(true).expect("a look without waiting");
    std::iter::from_fn(|| nameserver.recv(&mut [0; 512]).ok()).count()
}

/// The records live for a second; a request after that looks them up again. Waits until it is done.
async fn next_discovery(dev: &Dev, nginx: &Nginx) {
    let looked_up = dev.dns_counts().srv;
    eventually_some(RECOVERY, "the next discovery", async || {
        status(nginx).await;
        (dev.dns_counts().srv > looked_up).then_some(())
    })
    .await;
    nginx.only_udp_socket().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nameserver_that_answered_last_is_asked_first_the_next_time() {
    let dev = Dev::single().await;
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let nameservers = format!("{} {}", silent.local_addr().expect("an address"), dev.dns_addr());
    let nginx = start_with(&dev, "close", &nameservers).await;
    recovers(&nginx).await;
    assert!(questions(&silent) > 0, "it is the first one of the configuration");

    // The other one is asked where the first has no answer within half a second, as on a machine at a standstill.
    let mut asked = Vec::new();
    while asked.len() < 4 && !asked.contains(&0) {
        next_discovery(&dev, &nginx).await;
        asked.push(questions(&silent));
    }

    assert!(asked.contains(&0), "the one that answered was not asked first: {asked:?}");
    nginx.finish().await;
}
