//! Rules that load and cannot do what they say: each warning names the directive's own line, and a neighbour that is right
//! gets none. Comments such as `# (1)` mark the lines that warnings must name.

use crate::configuration::{check, key_with};

/// The line of a mark in the file that nginx reads.
async fn line_of(text: &str, values: &[(&str, &str)], mark: &str) -> String {
    let probe = text.replacen(&format!("# {mark}"), "marked_here;", 1);
    let message = check(&probe, values).await.message;
    let unknown = "unknown directive \"marked_here\" in ";
    let place =
        message.lines().find_map(|line| line.split_once(unknown)).expect("nginx reads up to the mark").1;
    place.rsplit_once(':').expect("a line").1.to_owned()
}

/// What nginx warns of in a configuration that it accepts.
pub(super) async fn warnings(text: &str, values: &[(&str, &str)]) -> Vec<String> {
    let checked = check(text, values).await;
    checked.accepted();
    let lines = checked.message.lines().filter(|line| line.contains("[warn]"));
    lines.map(str::to_owned).collect()
}

/// Loads with exactly these warnings, in any order: the mark of the line, and what the message says.
pub(super) async fn warns(text: &str, values: &[(&str, &str)], expected: &[(&str, &[&str])]) {
    let warnings = warnings(text, values).await;
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for (mark, parts) in expected {
        let place = format!("nginx.conf:{}", line_of(text, values, mark).await);
        let right = |line: &&String| line.ends_with(&place) && parts.iter().all(|part| line.contains(part));
        assert!(warnings.iter().any(|line| right(&line)), "{mark} lacks {parts:?} at {place}: {warnings:#?}");
    }
}

/// The http block around these lines of it and of its server.
pub(super) fn around(http: &str, server: &str) -> String {
    format!(
        "{{service}}
        ratelimitly_zone plain \"bucket=$binary_remote_addr\" rate=10r/s;
        {http}
        server {{
            listen unix:{{prefix}}/nginx.sock;
            ratelimitly zone=plain;
            {server}
        }}"
    )
}

