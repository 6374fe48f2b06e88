//! Lines that nobody would write: made of right and wrong parts by a seeded generator. nginx may accept or refuse them; it
//! must end by itself each time and say why it refuses. A failure prints the lines.

use ratelimitly_harness::check::check_config_with;
use tokio::task::JoinSet;

const CONFIGURATIONS: u64 = 64;
/// Checks that run at the same time.
const AT_ONCE: u64 = 4;

const HTTP_DIRECTIVES: [&str; 12] = [
    "ratelimitly_auth_key",
    "ratelimitly_dns_srv",
    "ratelimitly_dns_resolver",
    "ratelimitly_resolver",
    "ratelimitly_policy",
    "ratelimitly_fail",
    "ratelimitly_bind",
    "ratelimitly_debug",
    "ratelimitly_zone",
    "ratelimitly_tracker",
    "ratelimitly_guard",
    "ratelimitly_group",
];
const PLACE_DIRECTIVES: [&str; 3] = ["ratelimitly", "ratelimitly_label", "ratelimitly_report"];

/// What an argument starts with.
const HEADS: [&str; 24] = [
    "",
    "",
    "",
    "zone=",
    "group=",
    "guard=",
    "tracker=",
    "bucket=",
    "service=",
    "rate=",
    "threshold=",
    "ttl=",
    "max_samples=",
    "min_sample_threshold=",
    "unit=",
    "replays=",
    "replay_gap=",
    "final_wait_units=",
    "completion_delivery=",
    "\"bucket=",
    "'service=",
    "=",
    "==",
    "rl-aes1",
];

/// What follows it.
const TAILS: [&str; 40] = [
    "",
    "a",
    "b",
    "off",
    "on",
    "open",
    "close",
    "standard",
    "custom",
    "single_round",
    "127.0.0.1",
    "127.0.0.1:0",
    "[::1]:70000",
    "fe80::1%eth0",
    "1r/s",
    "1r/",
    "r/s",
    "4294967296r/s",
    "99999999999999999999999999r/9999999999999999999999h",
    "20ms",
    "1w1d1h1m1s1ms",
    "0",
    "-1",
    "18446744073709551616",
    "fixed:1",
    "linear:1:1:4294967295",
    "exponential:4294967295:4294967295:4294967295",
    "exponential:::",
    "$",
    "$$",
    "${",
    "${remote_addr}",
    "$remote_addr$binary_remote_addr",
    "$no_such_variable",
    "$1",
    "\u{e9}\u{0}\u{7f}\u{1b}[0m",
    "%s%n%*s%p",
    "\\\"\\'\\",
    "a\"",
    "\"",
];

/// Good lines above the wild ones, so that references can be right.
const DEFINITIONS: &str = r#"
    ratelimitly_auth_key {key};
    ratelimitly_zone a "bucket=a" rate=1r/s;
    ratelimitly_tracker a "service=a";
    ratelimitly_guard a tracker=a threshold=1s;
    ratelimitly_group a zone=a;
"#;

const PLACE: &str = r#"
    server {
        listen unix:{prefix}/nginx.sock;
        {server_lines}
        location / { {location_lines} }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn wild_lines_end_in_an_answer() {
    let (mut accepted, mut refused) = (0, 0);
    for first in (0..CONFIGURATIONS).step_by(AT_ONCE as usize) {
        let mut checks = JoinSet::new();
        (first..first + AT_ONCE).for_each(|seed| drop(checks.spawn(answered(seed))));
        for ok in checks.join_all().await {
            if ok { accepted += 1 } else { refused += 1 }
        }
    }
    assert!(accepted >= 3 && refused >= 30, "one-sided lines: {accepted} accepted, {refused} refused");
}

/// Whether nginx accepts the lines of this seed.
async fn answered(seed: u64) -> bool {
    let mut random = fastrand::Rng::with_seed(seed);
    let definitions = if random.bool() { DEFINITIONS } else { "" };
    let http = lines(&mut random, &HTTP_DIRECTIVES);
    let (server, location) = (lines(&mut random, &PLACE_DIRECTIVES), lines(&mut random, &PLACE_DIRECTIVES));
    let text = format!("http {{\n{definitions}\n{{http_lines}}\n{PLACE}}}");
    let values = [
        ("http_lines", http.as_str()),
        ("server_lines", server.as_str()),
        ("location_lines", location.as_str()),
    ];

    let checked = check_config_with(&text, &values).await;

    let lines = format!("seed {seed}:\n{http}--\n{server}--\n{location}-- said:\n{}", checked.message);
    assert_eq!(checked.signal, None, "nginx died of a signal, {lines}");
    assert!(!checked.message.contains("panic"), "a panic, {lines}");
    assert_eq!(checked.ok, !checked.message.contains("[emerg]"), "status and message differ, {lines}");
    checked.ok
}

/// Up to two lines, of up to five arguments each.
fn lines(random: &mut fastrand::Rng, directives: &[&str]) -> String {
    let mut lines = String::new();
    for _ in 0..random.usize(0..3) {
        lines += pick(random, directives);
        for _ in 0..random.usize(0..6) {
            lines += " ";
            lines += &argument(random);
        }
        lines += ";\n";
    }
    lines
}

fn argument(random: &mut fastrand::Rng) -> String {
    let (head, tail) = (pick(random, &HEADS), pick(random, &TAILS));
    let repeated = if random.u8(0..20) == 0 { tail.repeat(400) } else { tail.to_owned() };
    // Half of the quoted arguments end as they should.
    let end = head.chars().next().filter(|first| "\"'".contains(*first) && random.bool());
    format!("{head}{repeated}{}", end.map_or(String::new(), String::from))
}

fn pick<'a>(random: &mut fastrand::Rng, from: &[&'a str]) -> &'a str {
    from[random.usize(0..from.len())]
}
