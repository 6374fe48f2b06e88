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
async fn warns_with(text: &str, values: &[(&str, &str)], expected: &[(&str, &[&str])]) {
    let warnings = warnings(text, values).await;
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for (mark, parts) in expected {
        let place = format!("nginx.conf:{}", line_of(text, values, mark).await);
        let right = |line: &&String| line.ends_with(&place) && parts.iter().all(|part| line.contains(part));
        assert!(warnings.iter().any(|line| right(&line)), "{mark} lacks {parts:?} at {place}: {warnings:#?}");
    }
}

pub(super) async fn warns(text: &str, expected: &[(&str, &[&str])]) {
    warns_with(text, &[], expected).await;
}

/// A whole configuration around lines of the http block and of the server.
pub(super) fn around(http: &str, server: &str) -> String {
    format!(
        "http {{
            ratelimitly_auth_key {{key}};
            ratelimitly_dns_resolver {{dns}};
            ratelimitly_zone plain \"bucket=$binary_remote_addr\" rate=10r/s;
            {http}
            server {{
                listen unix:{{prefix}}/nginx.sock;
                ratelimitly zone=plain;
                {server}
            }}
        }}"
    )
}

const SPOILED: &str = "under \"ratelimitly_fail open\" such a request is not limited";

#[tokio::test]
async fn warns_of_values_that_a_client_can_spoil() {
    let text = around(
        r#"ratelimitly_zone host "bucket=$host:$binary_remote_addr" rate=10r/s; # (1)
           ratelimitly_zone rate "bucket=shop" rate=$arg_rate; # (2)
           ratelimitly_tracker t "service=x$http_x_service" ttl=20ms min_sample_threshold=0; # (3)
           ratelimitly_guard g tracker=t threshold=$cookie_limit; # (4)"#,
        r#"ratelimitly_label "$server_name$uri"; # (5)
           location /a { ratelimitly zone=host guard=g; ratelimitly_report t; }
           location /b { ratelimitly zone=rate; }"#,
    );
    let long = "longer than 1024 bytes, or empty if it holds nothing else, through";
    let remedy = "expected variables that a client cannot choose";
    warns(
        &text,
        &[
            (
                "(1)",
                &["\"ratelimitly_zone\" directive: a client can make the bucket", long, "\"$host\"", SPOILED],
            ),
            (
                "(2)",
                &["\"ratelimitly_zone\"", "make the rate invalid through \"$arg_rate\"", SPOILED, remedy],
            ),
            ("(3)", &["\"ratelimitly_tracker\"", "make the service", long, "\"$http_x_service\"", SPOILED]),
            (
                "(4)",
                &["\"ratelimitly_guard\"", "make the threshold invalid through \"$cookie_limit\"", SPOILED],
            ),
            (
                "(5)",
                &[
                    "\"ratelimitly_label\"",
                    "make the label longer than 256 bytes through \"$uri\"",
                    SPOILED,
                    "expected \"cut\" after the template",
                ],
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn values_that_no_client_can_spoil_are_not_warned_of() {
    let text = around(
        r#"geo $plan { default 10r/s; }
           ratelimitly_zone user "bucket=user:$remote_user:$server_name" rate=$plan;
           ratelimitly_tracker t "service=$server_name:$hostname" ttl=20ms min_sample_threshold=0;
           ratelimitly_guard g tracker=t threshold=350ms;"#,
        r#"ratelimitly zone=user guard=g;
           ratelimitly_report t;
           ratelimitly_label "$server_name $uri" cut;"#,
    );
    warns(&text, &[]).await;
}

/// Such a request is refused then, which no client gains from; a bucket that it chooses is still no limit.
#[tokio::test]
async fn fail_close_needs_no_warning_of_spoiled_values() {
    let text = around(
        r#"ratelimitly_fail close;
           ratelimitly_zone host "bucket=$host:$binary_remote_addr" rate=10r/s;"#,
        "ratelimitly zone=host; ratelimitly_label $request_uri;",
    );
    warns(&text, &[]).await;
}

#[tokio::test]
async fn warns_of_a_bucket_that_only_the_client_chooses() {
    let text = around(
        r#"ratelimitly_fail close;
           ratelimitly_zone chosen "bucket=api:$server_name:$arg_key" rate=10r/s; # (1)
           ratelimitly_zone mixed  "bucket=api:$binary_remote_addr:$arg_key" rate=10r/s;"#,
        "ratelimitly zone=chosen; ratelimitly zone=mixed;",
    );
    let parts =
        ["\"ratelimitly_zone\"", "chooses the bucket through \"$arg_key\" alone", "$binary_remote_addr"];
    warns(&text, &[("(1)", &parts)]).await;
}

#[tokio::test]
async fn warns_of_a_question_for_more_tokens_than_the_rate_grants() {
    let text = around(
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
    );
    let over = "for 3 tokens, but its rate grants 2";
    warns(
        &text,
        &[
            ("(1)", &["\"ratelimitly\" directive: ", "ask zone \"two\"", over, "no request is ever allowed"]),
            ("(2)", &["\"ratelimitly\" directive: ", "ask zone \"same\"", over]),
        ],
    )
    .await;
}

#[tokio::test]
async fn warns_of_a_guard_whose_tracker_gets_no_report() {
    let text = around(
        r#"ratelimitly_tracker unfed "service=a" ttl=20ms min_sample_threshold=0;
           ratelimitly_tracker fed   "service=b" ttl=20ms min_sample_threshold=0;
           ratelimitly_tracker alias "service=b" ttl=20ms min_sample_threshold=0;
           ratelimitly_guard open   tracker=unfed threshold=350ms; # (1)
           ratelimitly_guard closed tracker=fed   threshold=350ms;
           ratelimitly_guard unused tracker=unfed threshold=350ms;"#,
        "ratelimitly zone=plain guard=open guard=closed; ratelimitly_report alias;",
    );
    let parts =
        ["no \"ratelimitly_report\" feeds tracker \"unfed\"", "expected \"ratelimitly_report unfed\""];
    warns(&text, &[("(1)", &parts)]).await;
}

#[tokio::test]
async fn warns_of_a_tracker_that_never_has_enough_samples() {
    let text = r#"
        http {
            ratelimitly_tracker never "service=a" max_samples=8 min_sample_threshold=9; # (1)
            ratelimitly_tracker just  "service=b" max_samples=9 min_sample_threshold=9;
        }"#;
    let parts = ["\"min_sample_threshold=9\" is above \"max_samples=8\"", "expected at most 8"];
    warns(text, &[("(1)", &parts)]).await;
}

#[tokio::test]
async fn warns_of_a_guard_on_a_tracker_with_default_settings() {
    let text = around(
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
    );
    warns(
        &text,
        &[
            ("(1)", &["its defaults for ttl and min_sample_threshold fit few backends", "docs/overload.md"]),
            ("(2)", &["its defaults for ttl fit few backends", "docs/overload.md"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn warns_of_a_threshold_of_seconds_that_was_meant_in_milliseconds() {
    let text = r#"
        http {
            ratelimitly_tracker t "service=a";
            ratelimitly_guard long  tracker=t threshold=250; # (1)
            ratelimitly_guard unit  tracker=t threshold=250s;
            ratelimitly_guard short tracker=t threshold=60;
        }"#;
    let parts = ["\"threshold=250\" has no unit, so it is 250 seconds", "250ms or 250s"];
    warns(text, &[("(1)", &parts)]).await;
}

#[tokio::test]
async fn warns_of_a_failure_policy_that_is_given_twice() {
    let text = "
        http {
            ratelimitly_fail open;
            ratelimitly_fail close; # (1)
        }";
    warns(text, &[("(1)", &["\"ratelimitly_fail\" directive: replaces the one in", "nginx.conf:"])]).await;
    let each_in_its_own_context = r#"
        http {
            ratelimitly_fail close;
            server {
                listen unix:{prefix}/nginx.sock;
                ratelimitly_fail open;
                location / { ratelimitly_fail close; }
                location /twice {
                    ratelimitly_fail close;
                    ratelimitly_fail close; # (1)
                }
            }
        }"#;
    warns(each_in_its_own_context, &[("(1)", &["replaces the one in"])]).await;
}

#[tokio::test]
async fn warns_of_windows_above_the_quota_at_the_line_of_the_zone() {
    let text = r#"
        http {
            ratelimitly_auth_key {key_of_short_windows};
            ratelimitly_dns_resolver {dns};
            ratelimitly_zone long "bucket=long" rate=10r/2h; # (1)
            server {
                listen unix:{prefix}/nginx.sock;
                location /a { ratelimitly zone=long; }
                location /b { ratelimitly zone=long; }
            }
        }"#;
    let key = key_with(|quotas| quotas.rate_window_size_ms_max = 1 << 16);
    let expected: [(&str, &[&str]); 1] = [("(1)", &["the window of zone \"long\", 7200000 ms, is above"])];
    warns_with(text, &[("key_of_short_windows", &key)], &expected).await;
}

/// Five lines, then a count; another kind has its own five.
#[tokio::test]
async fn many_warnings_of_one_kind_become_a_count() {
    let zones: String = (0..12)
        .map(|n| format!("ratelimitly_zone z{n} \"bucket=$binary_remote_addr$uri:{n}\" rate=1r/s;\n"))
        .collect();
    let found =
        warnings(&around(&format!("{zones} ratelimitly_fail open; ratelimitly_fail open;"), ""), &[]).await;
    assert_eq!(found.iter().filter(|line| line.contains(SPOILED)).count(), 5, "{found:#?}");
    assert_eq!(
        found.iter().filter(|line| line.contains("7 more like the 5 lines above")).count(),
        1,
        "{found:#?}"
    );
    assert_eq!(found.iter().filter(|line| line.contains("replaces the one in")).count(), 1, "{found:#?}");
    assert_eq!(found.len(), 7, "{found:#?}");
}

/// Refused at the end of the http block, at the line of the directive at fault.
async fn refused_at(text: &str, values: &[(&str, &str)], says: &str) {
    let place = format!("in {{}}nginx.conf:{}", line_of(text, values, "(1)").await).replace("{}", "");
    let checked = check(text, values).await;
    checked.refused(&[says, place.trim_start_matches("in ")]);
}

#[tokio::test]
async fn errors_at_the_end_of_the_http_block_name_the_line_at_fault() {
    let rule = r#"
            ratelimitly_zone z "bucket=shop" rate=1r/s;
            server {
                listen unix:{prefix}/nginx.sock;
                location / {
                    ratelimitly zone=z; # (1)
                }
            }
        }"#;
    refused_at(&format!("http {{ {rule}"), &[], "API key required").await;

    let report = r#"
        http {
            ratelimitly_tracker t "service=shop";
            server {
                listen unix:{prefix}/nginx.sock;
                ratelimitly_report t; # (1)
                location / { }
            }
        }"#;
    refused_at(report, &[], "API key required").await;

    let unmarked = rule.replace("# (1)", "");
    let policy = format!(
        "http {{
            ratelimitly_auth_key {{key}};
            ratelimitly_policy standard unit=10s; # (1)
            {unmarked}"
    );
    refused_at(&policy, &[], "horizon of 30000 ms is above").await;

    let key = key_with(|quotas| quotas.dedup_ttl_ms_max = 10);
    let default_policy = format!("http {{ ratelimitly_auth_key {{key_of_10_ms}}; # (1)\n {unmarked}");
    refused_at(&default_policy, &[("key_of_10_ms", &key)], "horizon of 60 ms is above").await;
}