/// One test for each row: its name, the content of the http block, and each line that is warned of, with what one message
/// about that line must say.
macro_rules! doubtful {
    ($($(#[$attribute:meta])* $name:ident: $text:expr $(, $mark:literal => $says:expr)*;)+) => {$(
        $(#[$attribute])*
        #[tokio::test]
        async fn $name() {
            warns(&$text, &[], &[$(($mark, &$says)),*]).await;
        }
    )+};
}

const SPOILED: &str = "under \"ratelimitly_fail open\" such a request is not limited";
const SPOILED_LENGTH: &str = "longer than 1024 bytes, or empty if it holds nothing else, through";
const SPOILED_REMEDY: &str = "expected variables that a client cannot choose";

doubtful! {
    w12_warns_of_values_that_a_client_can_spoil:
        around(
            r#"ratelimitly_zone host "bucket=$host:$binary_remote_addr" rate=10r/s; # (1)
               ratelimitly_zone rate "bucket=shop" rate=$arg_rate; # (2)
               ratelimitly_tracker t "service=x$http_x_service" ttl=20ms min_sample_threshold=0; # (3)
               ratelimitly_guard g tracker=t threshold=$cookie_limit; # (4)"#,
            r#"ratelimitly_label "$server_name$uri"; # (5)
               location /a { ratelimitly zone=host guard=g; ratelimitly_report t; }
               location /b { ratelimitly zone=rate; }"#,
        ),
        "(1)" => [
            "\"ratelimitly_zone\" directive: a client can make the bucket", SPOILED_LENGTH, "\"$host\"", SPOILED,
        ],
        "(2)" => ["\"ratelimitly_zone\"", "make the rate invalid through \"$arg_rate\"", SPOILED, SPOILED_REMEDY],
        "(3)" => ["\"ratelimitly_tracker\"", "make the service", SPOILED_LENGTH, "\"$http_x_service\"", SPOILED],
        "(4)" => ["\"ratelimitly_guard\"", "make the threshold invalid through \"$cookie_limit\"", SPOILED],
        "(5)" => [
            "\"ratelimitly_label\"", "make the label longer than 256 bytes through \"$uri\"", SPOILED,
            "expected \"cut\" after the template",
        ];
    w12_values_that_no_client_can_spoil_are_not_warned_of:
        around(
            r#"geo $plan { default 10r/s; }
               ratelimitly_zone user "bucket=user:$remote_user:$server_name" rate=$plan;
               ratelimitly_tracker t "service=$server_name:$hostname" ttl=20ms min_sample_threshold=0;
               ratelimitly_guard g tracker=t threshold=350ms;"#,
            r#"ratelimitly zone=user guard=g;
               ratelimitly_report t;
               ratelimitly_label "$server_name $uri" cut;"#,
        );
    /// nginx refuses such a request then, so its client gains nothing.
    w12_fail_close_needs_no_warning_of_spoiled_values:
        around(
            r#"ratelimitly_fail close;
               ratelimitly_zone host "bucket=$host:$binary_remote_addr" rate=10r/s;"#,
            "ratelimitly zone=host; ratelimitly_label $request_uri;",
        );
    w11_warns_of_a_bucket_that_only_the_client_chooses:
        around(
            r#"ratelimitly_fail close;
               ratelimitly_zone chosen "bucket=api:$server_name:$arg_key" rate=10r/s; # (1)
               ratelimitly_zone mixed  "bucket=api:$binary_remote_addr:$arg_key" rate=10r/s;"#,
            "ratelimitly zone=chosen; ratelimitly zone=mixed;",
        ),
        "(1)" => [
            "\"ratelimitly_zone\"", "chooses the bucket through \"$arg_key\" alone", "$binary_remote_addr",
        ];
    w03_warns_of_a_question_for_more_tokens_than_the_rate_grants:
        around(
            r#"ratelimitly_zone two "bucket=two" rate=2r/s;
               ratelimitly_zone same "bucket=two" rate=2r/s;
               ratelimitly_group both zone=two zone=two;"#,
            r#"location /right { ratelimitly group=both; }
               location /wrong {
                   ratelimitly group=both; # (1)
                   ratelimitly zone=two;
                   location /wrong/inherited { }
               }
               location /one_bucket {
                   ratelimitly zone=plain; # (2)
                   ratelimitly zone=same;
                   ratelimitly group=both;
               }"#,
        ),
        "(1)" => [
            "\"ratelimitly\" directive: ", "ask zone \"two\"", "for 3 tokens, but its rate grants 2",
            "no request is ever allowed",
        ],
        "(2)" => ["\"ratelimitly\" directive: ", "ask zone \"same\"", "for 3 tokens, but its rate grants 2"];
    w08_warns_of_a_guard_whose_tracker_gets_no_report:
        around(
            r#"ratelimitly_tracker unfed "service=a" ttl=20ms min_sample_threshold=0;
               ratelimitly_tracker fed   "service=b" ttl=20ms min_sample_threshold=0;
               ratelimitly_tracker alias "service=b" ttl=20ms min_sample_threshold=0;
               ratelimitly_guard open   tracker=unfed threshold=350ms; # (1)
               ratelimitly_guard closed tracker=fed   threshold=350ms;
               ratelimitly_guard unused tracker=unfed threshold=350ms;"#,
            "ratelimitly zone=plain guard=open guard=closed; ratelimitly_report alias;",
        ),
        "(1)" => ["no \"ratelimitly_report\" feeds tracker \"unfed\"", "expected \"ratelimitly_report unfed\""];
    w09_warns_of_a_tracker_that_never_has_enough_samples:
        r#"ratelimitly_tracker never "service=a" max_samples=8 min_sample_threshold=9; # (1)
           ratelimitly_tracker just  "service=b" max_samples=9 min_sample_threshold=9;"#,
        "(1)" => ["\"min_sample_threshold=9\" is above \"max_samples=8\"", "expected at most 8"];
    w10_warns_of_a_guard_on_a_tracker_with_default_settings:
        around(
            r#"ratelimitly_tracker both  "service=a"; # (1)
               ratelimitly_tracker ttl   "service=b" min_sample_threshold=0; # (2)
               ratelimitly_tracker own   "service=c" ttl=30s min_sample_threshold=8;
               ratelimitly_tracker plain "service=d";
               ratelimitly_guard a tracker=both threshold=350ms;
               ratelimitly_guard b tracker=ttl  threshold=350ms;
               ratelimitly_guard c tracker=own  threshold=350ms;"#,
            r#"location /a { ratelimitly guard=a guard=b; ratelimitly_report both; }
               location /b { ratelimitly guard=c; ratelimitly_report ttl; }
               location /c { ratelimitly_report own; }
               location /d { ratelimitly_report plain; }"#,
        ),
        "(1)" => ["its defaults for ttl and min_sample_threshold fit few backends", "docs/overload.md"],
        "(2)" => ["its defaults for ttl fit few backends", "docs/overload.md"];
    w13_warns_of_a_threshold_of_seconds_that_was_meant_in_milliseconds:
        r#"ratelimitly_tracker t "service=a";
           ratelimitly_guard long  tracker=t threshold=250; # (1)
           ratelimitly_guard unit  tracker=t threshold=250s;
           ratelimitly_guard short tracker=t threshold=60;"#,
        "(1)" => ["\"threshold=250\" has no unit, so it is 250 seconds", "250ms or 250s"];
    w06_warns_of_a_failure_policy_that_is_given_twice:
        "ratelimitly_fail open;
         ratelimitly_fail close; # (1)",
        "(1)" => ["\"ratelimitly_fail\" directive: replaces the one in", "nginx.conf:"];
    w06_warns_of_a_failure_policy_that_is_given_twice_in_one_location:
        r#"ratelimitly_fail close;
           server {
               listen unix:{prefix}/nginx.sock;
               ratelimitly_fail open;
               location / { ratelimitly_fail close; }
               location /twice {
                   ratelimitly_fail close;
                   ratelimitly_fail close; # (1)
               }
           }"#,
        "(1)" => ["replaces the one in"];
    /// A bucket between two quotes is refused. One that nginx has cut at a space begins with a quote, and loads.
    warns_of_a_bucket_that_begins_with_a_quote:
        r#"ratelimitly_zone a "bucket='x' y" rate=10r/s; # (1)
           ratelimitly_zone b "bucket=\"" rate=10r/s; # (2)
           ratelimitly_zone c bucket="$host$uri rate=10r/s; # (3)"#,
        "(1)" => ["\"ratelimitly_zone\"", "the value of \"bucket=\" starts with a quote"],
        "(2)" => ["\"ratelimitly_zone\"", "the value of \"bucket=\" starts with a quote"],
        "(3)" => ["\"ratelimitly_zone\"", "the value of \"bucket=\" starts with a quote"];
    /// The module judges what these render for each request, and with the quotes no request gets a right value.
    warns_of_quotes_around_a_rate_and_a_threshold_with_variables:
        r#"map $server_name $tier_rate { default 10r/s; }
           map $server_name $tier_threshold { default 1s; }
           ratelimitly_zone z "bucket=shop" rate="$tier_rate"; # (1)
           ratelimitly_tracker t "service=shop";
           ratelimitly_guard g tracker=t threshold='$tier_threshold'; # (2)"#,
        "(1)" => ["\"ratelimitly_zone\" directive: the value of \"rate=\"", KEPT_QUOTE],
        "(2)" => ["\"ratelimitly_guard\" directive: the value of \"threshold=\"", KEPT_QUOTE];
    /// `check` sees to it that no message shows the key itself.
    warns_of_keys_in_the_place_of_text:
        r#"ratelimitly_zone {key} "bucket=shop" rate=10r/s; # (1)
           ratelimitly_zone z "bucket={key}" rate=10r/s; # (2)
           ratelimitly_tracker t "service={key}"; # (3)
           server {
               listen unix:{prefix}/nginx.sock;
               ratelimitly_label "$server_name {key}"; # (4)
           }"#,
        "(1)" => ["\"ratelimitly_zone\" directive: \"rl-aes1...\"", KEY_AS_TEXT, KEY_DIRECTIVE],
        "(2)" => ["\"ratelimitly_zone\" directive: \"bucket=rl-aes1...\"", KEY_AS_TEXT, KEY_DIRECTIVE],
        "(3)" => ["\"ratelimitly_tracker\" directive: \"service=rl-aes1...\"", KEY_AS_TEXT, KEY_DIRECTIVE],
        "(4)" => ["\"ratelimitly_label\" directive: \"$server_name rl-aes1...\"", KEY_AS_TEXT, KEY_DIRECTIVE];
    warns_of_an_address_in_the_place_of_the_domain:
        "ratelimitly_dns_srv 192.0.2.1; # (1)",
        "(1)" => ["192.0.2.1 is an address", "expected the domain name that has the servers' SRV records"];
    /// An apostrophe inside a value draws no warning.
    warns_of_typographic_quotes_that_load:
        "ratelimitly_zone z bucket=\u{201c}shop\u{201d} rate=1r/s; # (1)
         ratelimitly_zone y \"bucket=it\u{2019}s\" rate=1r/s;",
        "(1)" => ["typographic quotes, which nginx takes for plain bytes: use \" or ' instead"];
}

const KEPT_QUOTE: &str =
    "starts with a quote, which nginx would keep as a byte of it: quote the whole argument";
const KEY_AS_TEXT: &str = "holds an API key, which is taken for plain text here";
const KEY_DIRECTIVE: &str = "the key belongs to \"ratelimitly_auth_key\"";

#[tokio::test]
async fn warns_of_rules_that_no_datagram_holds_and_of_windows_above_the_quota() {
    let text = r#"
        ratelimitly_auth_key {key_of_short_windows};
        ratelimitly_dns_resolver {dns};
        ratelimitly_zone long "bucket=long" rate=100r/2h; # (1)
        ratelimitly_group five zone=long zone=long zone=long zone=long zone=long;
        ratelimitly_group twenty_five zone=long zone=long zone=long zone=long zone=long zone=long zone=long
            zone=long zone=long zone=long zone=long zone=long zone=long zone=long zone=long zone=long zone=long
            zone=long zone=long zone=long zone=long zone=long zone=long zone=long zone=long;
        server {
            listen unix:{prefix}/nginx.sock;
            location /small { ratelimitly group=five; }
            location /large {
                ratelimitly group=twenty_five; # (2)
                ratelimitly group=twenty_five;
            }
        }"#;
    let key = key_with(|quotas| quotas.rate_window_size_ms_max = 1 << 16);
    let expected: [(&str, &[&str]); 2] = [
        ("(1)", &["the window of zone \"long\", 7200000 ms, is above the API key's quota of 65536 ms"]),
        ("(2)", &["\"ratelimitly\" directive: the rules from here on", "50 zones, 0 guards"]),
    ];
    warns(text, &[("key_of_short_windows", &key)], &expected).await;
}

/// Five lines, then a count; another kind has its own five.
#[tokio::test]
async fn w07_many_warnings_of_one_kind_become_a_count() {
    let zones: String = (0..12)
        .map(|n| format!("ratelimitly_zone z{n} \"bucket=$binary_remote_addr$uri:{n}\" rate=1r/s;\n"))
        .collect();
    let text = around(&format!("{zones} ratelimitly_fail open; ratelimitly_fail open;"), "");
    let found = warnings(&text, &[]).await;
    for (part, lines) in [(SPOILED, 5), ("7 more like the 5 lines above", 1), ("replaces the one in", 1)] {
        assert_eq!(found.iter().filter(|line| line.contains(part)).count(), lines, "{part}: {found:#?}");
    }
    assert_eq!(found.len(), 7, "{found:#?}");
}

/// Refused at the end of the http block, at the marked line.
async fn refused_at_the_mark(text: &str, values: &[(&str, &str)], says: &str) {
    let place = format!("nginx.conf:{}", line_of(text, values, "(1)").await);
    check(text, values).await.refused(&[says, &place]);
}

#[tokio::test]
async fn w14_errors_at_the_end_of_the_http_block_name_the_line_at_fault() {
    let rule = r#"
        ratelimitly_zone z "bucket=shop" rate=1r/s;
        server {
            listen unix:{prefix}/nginx.sock;
            ratelimitly zone=z; # (1)
        }"#;
    refused_at_the_mark(rule, &[], "API key required").await;

    let report = r#"
        ratelimitly_tracker t "service=shop";
        server {
            listen unix:{prefix}/nginx.sock;
            ratelimitly_report t; # (1)
        }"#;
    refused_at_the_mark(report, &[], "API key required").await;

    let unmarked = rule.replace("# (1)", "");
    let policy = format!("{{service}} ratelimitly_policy standard unit=10s; # (1)\n {unmarked}");
    refused_at_the_mark(&policy, &[], "horizon of 30000 ms is above").await;

    let key = key_with(|quotas| quotas.dedup_ttl_ms_max = 10);
    let default_policy = format!("ratelimitly_auth_key {{key_of_10_ms}}; # (1)\n {unmarked}");
    refused_at_the_mark(&default_policy, &[("key_of_10_ms", &key)], "horizon of 60 ms is above").await;
}
