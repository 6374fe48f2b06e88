//! The operator's controls as `nginx -t` takes them: their wrong forms with the message of each, their accepted forms in
//! every context, and what is warned of.

use crate::configuration::accepted::accept;
use crate::configuration::doubtful::{around, warnings, warns};
use crate::configuration::{check, refused};

const OF_RULE: &str = "\"ratelimitly\" directive: ";
const OF_REPORT: &str = "\"ratelimitly_report\" directive: ";
const OF_FAIL_STATUS: &str = "\"ratelimitly_fail_status\" directive: ";
const OF_DENY_STATUS: &str = "\"ratelimitly_deny_status\" directive: ";
const OF_DRY_RUN: &str = "\"ratelimitly_dry_run\" directive: ";
const OF_LOG_LEVEL: &str = "\"ratelimitly_log_level\" directive: ";

const STATUS_FORM: &str = "expected a status from 400 to 599, but not 408, 494, 495, 496, 497 or 499";
const DENY_FORM: &str = "ratelimitly_deny_status <code> [guard=<code>]";

refused! {
    r76_fail_status_without_a_code: "http { ratelimitly_fail_status; }",
        [OF_FAIL_STATUS, "invalid number of arguments, expected ratelimitly_fail_status <code>"];

    r76_fail_status_that_is_a_word: "http { ratelimitly_fail_status busy; }",
        [OF_FAIL_STATUS, "\"busy\" is not a number", STATUS_FORM];

    r76_fail_status_that_is_a_variable: "http { ratelimitly_fail_status $status; }",
        [OF_FAIL_STATUS, "\"$status\" is not a number", STATUS_FORM];

    r76_fail_status_of_a_success: "http { ratelimitly_fail_status 200; }",
        [OF_FAIL_STATUS, "\"200\" is not the status of an error", STATUS_FORM];

    r76_fail_status_beyond_the_last: "http { ratelimitly_fail_status 600; }",
        [OF_FAIL_STATUS, "\"600\" is not the status of an error", STATUS_FORM];

    r76_fail_status_that_nginx_keeps_for_itself: "http { ratelimitly_fail_status 499; }",
        [OF_FAIL_STATUS, "\"499\" has a meaning of its own in nginx", STATUS_FORM];

    r76_fail_status_twice_in_a_context: r#"
        ratelimitly_fail_status 503;
        server { ratelimitly_fail_status 500; ratelimitly_fail_status 503; }"#,
        [OF_FAIL_STATUS, "is duplicate", "accepted once: ratelimitly_fail_status <code>"];

    r77_deny_status_without_a_code: "http { ratelimitly_deny_status; }",
        [OF_DENY_STATUS, "invalid number of arguments", DENY_FORM];

    r77_deny_status_that_closes_the_connection_as_a_timeout: "http { ratelimitly_deny_status 408; }",
        [OF_DENY_STATUS, "\"408\" has a meaning of its own in nginx", STATUS_FORM];

    r77_deny_status_of_a_guard_alone: "http { ratelimitly_deny_status guard=503; }",
        [OF_DENY_STATUS, "\"guard=503\" is not a number", STATUS_FORM];

    r77_deny_status_of_a_guard_that_is_no_error: "http { ratelimitly_deny_status 429 guard=302; }",
        [OF_DENY_STATUS, "\"guard=302\" is not the status of an error", STATUS_FORM];

    r77_deny_status_with_two_codes: "http { ratelimitly_deny_status 429 503; }",
        [OF_DENY_STATUS, "unknown argument \"503\"", DENY_FORM];

    r77_deny_status_with_two_codes_of_guards: "http { ratelimitly_deny_status 429 guard=503 guard=500; }",
        [OF_DENY_STATUS, "duplicate argument \"guard=\"", DENY_FORM];

    r77_deny_status_twice_in_a_context: "http { ratelimitly_deny_status 429; ratelimitly_deny_status 503; }",
        [OF_DENY_STATUS, "is duplicate", DENY_FORM];

    r78_dry_run_that_is_another_word: "http { ratelimitly_dry_run yes; }",
        [OF_DRY_RUN, "invalid value \"yes\"", "expected ratelimitly_dry_run on|off|<template with variables>"];

    r78_dry_run_that_is_empty: "http { ratelimitly_dry_run \"\"; }",
        [OF_DRY_RUN, "invalid value \"\"", "on|off|<template with variables>"];

    r78_dry_run_of_an_unknown_variable: "http { ratelimitly_dry_run $nothing; }",
        ["unknown \"nothing\" variable"];

    r78_dry_run_twice_in_a_context: "http { ratelimitly_dry_run on; ratelimitly_dry_run off; }",
        [OF_DRY_RUN, "is duplicate", "accepted once: ratelimitly_dry_run on|off"];

    r79_log_level_that_nginx_lacks: "http { ratelimitly_log_level warning; }",
        [OF_LOG_LEVEL, "\"warning\" is not a log level", "expected off, info, notice, warn or error"];

    r79_log_level_twice_in_a_context: "http { ratelimitly_log_level warn; ratelimitly_log_level off; }",
        [OF_LOG_LEVEL, "is duplicate", "accepted once: ratelimitly_log_level off|info|notice|warn|error"];

    r80_off_and_then_a_rule: r#"
        ratelimitly_zone z "bucket=shop" rate=10r/s;
        server {
            location / { ratelimitly off; ratelimitly zone=z; }
        }"#,
        [OF_RULE, "\"off\" and other rules stand in one context", "expected \"ratelimitly off;\" alone"];

    r80_a_rule_and_then_off: r#"
        ratelimitly_zone z "bucket=shop" rate=10r/s;
        server {
            location / { ratelimitly zone=z if=0; ratelimitly off; }
        }"#,
        [OF_RULE, "\"off\" and other rules stand in one context", "expected \"ratelimitly off;\" alone"];

    r80_off_twice: "http { server { ratelimitly off; ratelimitly off; } }",
        [OF_RULE, "\"off\" and other rules stand in one context"];

    r80_off_with_a_condition: "http { server { ratelimitly off if=$host; } }",
        [OF_RULE, "unknown argument \"off\"", "alone, or off"];

    r80_off_in_the_http_block: "http { ratelimitly off; }",
        ["\"ratelimitly\" directive is not allowed here"];

    r81_two_conditions: r#"
        ratelimitly_zone z "bucket=shop" rate=10r/s;
        server { ratelimitly zone=z if=$host if=$uri; }"#,
        [OF_RULE, "duplicate argument \"if=\"", "expected ratelimitly zone=<zone>"];

    r81_a_condition_in_quotes_of_its_own: r#"
        ratelimitly_zone z "bucket=shop" rate=10r/s;
        server { ratelimitly zone=z if="$host"; }"#,
        [OF_RULE, "the value of \"if=\" starts with a quote", "(\"if=...\")"];

    r81_a_condition_and_nothing_else: "http { server { ratelimitly if=$host; } }",
        [OF_RULE, "argument \"zone=\" is missing", "expected ratelimitly zone=<zone>"];

    r82_tokens_without_digits: r#"
        ratelimitly_zone z "bucket=shop" rate=10r/s;
        server { ratelimitly zone=z tokens=; }"#,
        [OF_RULE, "\"tokens=\" is empty", "expected a whole number from 0 to 65535, in digits alone"];

    r82_tokens_below_nothing: r#"
        ratelimitly_zone z "bucket=shop" rate=10r/s;
        server { ratelimitly zone=z tokens=-1; }"#,
        [OF_RULE, "\"tokens=-1\" is not a number of tokens", "expected a whole number from 0 to 65535"];

    r82_tokens_in_part: r#"
        ratelimitly_zone z "bucket=shop" rate=10r/s;
        server { ratelimitly zone=z tokens=1.5; }"#,
        [OF_RULE, "\"tokens=1.5\" is not a number of tokens", "expected a whole number from 0 to 65535"];

    r82_tokens_beyond_what_a_question_holds: r#"
        ratelimitly_zone z "bucket=shop" rate=100000r/s;
        server { ratelimitly zone=z tokens=65536; }"#,
        [OF_RULE, "\"tokens=65536\" is above 65535 tokens", "expected a whole number from 0 to 65535"];

    r83_tokens_above_the_rate_of_the_zone: r#"
        ratelimitly_zone z "bucket=$uri" rate=10r/s;
        server { ratelimitly zone=z tokens=11 if=$host; }"#,
        [OF_RULE, "\"tokens=11\" is more than zone \"z\" ever grants, whose rate is 10", "at most 10, or a higher rate"];

    r83_tokens_above_the_rate_of_a_zone_of_the_group: r#"
        ratelimitly_zone many "bucket=many" rate=100r/s;
        ratelimitly_zone few  "bucket=few"  rate=5r/s;
        ratelimitly_group both zone=many zone=few;
        server { ratelimitly group=both tokens=6; }"#,
        [OF_RULE, "\"tokens=6\" is more than zone \"few\" ever grants", "at most 5"];

    r82_tokens_of_a_guard: r#"
        ratelimitly_tracker t "service=shop";
        ratelimitly_guard g tracker=t threshold=1s;
        server { ratelimitly guard=g tokens=2; }"#,
        [OF_RULE, "\"tokens=\" has no zone to ask for tokens", "expected a zone or group beside it"];

    r82_tokens_twice: r#"
        ratelimitly_zone z "bucket=shop" rate=10r/s;
        server { ratelimitly zone=z tokens=2 tokens=3; }"#,
        [OF_RULE, "duplicate argument \"tokens=\"", "expected ratelimitly zone=<zone>"];

    r84_report_of_a_constant_time: r#"
        ratelimitly_tracker t "service=shop";
        server { ratelimitly_report t time=0.100; }"#,
        [OF_REPORT, "\"time=0.100\" is the same for every request", "a variable such as $upstream_header_time"];

    r84_report_with_two_times: r#"
        ratelimitly_tracker t "service=shop";
        server { ratelimitly_report t time=$request_time time=$upstream_header_time; }"#,
        [OF_REPORT, "duplicate argument \"time=\"", "expected ratelimitly_report <tracker> [if=<template>]"];

    r84_report_off_with_a_condition: "http { server { ratelimitly_report off if=$host; } }",
        [OF_REPORT, "invalid number of arguments", "expected ratelimitly_report <tracker>"];

    r84_report_with_another_argument: r#"
        ratelimitly_tracker t "service=shop";
        server { ratelimitly_report t unless=$host; }"#,
        [OF_REPORT, "unknown argument \"unless=$host\"", "expected ratelimitly_report <tracker>"];
}

