//! Configurations that load: rows A01 to A23. A24, the shipped examples, is in `packaging.rs`.

use crate::configuration::{check, key_with};

/// One test for each row: its name and the configuration, which loads without a word beyond nginx's own two lines.
macro_rules! accepted {
    ($($(#[$attribute:meta])* $name:ident: $text:expr;)+) => {$(
        $(#[$attribute])*
        #[tokio::test]
        async fn $name() {
            accept($text, &[]).await;
        }
    )+};
}

pub(super) async fn accept(text: &str, values: &[(&str, &str)]) {
    let checked = check(text, values).await;
    checked.accepted();
    assert!(!checked.message.contains("[warn]"), "accepted with a warning: {}", checked.message);
}

accepted! {
    a01_tracker_guard_and_report_together:
        r#"{service}
           ratelimitly_zone z "bucket=shop" rate=10r/s;
           ratelimitly_tracker t "service=shop" ttl=30s max_samples=128 min_sample_threshold=8;
           ratelimitly_guard g tracker=t threshold=100ms;
           server {
               listen unix:{prefix}/nginx.sock;
               location / { ratelimitly zone=z guard=g; ratelimitly_report t; }
           }"#;
    a02_report_without_any_rule:
        r#"{service}
           ratelimitly_tracker t "service=shop";
           server {
               listen unix:{prefix}/nginx.sock;
               location / { ratelimitly_report t; }
           }"#;
    a03_inherited_report_switched_off_in_a_child:
        r#"{service}
           ratelimitly_tracker t "service=shop";
           server {
               listen unix:{prefix}/nginx.sock;
               ratelimitly_report t;
               location / { ratelimitly_report off; }
           }"#;
    a04_every_maximum_at_once:
        r#"{service}
           ratelimitly_fail close;
           ratelimitly_debug off;
           ratelimitly_zone most "bucket=most" rate=4294967295r/4294967s;
           ratelimitly_zone least "bucket=least" rate=1r/h;
           ratelimitly_group both zone=most zone=least;
           ratelimitly_tracker t "service=shop" ttl=4294967295ms max_samples=4294967295
                               min_sample_threshold=4294967295;
           ratelimitly_guard g tracker=t threshold=4294967295ms;
           log_format verdict '$status $ratelimitly_verdict';
           server {
               listen unix:{prefix}/nginx.sock;
               access_log {prefix}/verdict.log verdict;
               location / {
                   ratelimitly group=both guard=g;
                   ratelimitly_label $server_name;
                   ratelimitly_report t;
               }
           }"#;
    a05_rule_of_a_guard_alone:
        r#"{service}
           ratelimitly_tracker t "service=shop" ttl=20ms min_sample_threshold=0;
           ratelimitly_guard g tracker=t threshold=100ms;
           server {
               listen unix:{prefix}/nginx.sock;
               location / { ratelimitly guard=g; ratelimitly_report t; }
           }"#;
    a06_sample_threshold_of_0:
        r#"ratelimitly_tracker t "service=shop" min_sample_threshold=0;"#;
    a07_sample_threshold_of_1:
        r#"ratelimitly_tracker t "service=shop" min_sample_threshold=1;"#;
    a08_dynamic_rate_and_threshold_are_not_judged_while_loading:
        r#"{service}
           map $server_name $tier_rate { default nonsense; }
           map $server_name $tier_threshold { default nonsense; }
           ratelimitly_zone z "bucket=shop" rate=$tier_rate;
           ratelimitly_tracker t "service=shop" ttl=20ms min_sample_threshold=0;
           ratelimitly_guard g tracker=t threshold=$tier_threshold;
           server {
               listen unix:{prefix}/nginx.sock;
               location / { ratelimitly zone=z guard=g; ratelimitly_report t; }
           }"#;
    a10_standard_policy_without_a_unit:
        r#"ratelimitly_policy standard;"#;
    a27_unit_that_follows_the_round_trip:
        r#"{service}
           ratelimitly_policy standard unit=auto min=2ms max=200ms silent_after=5;
           ratelimitly_zone z "bucket=shop" rate=1r/s;
           server {
               listen unix:{prefix}/nginx.sock;
               location / { ratelimitly zone=z; }
           }"#;
    a27_custom_policy_that_passes_silent_servers_over:
        r#"ratelimitly_policy custom unit=20ms replays=1 replay_gap=fixed:1 final_wait_units=1
                              completion_delivery=on silent_after=1;
           server { listen unix:{prefix}/nginx.sock; }"#;
    a11_single_round_of_25_ms:
        r#"ratelimitly_policy single_round unit=25ms;"#;
    a12_single_round_at_the_wire_limit:
        r#"ratelimitly_policy single_round unit=4294967295ms;"#;
    a13_standard_at_the_wire_limit:
        r#"ratelimitly_policy standard unit=1431655765ms;"#;
    a14_custom_policy_with_a_fixed_schedule:
        r#"ratelimitly_policy custom unit=20ms replays=1 replay_gap=fixed:1 final_wait_units=1
                              completion_delivery=on;"#;
    a15_custom_policy_with_a_linear_schedule:
        r#"ratelimitly_policy custom unit=20ms replays=2 replay_gap=linear:1:1:3 final_wait_units=2
                              completion_delivery=off;"#;
    a15_custom_policy_with_an_exponential_schedule_and_no_final_wait:
        r#"ratelimitly_policy custom unit=20ms replays=3 replay_gap=exponential:1:2:4 final_wait_units=0
                              completion_delivery=on;"#;
    a19_without_a_name_it_comes_from_the_key:
        r#"ratelimitly_auth_key {key};
           resolver {dns};
           ratelimitly_zone z "bucket=shop" rate=10r/s;
           server {
               listen unix:{prefix}/nginx.sock;
               location / { ratelimitly zone=z; }
           }"#;
    a20_resolver_of_its_own:
        r#"ratelimitly_auth_key {key};
           ratelimitly_dns_resolver 127.0.0.1;
           ratelimitly_zone z "bucket=shop" rate=10r/s;
           server {
               listen unix:{prefix}/nginx.sock;
               location / { ratelimitly zone=z; }
           }"#;
    the_resolver_line_of_the_c_module:
        r#"ratelimitly_auth_key {key};
           ratelimitly_dns_resolver 127.0.0.53 valid=30s ipv6=off;
           ratelimitly_zone z "bucket=shop" rate=10r/s;
           server { listen unix:{prefix}/nginx.sock; ratelimitly zone=z; }"#;
    a_resolver_that_is_a_host_with_a_port:
        r#"ratelimitly_auth_key {key};
           ratelimitly_dns_resolver localhost:5353 localhost ipv4=on;
           ratelimitly_zone z "bucket=shop" rate=10r/s;
           server { listen unix:{prefix}/nginx.sock; ratelimitly zone=z; }"#;
    a21_resolver_by_its_alias:
        r#"ratelimitly_auth_key {key};
           ratelimitly_resolver 127.0.0.1 127.0.0.1:5353 [::1] [::1]:5353;
           ratelimitly_zone z "bucket=shop" rate=10r/s;
           server {
               listen unix:{prefix}/nginx.sock;
               location / { ratelimitly zone=z; }
           }"#;
    /// Flags and words have no case, as in nginx's own directives. A tracker's name has: `OFF` is one.
    words_in_capitals:
        r#"{service}
           ratelimitly_policy CUSTOM unit=20ms replays=1 replay_gap=Fixed:1 final_wait_units=1
                              completion_delivery=ON;
           ratelimitly_fail Close;
           ratelimitly_debug OFF;
           ratelimitly_tracker OFF "service=shop";
           server {
               listen unix:{prefix}/nginx.sock;
               location / { ratelimitly_report OFF; }
           }"#;
    /// A name may begin with a quote, and then so does what refers to it.
    names_that_begin_with_a_quote:
        r#"ratelimitly_zone '"z"' "bucket=shop" rate=10r/s;
           ratelimitly_group g zone="z";"#;
    bucket_with_quotes_inside:
        r#"ratelimitly_zone z "bucket=q:\"x\"" rate=10r/s;"#;
}

/// A bare number is seconds: the policy's horizon of 3 s exceeds a quota of 2 s, which names the unit that was understood.
#[tokio::test]
async fn a09_durations_without_a_unit_are_seconds() {
    let definitions = r#"
        ratelimitly_policy standard unit=1;
        ratelimitly_tracker t "service=shop" ttl=1;
        ratelimitly_guard g tracker=t threshold=1;"#;
    accept(definitions, &[]).await;
    let with_a_rule = format!("{{service}} {definitions} server {{ ratelimitly guard=g; }}");
    check(&with_a_rule, &[]).await.refused(&["\"ratelimitly_policy\" directive", "horizon of 3000 ms"]);
}

#[tokio::test]
async fn a16_static_bucket_of_1024_bytes() {
    accept(r#"ratelimitly_zone z "bucket={value}" rate=10r/s;"#, &[("value", &"b".repeat(1024))]).await;
}

#[tokio::test]
async fn a17_static_service_of_1024_bytes() {
    accept(r#"ratelimitly_tracker t "service={value}";"#, &[("value", &"s".repeat(1024))]).await;
}

#[tokio::test]
async fn a18_static_label_of_256_bytes() {
    let text = "server { listen unix:{prefix}/nginx.sock; ratelimitly_label {value}; }";
    accept(text, &[("value", &"l".repeat(256))]).await;
}

/// The system's own nameservers, whatever they are: those that cannot be used are warned of, and the rest is taken.
#[tokio::test]
async fn a22_no_resolver_at_all() {
    let text = r#"
        ratelimitly_auth_key {key};
        ratelimitly_zone z "bucket=shop" rate=10r/s;
        server {
            listen unix:{prefix}/nginx.sock;
            location / { ratelimitly zone=z; }
        }"#;
    check(text, &[]).await.accepted();
}

#[tokio::test]
async fn the_last_fail_policy_and_the_last_label_of_a_context_win() {
    let text = r#"
        ratelimitly_fail close;
        ratelimitly_fail open;
        server {
            listen unix:{prefix}/nginx.sock;
            location / { ratelimitly_label first; ratelimitly_label second; }
        }"#;
    // A second failure policy is warned of, which the family `doubtful` tests.
    check(text, &[]).await.accepted();
}

#[tokio::test]
async fn keys_of_both_kinds_and_a_policy_exactly_at_the_quota() {
    let text = r#"
        ratelimitly_auth_key {key_at_the_limit};
        ratelimitly_dns_resolver {dns};
        ratelimitly_policy standard unit=100ms;
        ratelimitly_zone z "bucket=shop" rate=10r/s;
        server {
            listen unix:{prefix}/nginx.sock;
            location / { ratelimitly zone=z; }
        }"#;
    let aes = crate::configuration::key_with(|quotas| quotas.dedup_ttl_ms_max = 300);
    let cookie = ratelimitly_harness::key(ratelimitly_core::key::KeyKind::Cookie).encode();
    for key in [aes, cookie] {
        accept(text, &[("key_at_the_limit", &key)]).await;
    }
}

/// A key of 100 ms allows units of up to 33 ms: less than the default, which is shortened without a word.
#[tokio::test]
async fn a28_the_longest_unit_is_what_the_key_allows() {
    let text = r#"
        ratelimitly_auth_key {key_of_100_ms};
        ratelimitly_policy standard unit=auto;
        ratelimitly_zone z "bucket=shop" rate=1r/s;
        server {
            listen unix:{prefix}/nginx.sock;
            location / { ratelimitly zone=z; }
        }"#;
    let key = key_with(|quotas| quotas.dedup_ttl_ms_max = 100);
    accept(text, &[("key_of_100_ms", &key)]).await;
}
