//! The key stays where the operator wrote it: no message while loading and no log line of a worker repeats it, whatever is
//! wrong with it and wherever it was put by mistake.

use crate::check;
use ratelimitly_core::key::{ApiKey, KeyKind};
use ratelimitly_devserver::Fault;
use ratelimitly_tests::{Dev, Nginx, http, key, log, quotas};

/// A key with one letter changed, cut, or followed by something: each nearly the secret itself.
#[tokio::test]
async fn a_broken_key_is_not_repeated() {
    for kind in [KeyKind::Aes, KeyKind::Cookie] {
        let good = key(kind).encode();
        let end = if good.ends_with('q') { "p" } else { "q" };
        let changed = format!("{}{end}", &good[..good.len() - 1]);
        let (cut, longer, mixed) = (&good[..good.len() - 1], format!("{good}q"), format!("{}Q", &good[..40]));
        for broken in [changed.as_str(), cut, longer.as_str(), mixed.as_str()] {
            let checked =
                check("http { ratelimitly_auth_key {key_refused}; }", &[("key_refused", broken)]).await;
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
        let checked = check(&format!("http {{ {line} }}"), &[]).await;
        assert!(
            !checked.ok && checked.message.contains("[emerg] ratelimitly: \"ratelimitly"),
            "{line}: {}",
            checked.message
        );
        assert!(!checked.message.contains(&good[10..26]), "{line}: a part is shown: {}", checked.message);
    }
}

const EVERY_LINE: &str = r#"
    http {
        ratelimitly_auth_key {key};
        ratelimitly_dns_srv {zone};
        ratelimitly_dns_resolver {dns};
        ratelimitly_policy single_round unit=200ms;
        ratelimitly_debug on;
        ratelimitly_zone z "bucket=secrets" rate=1r/h;
        ratelimitly_tracker t "service=secrets" min_sample_threshold=1;
        ratelimitly_guard g tracker=t threshold=10s;
        server {
            listen 127.0.0.1:{port};
            location / {
                ratelimitly zone=z guard=g;
                ratelimitly_report t;
                empty_gif;
            }
            location /refused {
                ratelimitly_label $request_uri$request_uri$request_uri;
                ratelimitly zone=z;
                empty_gif;
            }
        }
    }
"#;

/// Allow, deny, reports, refused values, wrong authentication, silence and a reload, at nginx's most talkative level.
#[tokio::test(flavor = "multi_thread")]
async fn no_log_line_holds_the_key_or_its_secret() {
    let secret: [u8; 32] = std::array::from_fn(|at| b'A' + at as u8 % 26);
    for kind in [KeyKind::Aes, KeyKind::Cookie] {
        let key = ApiKey::new(kind, 42, secret, quotas()).expect("a key");
        let dev = Dev::with(|config| config.servers(1).key(key.clone())).await;
        let mut nginx = Nginx::builder(EVERY_LINE).dev(&dev).start().await;

        nginx.admits().await;
        assert_eq!(http::get(nginx.port(), "/").await.status, 200);
        assert_eq!(http::get(nginx.port(), "/").await.status, 429);
        http::get(nginx.port(), &format!("/refused?{}", "x".repeat(100))).await;
        for fault in [Fault::WrongAuthentication, Fault::Truncated { bytes: Some(40) }, Fault::Silent] {
            dev.fault(fault).await;
            assert_eq!(http::get(nginx.port(), "/").await.status, 200);
        }
        dev.await_reports("of the allowed and of the failed requests", |reports| reports.len() >= 4).await;
        nginx.await_log_line("admission verdict=allow").await;
        nginx.await_log_line("admission failure=timeout").await;
        nginx.reload().await;

        let lines = [nginx.error_log(), log::lines(&nginx.prefix().join("start.log"))].concat();
        let texts =
            [key.encode(), String::from_utf8_lossy(&secret).into(), hex(&secret), format!("{secret:?}")];
        for text in texts {
            let part = &text[10..text.len() - 10];
            let shown: Vec<_> = lines.iter().filter(|line| line.contains(part)).collect();
            assert!(shown.is_empty(), "{shown:#?}");
        }
        nginx.finish().await;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
