//! DNS that changes, flaps and lies each second, under load.

use crate::pressure::{apply, warm};
use ratelimitly_devserver::{Command, DnsFault, Member, Servers};
use ratelimitly_harness::{Dev, Nginx, http};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long each state of the zone lasts; its records live as long.
const STEP: Duration = Duration::from_secs(1);
const GUESTS: [u64; 2] = [901 << 23, 902 << 23];

/// Three clients that ask one request after the other until they are told to stop; how many got which status.
async fn under_load(nginx: &Nginx, changes: impl Future<Output = ()>) -> BTreeMap<u16, usize> {
    let stop = Arc::new(AtomicBool::new(false));
    let client = |_| {
        let (stop, port) = (stop.clone(), nginx.port());
        tokio::spawn(async move {
            let mut statuses = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                statuses.push(http::get(port, "/").await.status);
            }
            statuses
        })
    };
    let clients: Vec<_> = (0..3).map(client).collect();
    changes.await;
    stop.store(true, Ordering::Relaxed);
    let mut counts = BTreeMap::new();
    for client in clients {
        for status in client.await.expect("a client ends") {
            *counts.entry(status).or_default() += 1;
        }
    }
    counts
}

async fn steps(dev: &Dev, commands: Vec<Command>) {
    let mut tick = tokio::time::interval(STEP); // the subject: one change a second
    for command in commands {
        tick.tick().await;
        apply(dev, command).await;
    }
    tick.tick().await;
}

/// Every request was allowed, by an answer.
fn all_allowed(nginx: &Nginx, counts: &BTreeMap<u16, usize>) {
    assert!(counts.get(&200).is_some_and(|count| *count > 20), "there was hardly any load: {counts:?}");
    assert_eq!(counts.len(), 1, "{counts:?}");
    let log = nginx.access_log();
    let others: Vec<_> = log.iter().filter(|line| !line.starts_with("200 allow ")).collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_change_each_second_cost_no_request() {
    let dev = Dev::start().await;
    let nginx = warm(&dev, "close").await;
    let [first, second, third] = [0, 1, 2].map(|place| dev.servers()[place].id);
    let change = |remove: &[u64], add: &[u64]| Command::Members {
        remove: remove.to_vec(),
        add: add.iter().copied().map(Member::from).collect(),
    };

    let counts = under_load(
        &nginx,
        steps(
            &dev,
            vec![
                change(&[first], &[GUESTS[0]]),
                change(&[second, third], &[GUESTS[1]]),
                change(&[GUESTS[0]], &[first]),
                change(&[GUESTS[1]], &[second]),
                change(&[first, second], &[third]),
                change(&[], &[first, second]),
            ],
        ),
    )
    .await;

    all_allowed(&nginx, &counts);
    let changes = nginx.log_lines("ratelimitly: members of .* are now").len();
    assert!(changes >= 3, "the changes went by unseen: {changes}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dns_that_flaps_each_second_costs_no_request() {
    let dev = Dev::start().await;
    let nginx = warm(&dev, "close").await;
    let fault = |fault| Command::Dns { fault };
    let mend = || Command::ClearDns { faults: vec![] };

    let counts = under_load(
        &nginx,
        steps(
            &dev,
            vec![
                fault(DnsFault::ServFail),
                mend(),
                fault(DnsFault::NoSrv),
                mend(),
                fault(DnsFault::Silent),
                mend(),
                fault(DnsFault::Truncate),
                mend(),
            ],
        ),
    )
    .await;

    all_allowed(&nginx, &counts);
    nginx.finish().await;
}

/// Targets that are no servers' names, addresses where nobody listens, and one server's id at another's address.
#[tokio::test(flavor = "multi_thread")]
async fn dns_that_lies_about_some_servers_costs_no_request() {
    let dev = Dev::start().await;
    let nginx = warm(&dev, "close").await;
    let servers = dev.servers();
    let swapped = Member { id: GUESTS[0], address: Some(servers[1].addr) };
    let nobody = vec!["127.0.0.77".parse().expect("an address")];

    let counts = under_load(
        &nginx,
        steps(
            &dev,
            vec![
                Command::Dns { fault: DnsFault::BadTarget { servers: servers[0].id.into() } },
                Command::Members { remove: vec![], add: vec![swapped] },
                Command::Dns { fault: DnsFault::ExtraAddresses { server: servers[1].id, addresses: nobody } },
                Command::Dns { fault: DnsFault::NoTarget { servers: servers[2].id.into() } },
                Command::Dns { fault: DnsFault::BadTarget { servers: Servers::All } },
            ],
        ),
    )
    .await;

    all_allowed(&nginx, &counts);
    nginx.finish().await;
}
