//! The key after a whole run at the most talkative level: none of its forms is in any file that nginx or the development
//! server wrote, or in any message that nginx gave.

mod memory;

use ratelimitly_core::key::{ApiKey, KeyKind};
use ratelimitly_devserver::{DnsFault, Fault, Servers};
use ratelimitly_harness::{Dev, Nginx, check, eventually_some, http, quotas};
use regex::bytes::Regex;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(15);

/// The zone's records live for one second, so that discovery runs again and again.
const CONFIGURATION: &str = r#"
    {service}
    resolver_timeout 1s;
    ratelimitly_policy standard unit=100ms;
    ratelimitly_fail close;
    ratelimitly_debug on;
    ratelimitly_zone z "bucket=secrets:$arg_name" rate=$arg_rate;
    ratelimitly_tracker t "service=secrets" min_sample_threshold=1;
    ratelimitly_guard g tracker=t threshold=10s;
    server {
        listen 127.0.0.1:{port};
        location / {
            ratelimitly zone=z guard=g;
            ratelimitly_label $request_uri;
            ratelimitly_report t;
            empty_gif;
        }
    }
"#;

/// A key whose secret nothing else can look like.
fn key(kind: KeyKind) -> (ApiKey, [u8; 32]) {
    let mut random = fastrand::Rng::with_seed(0x5ec2e7);
    let secret = std::array::from_fn(|_| random.u8(..));
    (ApiKey::new(kind, 42, secret, quotas()).expect("good quotas"), secret)
}

/// Every way through the module that logs: verdicts, failures, refused values, discovery and its faults, a rebind,
/// reloads with a good key and keys that are refused.
async fn run(dev: &Dev, nginx: &mut Nginx) -> Vec<String> {
    let port = nginx.port();
    let ask = async |name: &str, rate: &str| {
        let _ = http::get(port, &format!("/?name={name}&rate={rate}")).await;
    };
    nginx.admits().await;
    eventually_some(PATIENCE, "an allow and a deny", async || {
        ask("allowed", "1r/h").await;
        let with = |verdict: &str| !nginx.log_lines(&format!("admission verdict={verdict}")).is_empty();
        (with("allow") && with("deny")).then_some(())
    })
    .await;
    ask("refused", "nonsense").await;
    ask("", "1r/s").await;
    // Its label, the whole of the target, is too long.
    ask(&"x".repeat(300), "1r/s").await;
    for fault in [
        Fault::WrongAuthentication,
        Fault::Truncated { bytes: Some(60) },
        Fault::WrongRequestId,
        Fault::EmptyResults,
        Fault::Silent,
    ] {
        dev.fault(fault).await;
        ask("faults", "100r/s").await;
        dev.clear([]).await;
    }
    dev.fault(Fault::Rebind).await;
    eventually_some(PATIENCE, "a rebind", async || {
        ask("faults", "100r/s").await;
        (!nginx.log_lines("UDP socket rebound").is_empty()).then_some(())
    })
    .await;
    dev.clear([]).await;
    for fault in [DnsFault::Truncate, DnsFault::ServFail, DnsFault::BadTarget { servers: Servers::All }] {
        let before = dev.dns_counts();
        dev.dns_fault(fault).await;
        // Discovery is a matter of requests: without one none is due.
        eventually_some(PATIENCE, "another discovery", async || {
            ask("dns", "100r/s").await;
            (dev.dns_counts() != before).then_some(())
        })
        .await;
        dev.clear_dns().await;
    }
    nginx.reload().await;
    nginx.admits().await;
    broken_keys(&dev.key()).await
}

/// What nginx says to keys that are nearly right.
async fn broken_keys(good: &str) -> Vec<String> {
    let last = if good.ends_with('q') { "p" } else { "q" };
    let cut = &good[..good.len() - 1];
    let mut messages = Vec::new();
    for broken in
        [format!("{cut}{last}"), cut.to_owned(), format!("{good}x"), good.to_uppercase().replace("RL", "rl")]
    {
        let text = "http { ratelimitly_auth_key {broken}; }";
        let checked = check::check_config_with(text, &[("broken", &broken)]).await;
        assert!(!checked.ok, "a broken key is accepted");
        messages.push(checked.message);
    }
    messages
}

