//! Rules, labels and reports that are refused, and directives in the wrong place: rows R02, R24 to R27, R29 to R36, R70,
//! R74 and R75.

use crate::configuration::{check, refused};

const RULE_FORM: &str = "expected ratelimitly zone=<zone>|group=<group> [guard=<guard> ...] [tokens=<n or template>] [if=<template>], \
     guard=<guard> ... [if=<template>] alone, or off";
const REPORT_FORM: &str = "ratelimitly_report <tracker> [if=<template>] [time=<template>], or off";

const OF_RULE: &str = "\"ratelimitly\" directive: ";
const OF_LABEL: &str = "\"ratelimitly_label\" directive: ";
const OF_REPORT: &str = "\"ratelimitly_report\" directive: ";

const KEY_REQUIRED: [&str; 3] = [
    "\"ratelimitly_auth_key\" directive: ",
    "API key required while a rule or report is in effect",
    "expected \"ratelimitly_auth_key rl-aes1...;\" or \"ratelimitly_auth_key rl-cookie1...;\" in the http block",
];

refused! {
    r02_rule_without_a_key:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           server { location / { ratelimitly zone=z; } }"#,
        KEY_REQUIRED;
    r02_report_without_a_key:
        r#"ratelimitly_tracker t "service=shop";
           server {
               ratelimitly_report t;
               location / { ratelimitly_report off; }
           }"#,
        KEY_REQUIRED;
    r24_rule_of_an_unknown_zone:
        r#"server { location / { ratelimitly zone=z; } }"#,
        [OF_RULE, "unknown zone \"z\"", "expected a zone that \"ratelimitly_zone\" defines above"];
    r25_rule_of_an_unknown_group:
        r#"ratelimitly_zone g "bucket=shop" rate=1r/s;
           server { location / { ratelimitly group=g; } }"#,
        [OF_RULE, "unknown group \"g\"", "expected a group that \"ratelimitly_group\" defines above"];
    r26_rule_of_a_zone_and_an_unknown_guard:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           server { location / { ratelimitly zone=z guard=g; } }"#,
        [OF_RULE, "unknown guard \"g\"", "expected a guard that \"ratelimitly_guard\" defines above"];
    r27_rule_of_an_unknown_guard_alone:
        r#"server { location / { ratelimitly guard=g; } }"#,
        [OF_RULE, "unknown guard \"g\"", "expected a guard that \"ratelimitly_guard\" defines above"];
    r29_report_to_an_unknown_tracker:
        r#"server { location / { ratelimitly_report t; } }"#,
        [OF_REPORT, "unknown tracker \"t\"", "a tracker that \"ratelimitly_tracker\" defines above, or \"off\""];
    r30_two_reports_in_one_context:
        r#"ratelimitly_tracker t "service=shop";
           server {
               location / { ratelimitly_report t; ratelimitly_report off; }
           }"#,
        [OF_REPORT, "is duplicate", "accepted once: ", REPORT_FORM];
    r31_rule_without_arguments:
        r#"server { location / { ratelimitly; } }"#,
        [OF_RULE, "invalid number of arguments", RULE_FORM];
    r32_rule_of_an_empty_zone:
        r#"server { location / { ratelimitly zone=; } }"#,
        [OF_RULE, "\"zone=\" is empty", "expected zone=<zone> with the name of a zone defined above"];
    r33_rule_of_an_empty_group:
        r#"server { location / { ratelimitly group=; } }"#,
        [OF_RULE, "\"group=\" is empty", "expected group=<group> with the name of a group defined above"];
    r34_rule_of_a_zone_and_an_empty_guard:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           server { location / { ratelimitly zone=z guard=; } }"#,
        [OF_RULE, "\"guard=\" is empty", "expected guard=<guard> with the name of a guard defined above"];
    r35_empty_zone_does_not_hide_a_group:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           ratelimitly_group g zone=z;
           server { location / { ratelimitly zone= group=g; } }"#,
        [OF_RULE, "at most one \"zone=\" or \"group=\" is accepted a line", RULE_FORM];
    r36_empty_group_does_not_hide_a_zone:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           server { location / { ratelimitly group= zone=z; } }"#,
        [OF_RULE, "at most one \"zone=\" or \"group=\" is accepted a line", RULE_FORM];
    r74_rule_above_its_zone:
        r#"server { location / { ratelimitly zone=z; } }
           ratelimitly_zone z "bucket=shop" rate=1r/s;"#,
        [OF_RULE, "unknown zone \"z\"", "expected a zone that \"ratelimitly_zone\" defines above"];
    rule_with_an_unknown_argument:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           server { location / { ratelimitly zone=z burst=5; } }"#,
        [OF_RULE, "unknown argument \"burst=5\"", RULE_FORM];
    rule_of_two_zones_in_one_line:
        r#"ratelimitly_zone a "bucket=a" rate=1r/s;
           ratelimitly_zone b "bucket=b" rate=1r/s;
           server { location / { ratelimitly zone=a zone=b; } }"#,
        [OF_RULE, "at most one \"zone=\" or \"group=\" is accepted a line", "several lines add up"];
    quotes_around_the_zone_only:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           server { location / { ratelimitly zone="z"; } }"#,
        [OF_RULE, "the value of \"zone=\" starts with a quote", "(\"zone=...\") or leave the quotes out"];
    quotes_around_the_group_only:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           ratelimitly_group "two words" zone=z;
           server { location / { ratelimitly group="two words"; } }"#,
        [OF_RULE, "the value of \"group=\" starts with a quote", "(\"group=...\") or leave the quotes out"];
    quotes_around_the_guard_only:
        r#"ratelimitly_tracker t "service=shop";
           ratelimitly_guard g tracker=t threshold=1s;
           server { location / { ratelimitly guard='g'; } }"#,
        [OF_RULE, "the value of \"guard=\" starts with a quote", "(\"guard=...\") or leave the quotes out"];
    report_with_a_named_argument:
        r#"ratelimitly_tracker t "service=shop";
           server { location / { ratelimitly_report tracker=t; } }"#,
        [OF_REPORT, "must be a name without \"=\", it is \"tracker=t\"", REPORT_FORM];
    report_with_an_empty_name:
        r#"server { location / { ratelimitly_report ""; } }"#,
        [OF_REPORT, "must be a name, it is empty", REPORT_FORM];
    label_of_two_words:
        r#"server { location / { ratelimitly_label two words; } }"#,
        [OF_LABEL, "unknown argument \"words\"", "expected ratelimitly_label <template> [cut]"];
}

