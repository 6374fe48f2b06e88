//! Keys and settings of the http block that are refused: rows R03 to R06, R47, R66 to R69, R71 and R72.

use crate::configuration::{check, refused};

const OF_KEY: &str = "\"ratelimitly_auth_key\" directive: ";
const OF_FAIL: &str = "\"ratelimitly_fail\" directive: ";
const OF_BIND: &str = "\"ratelimitly_bind\" directive: ";
const OF_DEBUG: &str = "\"ratelimitly_debug\" directive: ";
const OF_SRV: &str = "\"ratelimitly_dns_srv\" directive: ";
const OF_RESOLVER: &str = "\"ratelimitly_dns_resolver\" directive: ";

const KEY_FORM: &str = "expected an API key: rl-aes1... or rl-cookie1...";
const KEY_TEXT: &str = "ratelimitly_auth_key {key_refused};";

/// Keys with a good checksum and one fault each, from the known answers of the wire format.
const LEGACY: &str = "rl-aes1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqjgw422";
const VERSION_0: &str =
    "rl-aes1qzfpqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqpgtruhc29ns24";
const VERSION_2: &str =
    "rl-aes1q2fpqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqpgtruhc2n7usl";
const NO_DEDUPLICATION: &str =
    "rl-aes1qyqsqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqpgtzqhclxd9uh";
const LONG_DEDUPLICATION: &str =
    "rl-aes1qyqsqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqpgtzjh7wypkuw";
const TOO_MANY_BUCKETS: &str =
    "rl-aes1qyqsqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqpvmruhcuj6tt2";

/// Refuses the key for this reason, with the accepted form and without the text of the key, right or wrong.
async fn refused_key(key: &str, reason: &str) {
    check(KEY_TEXT, &[("key_refused", key)]).await.refused(&[OF_KEY, reason, KEY_FORM]);
}

#[tokio::test]
async fn r03_key_that_cannot_be_decoded() {
    for key in ["random-text", "rl-aes1nonsense", "rl-aes1qqqqqqqqqqqq"] {
        refused_key(key, "invalid bech32").await;
    }
}

#[tokio::test]
async fn r04_legacy_key_without_a_version() {
    refused_key(LEGACY, "invalid bech32: payload has").await;
    refused_key(
        LEGACY,
        "a key of the old format has to be replaced by a new one, see \"Coming from the C module\"",
    )
    .await;
}

#[tokio::test]
async fn r05_unknown_key_format_version() {
    refused_key(VERSION_0, "unknown API key format version 0, must be 1").await;
    refused_key(VERSION_2, "unknown API key format version 2, must be 1").await;
}

#[tokio::test]
async fn r06_malformed_quotas_in_the_key() {
    refused_key(NO_DEDUPLICATION, "invalid API key quotas: deduplication TTL outside 10..=2000 ms").await;
    refused_key(LONG_DEDUPLICATION, "invalid API key quotas: deduplication TTL outside 10..=2000 ms").await;
    refused_key(TOO_MANY_BUCKETS, "invalid API key quotas: rate buckets above 2^24").await;
}

/// A key from an environment variable or a secret store that was not there.
#[tokio::test]
async fn key_that_is_empty() {
    refused_key("\"\"", "the API key is empty").await;
}

#[tokio::test]
async fn key_in_a_variable() {
    refused_key("$ratelimitly_key", "the API key cannot come from a variable").await;
}