/// A form in which the secret could be shown: its name, and what finds any piece of it, since a part is a leak too.
type Form = (&'static str, Regex);

fn forms(key: &ApiKey, secret: &[u8; 32]) -> Vec<Form> {
    let encoded = key.encode();
    // Version and key id, which are no secret, are the payload's first 14 letters.
    let payload = &encoded.rsplit_once('1').expect("a separator").1[15..];
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let listed: Vec<Vec<u8>> =
        secret.map(|byte| byte.to_string()).windows(6).map(|six| six.join(", ").into()).collect();
    let shifted = [0, 1, 2].map(|skipped| base64(&secret[skipped..]));
    let base64: Vec<_> = shifted.iter().flat_map(|text| pieces(text.as_bytes(), 12)).collect();
    let for_urls = shifted.map(|text| text.replace('+', "-").replace('/', "_"));
    vec![
        ("raw bytes", any_of(pieces(secret, 8))),
        ("encoded key", any_of(pieces(payload.as_bytes(), 12))),
        ("encoded key in capitals", any_of(pieces(payload.to_uppercase().as_bytes(), 12))),
        ("hex", any_of(pieces(hex.as_bytes(), 16))),
        ("hex in capitals", any_of(pieces(hex.to_uppercase().as_bytes(), 16))),
        ("list of bytes", any_of(listed)),
        ("base64", any_of(base64)),
        ("base64 for URLs", any_of(for_urls.iter().flat_map(|text| pieces(text.as_bytes(), 12)).collect())),
    ]
}

fn pieces(whole: &[u8], length: usize) -> Vec<Vec<u8>> {
    whole.windows(length).map(<[u8]>::to_vec).collect()
}

fn any_of(pieces: Vec<Vec<u8>>) -> Regex {
    let escaped = |piece: Vec<u8>| piece.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    let all: Vec<String> = pieces.into_iter().map(escaped).collect();
    Regex::new(&format!("(?-u){}", all.join("|"))).expect("a good pattern")
}

/// Without padding; a rest that fills no whole letter is left out.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit = |at: usize| (bytes[at / 8] >> (7 - at % 8)) & 1;
    let letter = |first: usize| (first..first + 6).fold(0, |value, at| value << 1 | bit(at));
    (0..bytes.len() * 8 / 6).map(|place| char::from(LETTERS[usize::from(letter(place * 6))])).collect()
}

/// The forms that are in these bytes.
fn found(forms: &[Form], bytes: &[u8]) -> Vec<&'static str> {
    forms.iter().filter(|(_, pieces)| pieces.is_match(bytes)).map(|(what, _)| *what).collect()
}

/// Everything below the folder but the configuration, which the operator wrote.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the prefix is there").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            all.extend(files(&path));
        } else if name != "nginx.conf" {
            all.push((name, std::fs::read(&path).expect("a file of the prefix")));
        }
    }
    all
}

async fn nothing_shows_the_key(kind: KeyKind) {
    let (key, secret) = key(kind);
    let folder = tempfile::tempdir().expect("a folder");
    let events = folder.path().join("events");
    let (written, served) = (events.clone(), key.clone());
    let dev = Dev::with(move |mut config| {
        config.events = Some(written);
        config.servers(1).key(served)
    })
    .await;
    let builder = Nginx::builder(CONFIGURATION).dev(&dev);
    let mut nginx = builder.start().await;
    let messages = run(&dev, &mut nginx).await;
    let mut places = files(nginx.prefix());
    places.push(("events".into(), std::fs::read(&events).expect("the events")));
    places.extend(messages.into_iter().map(|text| ("nginx -t".into(), text.into_bytes())));
    places.push(("status".into(), format!("{:?} {:?}", dev.status(), dev.events()).into_bytes()));
    places.push(("the key's own debug form".into(), format!("{key:?}").into_bytes()));

    let log = nginx.error_log().join("\n");
    for proof in [
        "[debug]",
        "sending request: [Query",
        "admission verdict=allow",
        "admission verdict=deny",
        "admission failure=timeout",
    ] {
        assert!(log.contains(proof), "the run left out what it is about: {proof}");
    }
    let forms = forms(&key, &secret);
    let plain = std::fs::read(nginx.prefix().join("nginx.conf")).expect("the configuration");
    assert_eq!(found(&forms, &plain), ["encoded key"], "the search itself does not work");
    for (place, bytes) in places {
        let found = found(&forms, &bytes);
        assert!(found.is_empty(), "{place} holds the key as {found:?}");
    }
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_or_message_shows_an_aes_key() {
    nothing_shows_the_key(KeyKind::Aes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_or_message_shows_a_cookie_key() {
    nothing_shows_the_key(KeyKind::Cookie).await;
}

#[test]
fn the_search_finds_every_form() {
    let (key, secret) = key(KeyKind::Aes);
    let forms = forms(&key, &secret);
    let hex: String = secret.iter().map(|byte| format!("{byte:02X}")).collect();
    let all = [
        ("raw bytes", secret.to_vec()),
        ("encoded key", key.encode().into_bytes()),
        ("hex in capitals", hex.into_bytes()),
        ("list of bytes", format!("{secret:?}").into_bytes()),
        ("base64", base64(&secret).into_bytes()),
    ];
    for (what, bytes) in all {
        assert!(found(&forms, &bytes).contains(&what), "{what}");
    }
    assert!(found(&forms, b"rl-aes1q and nothing of the secret").is_empty());
    assert_eq!(base64(b"Man"), "TWFu");
}