/// None is accepted inside `if`, as none of the other directives is.
#[tokio::test]
async fn r88_no_control_is_accepted_inside_if() {
    for line in [
        "ratelimitly_fail close;",
        "ratelimitly_fail_status 503;",
        "ratelimitly_deny_status 503;",
        "ratelimitly_dry_run on;",
        "ratelimitly_log_level warn;",
        "ratelimitly off;",
        "ratelimitly guard=g if=1;",
        "ratelimitly_report off;",
        "ratelimitly_auth_key_file key;",
    ] {
        let text = "http { server { location / { if ($host) { LINE } } } }".replace("LINE", line);
        let name = line.split([' ', ';']).next().expect("a name");
        check(&text, &[]).await.refused(&[&format!("\"{name}\" directive is not allowed here")]);
    }
}

#[tokio::test]
async fn a25_every_control_is_accepted_where_it_belongs() {
    let text = around(
        r#"ratelimitly_tracker backend "service=a" ttl=20ms min_sample_threshold=0;
           ratelimitly_guard healthy tracker=backend threshold=350ms;
           ratelimitly_zone rendered "bucket=$binary_remote_addr:2" rate=$plan;
           map $request_method $plan { default 10r/s; POST 5r/s; }
           geo $limited { default 1; 127.0.0.0/8 0; }
           split_clients $request_id $tried { 5% off; * on; }
           ratelimitly_fail        Close;
           ratelimitly_fail_status 503;
           ratelimitly_deny_status 444 guard=503;
           ratelimitly_dry_run     On;
           ratelimitly_log_level   Warn;"#,
        r#"ratelimitly_fail        open;
           ratelimitly_fail_status 599;
           ratelimitly_deny_status 400;
           ratelimitly_dry_run     $tried;
           ratelimitly_log_level   notice;
           ratelimitly_report      backend if=$limited "time=$upstream_header_time";
           location /off   { ratelimitly off; location /off/on { ratelimitly zone=plain; } }
           location /lines {
               ratelimitly if=$limited zone=plain tokens=9 guard=healthy;
               ratelimitly zone=rendered tokens=$limited;
               ratelimitly zone=plain tokens=0;
               ratelimitly guard=healthy if=0;
               ratelimitly zone=plain if=;
               ratelimitly zone=plain if=1;
               ratelimitly_dry_run   OFF;
               ratelimitly_log_level error;
           }
           location /report { ratelimitly_report backend if=0 time=$request_time; }"#,
    );
    accept(&text, &[]).await;
}