refused! {
    r47_removed_timeout_directive:
        r#"ratelimitly_timeout 20ms;"#,
        ["unknown directive \"ratelimitly_timeout\""];
    r66_fail_neither_open_nor_close:
        r#"ratelimitly_fail ajar;"#,
        [OF_FAIL, "invalid value \"ajar\"", "expected ratelimitly_fail open|close"];
    r67_debug_neither_on_nor_off:
        r#"ratelimitly_debug yes;"#,
        [OF_DEBUG, "invalid value \"yes\"", "expected ratelimitly_debug on|off"];
    r68_debug_off_then_on:
        r#"ratelimitly_debug off;
           ratelimitly_debug on;"#,
        [OF_DEBUG, "is duplicate", "accepted once: ratelimitly_debug on|off"];
    r69_debug_on_then_off:
        r#"ratelimitly_debug on;
           ratelimitly_debug off;"#,
        [OF_DEBUG, "is duplicate", "accepted once: ratelimitly_debug on|off"];
    r95_warm_up_neither_on_nor_off:
        r#"ratelimitly_warm_up yes;"#,
        ["\"ratelimitly_warm_up\" directive: ", "invalid value \"yes\"", "expected ratelimitly_warm_up on|off"];
    r95_warm_up_twice:
        r#"ratelimitly_warm_up on;
           ratelimitly_warm_up on;"#,
        ["\"ratelimitly_warm_up\" directive: ", "is duplicate"];
    r96_breaker_without_failures:
        r#"ratelimitly_breaker probe=1s;"#,
        ["\"ratelimitly_breaker\" directive: ", "failures", "expected ratelimitly_breaker off|failures=<n> [probe=<duration>]"];
    r96_breaker_of_no_failure:
        r#"ratelimitly_breaker failures=0;"#,
        ["\"ratelimitly_breaker\" directive: ", "\"failures=0\" would never wait", "expected 1..4294967295"];
    r96_breaker_above_32_bits:
        r#"ratelimitly_breaker failures=4294967296;"#,
        ["\"ratelimitly_breaker\" directive: ", "\"failures=4294967296\" is above 4294967295"];
    r96_breaker_with_a_probe_of_zero:
        r#"ratelimitly_breaker failures=3 probe=0;"#,
        ["\"ratelimitly_breaker\" directive: ", "\"probe=0\" is zero"];
    r96_breaker_with_another_word:
        r#"ratelimitly_breaker on;"#,
        ["\"ratelimitly_breaker\" directive: ", "on", "expected ratelimitly_breaker off|failures=<n> [probe=<duration>]"];
    r96_breaker_off_and_on:
        r#"ratelimitly_breaker off;
           ratelimitly_breaker failures=3;"#,
        ["\"ratelimitly_breaker\" directive: ", "is duplicate"];
    r97_metrics_with_an_argument:
        r#"server { location / { ratelimitly_metrics on; } }"#,
        ["\"ratelimitly_metrics\" directive: ", "invalid number of arguments, expected ratelimitly_metrics"];
    r97_metrics_in_a_server:
        r#"server { ratelimitly_metrics; }"#,
        ["\"ratelimitly_metrics\" directive is not allowed here"];
    r97_two_pages_in_a_location:
        r#"server { location / { ratelimitly_metrics; ratelimitly_ready; } }"#,
        ["\"ratelimitly_ready\" directive: ", "is duplicate"];
    r98_ready_with_another_word:
        r#"server { location / { ratelimitly_ready lax; } }"#,
        ["\"ratelimitly_ready\" directive: ", "\"lax\"", "ratelimitly_ready [strict]"];
    r71_bind_to_a_host_name:
        r#"ratelimitly_bind localhost;"#,
        [OF_BIND, "\"localhost\" is not an IP address", "expected an IPv4 or IPv6 address without port and brackets"];
    r71_bind_to_an_address_with_a_port:
        r#"ratelimitly_bind 127.0.0.1:4000;"#,
        [OF_BIND, "\"127.0.0.1:4000\" is not an IP address", "without port and brackets"];
    r72_second_name:
        r#"ratelimitly_dns_srv rl.example.com;
           ratelimitly_dns_srv rl.example.com;"#,
        [OF_SRV, "is duplicate", "accepted once: ratelimitly_dns_srv <name>"];
    r72_second_key:
        r#"ratelimitly_auth_key {key};
           ratelimitly_auth_key {key};"#,
        [OF_KEY, "is duplicate", "accepted once: ratelimitly_auth_key rl-aes1...|rl-cookie1..."];
    r72_second_bind:
        r#"ratelimitly_bind 127.0.0.1;
           ratelimitly_bind ::1;"#,
        [OF_BIND, "is duplicate", "accepted once: ratelimitly_bind <IPv4 or IPv6 address>"];
    second_resolver_under_the_other_name:
        r#"ratelimitly_dns_resolver 127.0.0.1;
           ratelimitly_resolver 127.0.0.1;"#,
        ["\"ratelimitly_resolver\" directive: ", "is duplicate", "ratelimitly_dns_resolver <address or host>[:<port>] ..."];
    resolver_that_is_a_url:
        r#"ratelimitly_dns_resolver https://dns.example.com;"#,
        [OF_RESOLVER, "\"https://dns.example.com\" is not a nameserver", "expected address[:port] or host[:port]"];
    resolver_without_an_address:
        r#"ratelimitly_dns_resolver valid=30s;"#,
        [OF_RESOLVER, "there is no nameserver, expected at least one address[:port] or host[:port]"];
    resolver_with_a_misspelt_parameter:
        r#"ratelimitly_dns_resolver 127.0.0.53 vaild=30s;"#,
        [OF_RESOLVER, "unknown parameter \"vaild=30s\", expected valid=<time>, ipv4=on|off or ipv6=on|off"];
    resolver_valid_for_a_part_of_a_second:
        r#"ratelimitly_dns_resolver 127.0.0.53 valid=1500ms;"#,
        [OF_RESOLVER, "\"valid=1500ms\" is not a whole number of seconds"];
    resolver_with_a_family_neither_on_nor_off:
        r#"ratelimitly_dns_resolver 127.0.0.53 ipv6=no;"#,
        [OF_RESOLVER, "\"ipv6=no\" is neither on nor off"];
    resolver_with_both_families_off:
        r#"ratelimitly_dns_resolver 127.0.0.53 ipv4=off ipv6=off;"#,
        [OF_RESOLVER, "\"ipv4=off\" and \"ipv6=off\" leave nothing to ask for"];
    no_family_left_by_the_two_resolver_directives:
        r#"ratelimitly_auth_key {key};
           resolver 127.0.0.53 ipv6=off;
           ratelimitly_dns_resolver 127.0.0.53 ipv4=off;
           ratelimitly_zone z "bucket=shop" rate=10r/s;
           server { listen unix:{prefix}/nginx.sock; ratelimitly zone=z; }"#,
        [OF_RESOLVER, "both address families are off", "leave one of them on"];
    resolver_of_ipv6_without_brackets:
        r#"ratelimitly_dns_resolver ::1;"#,
        [OF_RESOLVER, "\"::1\" needs brackets", "expected [address] or [address]:port"];
    name_that_is_not_a_domain:
        r#"ratelimitly_dns_srv rl..example.com;"#,
        [OF_SRV, "\"rl..example.com\" has a label that is empty or longer than 63 bytes", "expected a domain name"];
    key_of_two_words:
        r#"ratelimitly_auth_key {key} {key};"#,
        [OF_KEY, "invalid number of arguments", "expected ratelimitly_auth_key rl-aes1...|rl-cookie1..."];
}
