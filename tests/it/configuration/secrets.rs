//! The key stays where the operator wrote it: no message while loading repeats it, whatever is wrong with it and wherever it
//! was put by mistake. What a running worker writes is the family `secrets`.

use crate::configuration::check;
use ratelimitly_core::key::KeyKind;
use ratelimitly_harness::key;

/// A key with one letter changed, cut, or followed by something: each nearly the secret itself.
#[tokio::test]
async fn a_broken_key_is_not_repeated() {
    for kind in [KeyKind::Aes, KeyKind::Cookie] {
        let good = key(kind).encode();
        let end = if good.ends_with('q') { "p" } else { "q" };
        let changed = format!("{}{end}", &good[..good.len() - 1]);
        let (cut, longer, mixed) = (&good[..good.len() - 1], format!("{good}q"), format!("{}Q", &good[..40]));
        for broken in [changed.as_str(), cut, longer.as_str(), mixed.as_str()] {
            let checked = check("ratelimitly_auth_key {key_refused};", &[("key_refused", broken)]).await;
            checked.refused(&["\"ratelimitly_auth_key\" directive: invalid bech32", "expected an API key"]);
            assert!(!checked.message.contains(&broken[10..26]), "a part of it is shown: {}", checked.message);
        }
    }
}

#[tokio::test]
async fn a_key_in_the_wrong_place_is_not_repeated() {
    let good = key(KeyKind::Aes).encode();
    for line in [
        "ratelimitly_auth_key {key} {key};",
        "ratelimitly_dns_srv {key};",
        "ratelimitly_dns_resolver {key};",
        "ratelimitly_policy {key};",
        "ratelimitly_policy standard unit={key};",
        "ratelimitly_fail {key};",
        "ratelimitly_bind {key};",
        "ratelimitly_debug {key};",
        "ratelimitly_zone z \"bucket=shop\" rate={key};",
        "ratelimitly_tracker t \"service=shop\" {key};",
        "ratelimitly_guard g tracker={key} threshold=1s;",
        "ratelimitly_group g zone={key};",
        "server { ratelimitly key={key}; }",
        "server { ratelimitly_report {key}; }",
    ] {
        let checked = check(line, &[]).await;
        assert!(
            !checked.ok && checked.message.contains("[emerg] ratelimitly: \"ratelimitly"),
            "{line}: {}",
            checked.message
        );
        assert!(!checked.message.contains(&good[10..26]), "{line}: a part is shown: {}", checked.message);
    }
}