#[tokio::test]
async fn w01_warns_of_a_constant_condition_that_reads_like_no() {
    let text = around(
        r#"ratelimitly_tracker backend "service=a" ttl=20ms min_sample_threshold=0;"#,
        r#"location /a { ratelimitly zone=plain if=off; } # (1)
           location /b { ratelimitly zone=plain if=False; } # (2)
           location /c { ratelimitly zone=plain if=00; } # (3)
           location /d { ratelimitly_report backend if=no; } # (4)
           location /right { ratelimitly zone=plain if=0; ratelimitly_report backend if=1; }"#,
    );
    let expected: [(&str, &[&str]); 4] = [
        ("(1)", &[OF_RULE, "\"if=off\" is true, as in \"access_log\"", "expected if=0, or a variable"]),
        ("(2)", &["\"if=False\" is true"]),
        ("(3)", &["\"if=00\" is true"]),
        ("(4)", &[OF_REPORT, "\"if=no\" is true"]),
    ];
    warns(&text, &[], &expected).await;
}

#[tokio::test]
async fn w02_warns_of_a_condition_that_is_unknown_before_the_decision() {
    let text = around(
        r#"ratelimitly_tracker backend "service=a" ttl=20ms min_sample_threshold=0;"#,
        r#"location /a { ratelimitly zone=plain if=$ratelimitly_verdict; } # (1)
           location /b { ratelimitly zone=plain "if=x$status"; } # (2)
           location /right { ratelimitly zone=plain if=$host; ratelimitly_report backend if=$status; }"#,
    );
    let expected: [(&str, &[&str]); 2] = [
        ("(1)", &["\"$ratelimitly_verdict\" in \"if=\" is unknown when the request is asked about"]),
        ("(2)", &["\"$status\" in \"if=\" is unknown", "such as one of \"map\" or \"geo\""]),
    ];
    warns(&text, &[], &expected).await;
}