#[tokio::test]
async fn r70_static_label_of_257_bytes() {
    let checked =
        check("server { location / { ratelimitly_label {value}; } }", &[("value", &"l".repeat(257))]).await;
    checked.refused(&[OF_LABEL, "the label has 257 bytes, at most 256 are allowed"]);
}

/// Lines that are right in the http block and nowhere else.
const HTTP_ONLY: [&str; 12] = [
    "ratelimitly_auth_key {key};",
    "ratelimitly_auth_key_file key;",
    "ratelimitly_dns_srv rl.example.com;",
    "ratelimitly_dns_resolver 127.0.0.1;",
    "ratelimitly_resolver 127.0.0.1;",
    "ratelimitly_policy standard;",
    "ratelimitly_bind 127.0.0.1;",
    "ratelimitly_debug on;",
    "ratelimitly_zone z \"bucket=shop\" rate=1r/s;",
    "ratelimitly_tracker u \"service=shop\";",
    "ratelimitly_guard g tracker=t threshold=1s;",
    "ratelimitly_group h zone=y;",
];

#[tokio::test]
async fn r75_http_directive_in_a_server() {
    for line in HTTP_ONLY {
        not_allowed(&format!("server {{ {line} }}"), line).await;
    }
}

#[tokio::test]
async fn r75_http_directive_in_a_location() {
    for line in HTTP_ONLY {
        not_allowed(&format!("server {{ location / {{ {line} }} }}"), line).await;
    }
}

#[tokio::test]
async fn rule_label_and_report_in_the_http_block() {
    for line in ["ratelimitly zone=y;", "ratelimitly_label shop;", "ratelimitly_report t;"] {
        not_allowed(line, line).await;
    }
}

/// Refuses the line where it stands in these blocks, below what it refers to.
async fn not_allowed(blocks: &str, line: &str) {
    let definitions = r#"ratelimitly_zone y "bucket=shop" rate=1r/s; ratelimitly_tracker t "service=shop";"#;
    let directive = line.split(' ').next().expect("a line starts with its directive");
    let says = format!("\"{directive}\" directive is not allowed here");
    check(&format!("{definitions} {blocks}"), &[]).await.refused(&[&says]);
}
