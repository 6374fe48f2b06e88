//! Configurations that load with a warning of what will not be as it was meant.

use crate::configuration::check;

/// Loads, with one warning for each line.
async fn warned(text: &str, warnings: &[&[&str]]) {
    warned_with(text, &[], warnings).await;
}

/// The same with placeholders of the test's own.
async fn warned_with(text: &str, values: &[(&str, &str)], warnings: &[&[&str]]) {
    let checked = check(text, values).await;
    checked.accepted();
    let lines: Vec<&str> = checked.message.lines().filter(|line| line.contains("[warn]")).collect();
    assert_eq!(lines.len(), warnings.len(), "{}", checked.message);
    for (line, parts) in lines.iter().zip(warnings) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line} lacks one of {parts:?}");
    }
}

/// Only a bucket between two quotes is refused; one that nginx has cut at a space begins with one.
#[tokio::test]
async fn warns_of_a_bucket_that_begins_with_a_quote() {
    for bucket in [r#""bucket='x' y""#, r#""bucket=\"""#, r#"bucket="$host$uri"#] {
        let text = r#"
            http {
                ratelimitly_zone z BUCKET rate=10r/s;
            }"#;
        let begins = ["\"ratelimitly_zone\"", "the value of \"bucket=\" starts with a quote"];
        warned(&text.replace("BUCKET", bucket), &[&begins]).await;
    }
}

/// What they render is judged for each request, and none of it can be right.
#[tokio::test]
async fn warns_of_quotes_around_a_rate_and_a_threshold_with_variables() {
    let text = r#"
        http {
            map $server_name $tier_rate { default 10r/s; }
            map $server_name $tier_threshold { default 1s; }
            ratelimitly_zone z "bucket=shop" rate="$tier_rate";
            ratelimitly_tracker t "service=shop";
            ratelimitly_guard g tracker=t threshold='$tier_threshold';
        }"#;
    let where_quotes_belong =
        "starts with a quote, which nginx would keep as a byte of it: quote the whole argument";
    warned(
        text,
        &[
            &["\"ratelimitly_zone\" directive: the value of \"rate=\"", where_quotes_belong],
            &["\"ratelimitly_guard\" directive: the value of \"threshold=\"", where_quotes_belong],
        ],
    )
    .await;
}

/// Text is text, so that it loads; the key itself is shown nowhere, which `check` looks at.
#[tokio::test]
async fn warns_of_keys_in_the_place_of_text() {
    let text = r#"
        http {
            ratelimitly_zone {key} "bucket=shop" rate=10r/s;
            ratelimitly_zone z "bucket={key}" rate=10r/s;
            ratelimitly_tracker t "service={key}";
            server {
                listen unix:{prefix}/nginx.sock;
                ratelimitly_label "$server_name {key}";
            }
        }"#;
    let reason = "holds an API key, which is taken for plain text here";
    let right = "the key belongs to \"ratelimitly_auth_key\"";
    warned(
        text,
        &[
            &["\"ratelimitly_zone\" directive: \"rl-aes1...\"", reason, right],
            &["\"ratelimitly_zone\" directive: \"bucket=rl-aes1...\"", reason, right],
            &["\"ratelimitly_tracker\" directive: \"service=rl-aes1...\"", reason, right],
            &["\"ratelimitly_label\" directive: \"$server_name rl-aes1...\"", reason, right],
        ],
    )
    .await;
}

#[tokio::test]
async fn warns_of_an_address_in_the_place_of_the_domain() {
    let text = "http { ratelimitly_dns_srv 192.0.2.1; }";
    warned(
        text,
        &[&["192.0.2.1 is an address", "expected the domain name that has the servers' SRV records"]],
    )
    .await;
}

/// Each of these loads, and the operator is told what the requests will meet.
#[tokio::test]
async fn warns_of_rules_that_no_datagram_holds_and_of_windows_above_the_quota() {
    let text = r#"
        http {
            ratelimitly_auth_key {key_of_short_windows};
            ratelimitly_dns_resolver {dns};
            ratelimitly_zone long "bucket=long" rate=100r/2h;
            ratelimitly_group five zone=long zone=long zone=long zone=long zone=long;
            ratelimitly_group twenty_five zone=long zone=long zone=long zone=long zone=long zone=long zone=long
                zone=long zone=long zone=long zone=long zone=long zone=long zone=long zone=long zone=long zone=long
                zone=long zone=long zone=long zone=long zone=long zone=long zone=long zone=long;
            server {
                listen unix:{prefix}/nginx.sock;
                location /small { ratelimitly group=five; }
                location /large {
                    ratelimitly group=twenty_five;
                    ratelimitly group=twenty_five;
                }
            }
        }"#;
    let key = crate::configuration::key_with(|quotas| quotas.rate_window_size_ms_max = 1 << 16);
    warned_with(
        text,
        &[("key_of_short_windows", &key)],
        &[
            &["the window of zone \"long\", 7200000 ms, is above the API key's quota of 65536 ms"],
            &["\"ratelimitly\" directive: the rules from here on", "50 zones, 0 guards"],
        ],
    )
    .await;
}