#[tokio::test]
async fn w03_warns_of_more_tokens_than_a_rate_grants_line_by_line() {
    let text = around(
        r#"ratelimitly_zone ten "bucket=ten" rate=10r/s;
           ratelimitly_zone same "bucket=ten" rate=10r/s;
           ratelimitly_group twice zone=ten zone=ten;"#,
        r#"location /sum {
               ratelimitly zone=ten tokens=6; # (1)
               ratelimitly zone=same tokens=5;
           }
           location /group { ratelimitly group=twice tokens=6; } # (2)
           location /condition {
               ratelimitly zone=ten tokens=8;
               ratelimitly zone=ten tokens=2 if=$host;
               ratelimitly zone=ten tokens=3 if=$host; # (3)
           }
           location /right {
               ratelimitly zone=ten tokens=10 if=$host;
               ratelimitly zone=ten tokens=10 if=$uri;
           }"#,
    );
    let expected: [(&str, &[&str]); 3] = [
        ("(1)", &["ask zone \"ten\" for 11 tokens, but its rate grants 10", "no request is ever allowed"]),
        ("(2)", &["ask zone \"ten\" for 12 tokens, but its rate grants 10"]),
        (
            "(3)",
            &["this rule and those without \"if=\" ask zone \"ten\" for 11 tokens", "that it applies to"],
        ),
    ];
    warns(&text, &[], &expected).await;
}

#[tokio::test]
async fn w04_warns_of_tokens_that_a_client_chooses() {
    let text = around(
        r#"map $request_method $weight { default 1; POST 5; }"#,
        r#"location /a { ratelimitly zone=plain tokens=$arg_weight; } # (1)
           location /right { ratelimitly zone=plain tokens=$weight; }"#,
    );
    let parts = ["a client can make the number of tokens invalid through \"$arg_weight\""];
    warns(&text, &[], &[("(1)", &parts)]).await;
}

/// One place under fail open is enough for a client to get through.
#[tokio::test]
async fn w12_warns_of_spoiled_values_where_one_place_fails_open() {
    let text = around(
        r#"ratelimitly_fail close;
           ratelimitly_zone host "bucket=$host:$binary_remote_addr" rate=10r/s; # (1)"#,
        r#"ratelimitly zone=host;
           location /open { ratelimitly_fail open; }"#,
    );
    warns(&text, &[], &[("(1)", &["through \"$host\""])]).await;
}

#[tokio::test]
async fn w07_many_constant_conditions_become_a_count() {
    let rules = "ratelimitly zone=plain if=off;\n".repeat(8);
    let found = warnings(&around("", &format!("location /many {{ {rules} }}")), &[]).await;
    assert_eq!(found.iter().filter(|line| line.contains("\"if=off\" is true")).count(), 5, "{found:#?}");
    assert!(found.iter().any(|line| line.contains("3 more like the 5 lines above")), "{found:#?}");
    assert_eq!(found.len(), 6, "{found:#?}");
}
