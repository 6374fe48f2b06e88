//! Servers and DNS that fail at random: one fault after the other, each for about a second and then cleared, so that there
//! is always a time of faults and a time of none. Started and stopped by `main.rs`. Verdicts are never forced and buckets
//! never reset: what the service decided about a request id stays decided, which the ledger relies on.

use fastrand::Rng;
use ratelimitly_devserver::{Command, DnsFault, Fault, Lost, Member, Servers};
use ratelimitly_harness::Dev;
use std::time::Duration;

/// The id of the member that comes and goes.
const GUEST: u64 = 777 << 23;

/// Goes on until the task is aborted.
pub(crate) async fn run(dev: Dev, mut random: Rng) {
    loop {
        pause(&mut random, 200..1500).await;
        for place in 0..random.usize(1..3) {
            let mut command = misfortune(&dev, &mut random);
            // Too few results and one too many are together the right number: an authentic answer that says something else.
            while place > 0 && changes_counts(&command) {
                command = misfortune(&dev, &mut random);
            }
            // A member that is listed twice or taken away twice is no error; anything else would be a wrong plan.
            dev.apply(command).await.expect("a command that makes sense");
        }
        pause(&mut random, 200..2500).await;
        clear(&dev).await;
    }
}

/// Everything works again.
pub(crate) async fn clear(dev: &Dev) {
    let all = [
        Command::Up { servers: Servers::All },
        Command::Clear { servers: Servers::All, faults: vec![] },
        Command::ClearDns { faults: vec![] },
        Command::Members { remove: vec![GUEST], add: first_members(dev) },
        Command::Ttl { seconds: 1 },
    ];
    for command in all {
        dev.apply(command).await.expect("the servers can be mended");
    }
}

/// The three servers of the start, in the zone again.
fn first_members(dev: &Dev) -> Vec<Member> {
    dev.servers().iter().map(|server| server.id).filter(|id| *id != GUEST).map(Member::from).collect()
}

async fn pause(random: &mut Rng, milliseconds: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(random.u64(milliseconds))).await;
}

fn misfortune(dev: &Dev, random: &mut Rng) -> Command {
    match random.u8(0..10) {
        0..6 => Command::Fault { servers: some_servers(dev, random), fault: fault(random) },
        6 => Command::Down { servers: some_servers(dev, random) },
        7 => members(dev, random),
        _ => Command::Dns { fault: dns_fault(dev, random) },
    }
}

fn changes_counts(command: &Command) -> bool {
    use Fault::{EmptyResults, ExtraResults, ShortResults};
    matches!(command, Command::Fault { fault: EmptyResults | ExtraResults | ShortResults, .. })
}

/// All of them, or one.
fn some_servers(dev: &Dev, random: &mut Rng) -> Servers {
    let known = dev.servers();
    if random.bool() { Servers::All } else { known[random.usize(..known.len())].id.into() }
}

fn fault(random: &mut Rng) -> Fault {
    let probability = f64::from(random.u8(2..9)) / 10.0;
    match random.u8(0..14) {
        0 => Fault::Drop { probability, of: Lost::Requests },
        1 => Fault::Drop { probability, of: Lost::Answers },
        2 => Fault::Delay { ms: random.u64(10..700) },
        3 => Fault::Jitter { ms: random.u64(10..300) },
        4 => Fault::Duplicate { extra: random.u32(1..4) },
        5 => Fault::WrongAuthentication,
        6 => Fault::Truncated { bytes: random.bool().then(|| random.usize(0..120)) },
        7 => Fault::WrongRequestId,
        8 => Fault::WrongServerId { id: random.u64(..) },
        9 => Fault::EmptyResults,
        10 => Fault::ShortResults,
        11 => Fault::ExtraResults,
        12 => Fault::Rebind,
        _ if random.bool() => Fault::Hold,
        _ => Fault::Silent,
    }
}

fn members(dev: &Dev, random: &mut Rng) -> Command {
    let known = dev.servers();
    let leaving = known[random.usize(..known.len())].id;
    match random.u8(0..3) {
        0 => Command::Members { remove: vec![], add: vec![GUEST.into()] },
        1 => Command::Members { remove: vec![leaving], add: vec![GUEST.into()] },
        _ => Command::Members { remove: vec![leaving], add: vec![] },
    }
}

fn dns_fault(dev: &Dev, random: &mut Rng) -> DnsFault {
    let servers = some_servers(dev, random);
    match random.u8(0..9) {
        0 => DnsFault::NoSrv,
        1 => DnsFault::NoAddress { servers },
        2 => DnsFault::NoTarget { servers },
        3 => DnsFault::BadTarget { servers },
        4 => DnsFault::ServFail,
        5 => DnsFault::Delay { ms: random.u64(10..3000) },
        6 => DnsFault::Truncate,
        7 => DnsFault::ExtraAddresses {
            server: dev.servers()[0].id,
            addresses: vec!["127.0.0.9".parse().expect("an address"), "100::1".parse().expect("an address")],
        },
        _ => DnsFault::Silent,
    }
}
