//! Slips of the hand: what stands in the place of a key, typographic quotes, a `;` that is missing, a URL in the place of
//! a domain, a line of the C module's older versions. The message says what it is.

use crate::configuration::{check, refused};

const OF_KEY: &str = "\"ratelimitly_auth_key\" directive: ";
const KEY_FORM: &str = "expected an API key: rl-aes1... or rl-cookie1...";

async fn refused_key(text: &str, says: &str) {
    let checked = check("ratelimitly_auth_key {text};", &[("text", text)]).await;
    checked.refused(&[OF_KEY, says, KEY_FORM]);
    assert!(!checked.message.contains(&format!("\"{text}\"")), "the text is shown: {}", checked.message);
}

#[tokio::test]
async fn a_placeholder_is_called_a_placeholder() {
    for text in ["rl-aes1...", "rl-cookie1...", "rl-aes1\u{2026}", "YOUR_KEY", "<key>"] {
        refused_key(text, "this is a placeholder: put your own API key here").await;
    }
}

#[tokio::test]
async fn a_path_is_called_a_path() {
    for text in ["/etc/nginx/ratelimitly.key", "file:///etc/key", "keys/ratelimitly"] {
        refused_key(text, "this is a path, and the directive takes the key itself").await;
    }
}

#[tokio::test]
async fn a_key_of_another_product_is_called_foreign() {
    for text in ["sk_live_0123456789abcdef", "AKIAIOSFODNN7EXAMPLE", "rl-aes"] {
        refused_key(text, "this does not begin with \"rl-aes1\" or \"rl-cookie1\"").await;
    }
}

const MISSING: &str = "is a directive itself: is a \";\" missing before it?";
const QUOTES: &str = "typographic quotes, which nginx takes for plain bytes: use \" or ' instead";

refused! {
    key_without_a_semicolon:
        r#"ratelimitly_auth_key {key}
           ratelimitly_fail open;"#,
        ["\"ratelimitly_auth_key\" directive: ", "\"ratelimitly_fail\"", MISSING];
    rule_without_a_semicolon_before_a_directive_of_nginx:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           server { location / { ratelimitly zone=z
                                 proxy_pass http://127.0.0.1:9; } }"#,
        ["\"ratelimitly\" directive: unknown argument \"proxy_pass\"", "\"proxy_pass\"", MISSING];
    policy_without_a_semicolon:
        r#"ratelimitly_policy standard
           ratelimitly_debug on;"#,
        ["\"ratelimitly_policy\" directive: ", "\"ratelimitly_debug\"", MISSING];
    typographic_quotes_around_an_argument:
        "ratelimitly_zone z \u{201c}bucket=shop\u{201d} rate=1r/s;",
        ["\"ratelimitly_zone\" directive: unknown argument", QUOTES];
    url_in_the_place_of_the_domain:
        r#"ratelimitly_dns_srv https://rl.example.com/;"#,
        ["\"ratelimitly_dns_srv\" directive: ", "is a URL, expected only the domain name in it"];
    label_with_another_word_than_cut:
        r#"server { location / { ratelimitly_label "$uri" trim; } }"#,
        ["\"ratelimitly_label\" directive: unknown argument \"trim\"", "expected ratelimitly_label <template> [cut]"];
}

const PAGE: &str = "see \"Coming from the C module\" in docs/configuration.md";

refused! {
    preference_of_the_oldest_server_in_an_older_policy:
        r#"ratelimitly_policy custom unit=10ms replays=1 replay_gap=fixed:1 final_wait_units=1 completion_delivery=on
               oldest_preference=on;"#,
        [
            "\"ratelimitly_policy\" directive: unknown argument \"oldest_preference=on\"",
            "\"oldest_preference=\" is an argument of versions before 0.1.0: leave it out",
            PAGE,
        ];
    final_preference_of_the_oldest_server_in_an_older_policy:
        r#"ratelimitly_policy custom unit=10ms replays=1 replay_gap=fixed:1 final_wait_units=1 completion_delivery=on
               final_oldest_preference_units=2;"#,
        [
            "unknown argument \"final_oldest_preference_units=2\"",
            "\"final_oldest_preference_units=\" is an argument of versions before 0.1.0: leave it out",
            PAGE,
        ];
    zone_of_the_first_draft:
        r#"ratelimitly_zone zone=per_client "bucket=$remote_addr" rate=10r/s;"#,
        [
            "\"ratelimitly_zone\" directive: first argument must be a name without \"=\", it is \"zone=per_client\"",
            "\"zone=\" named a definition in the first draft: now the name stands alone, ratelimitly_zone <name>",
            PAGE,
        ];
    guard_that_is_its_own_tracker:
        r#"ratelimitly_guard shop "service=shop" threshold=1s;"#,
        [
            "\"ratelimitly_guard\" directive: unknown argument \"service=shop\"",
            "\"service=\" in a guard is of versions before 0.1.0: define a ratelimitly_tracker with it",
            PAGE,
        ];
}

/// A zone may have the name of a directive: only a later argument that is one shows that a `;` is missing.
#[tokio::test]
async fn a_name_like_a_directive_is_no_slip() {
    let text = r#"ratelimitly_zone server "bucket=shop" rate=fast;"#;
    let checked = check(text, &[]).await;
    checked.refused(&["\"rate=fast\" is not a rate"]);
    assert!(!checked.message.contains("missing before it"), "{}", checked.message);
}
