//! Zones, trackers, guards and groups that are refused: rows R01, R07 to R23, R28, R37 to R46, R73 and R74.

use crate::configuration::{check, refused};

const ZONE_FORM: &str = "ratelimitly_zone <name> \"bucket=<template>\" rate=<n>r/<period><unit>";
const TRACKER_FORM: &str = "ratelimitly_tracker <name> \"service=<template>\" [ttl=<duration>]";
const GUARD_FORM: &str = "ratelimitly_guard <name> tracker=<tracker> threshold=<duration>";
const GROUP_FORM: &str = "ratelimitly_group <name> zone=<zone> ...";
const RATE_FORM: &str = "<n>r/<period><unit>";
const DURATION_FORM: &str = "expected a duration such as 20ms, 5s or 1m30s";

const OF_ZONE: &str = "\"ratelimitly_zone\" directive: ";
const OF_TRACKER: &str = "\"ratelimitly_tracker\" directive: ";
const OF_GUARD: &str = "\"ratelimitly_guard\" directive: ";
const OF_GROUP: &str = "\"ratelimitly_group\" directive: ";

refused! {
    r01_guard_with_the_arguments_of_a_tracker:
        r#"ratelimitly_guard g "service=shop" ttl=30s max_samples=128 threshold=100ms;"#,
        [OF_GUARD, "unknown argument \"service=shop\"", GUARD_FORM];
    r07_invalid_rate:
        r#"ratelimitly_zone z "bucket=shop" rate=not-a-rate;"#,
        [OF_ZONE, "\"rate=not-a-rate\" is not a rate", RATE_FORM];
    r08_rate_above_32_bits:
        r#"ratelimitly_zone z "bucket=shop" rate=4294967296r/s;"#,
        [OF_ZONE, "\"rate=4294967296r/s\" has more than 4294967295 tokens", RATE_FORM];
    r09_window_above_32_bits_of_milliseconds:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/4294968s;"#,
        [OF_ZONE, "\"rate=1r/4294968s\" has a period above 4294967295 ms", "at most 4294967s, 71582m or 1193h"];
    r11_quotes_around_the_bucket_only:
        r#"ratelimitly_zone z bucket="x" rate=1r/s;"#,
        [OF_ZONE, "the value of \"bucket=\" starts with a quote", "quote the whole argument (\"bucket=...\")"];
    r11_quotes_around_a_bucket_with_spaces:
        r#"ratelimitly_zone z bucket='a b' rate=1r/s;"#,
        [OF_ZONE, "the value of \"bucket=\" starts with a quote", "quote the whole argument (\"bucket=...\")"];
    r11_bucket_that_begins_with_a_quote_in_a_quoted_argument:
        r#"ratelimitly_zone z "bucket=\"x\"" rate=1r/s;"#,
        [OF_ZONE, "the value of \"bucket=\" starts with a quote", "quote the whole argument (\"bucket=...\")"];
    r12_duplicate_zone_name:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           ratelimitly_zone z "bucket=shop" rate=1r/s;"#,
        [OF_ZONE, "duplicate zone \"z\"", "each zone needs a name of its own"];
    r13_duplicate_tracker_name:
        r#"ratelimitly_tracker t "service=shop";
           ratelimitly_tracker t "service=shop";"#,
        [OF_TRACKER, "duplicate tracker \"t\"", "each tracker needs a name of its own"];
    r14_duplicate_guard_name:
        r#"ratelimitly_tracker t "service=shop";
           ratelimitly_guard g tracker=t threshold=1s;
           ratelimitly_guard g tracker=t threshold=1s;"#,
        [OF_GUARD, "duplicate guard \"g\"", "each guard needs a name of its own"];
    r15_duplicate_group_name:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           ratelimitly_group g zone=z;
           ratelimitly_group g zone=z;"#,
        [OF_GROUP, "duplicate group \"g\"", "each group needs a name of its own"];
    r16_empty_zone_name:
        r#"ratelimitly_zone "" "bucket=shop" rate=1r/s;"#,
        [OF_ZONE, "first argument must be a name, it is empty", ZONE_FORM];
    r17_empty_tracker_name:
        r#"ratelimitly_tracker "" "service=shop";"#,
        [OF_TRACKER, "first argument must be a name, it is empty", TRACKER_FORM];
    r18_tracker_named_off:
        r#"ratelimitly_tracker off "service=shop";"#,
        [OF_TRACKER, "the name \"off\" is reserved for \"ratelimitly_report off\"", "expected another name"];
    r19_empty_guard_name:
        r#"ratelimitly_tracker t "service=shop";
           ratelimitly_guard "" tracker=t threshold=1s;"#,
        [OF_GUARD, "first argument must be a name, it is empty", GUARD_FORM];
    r20_empty_group_name:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           ratelimitly_group "" zone=z;"#,
        [OF_GROUP, "first argument must be a name, it is empty", GROUP_FORM];
    r21_group_without_a_name_before_its_zones:
        r#"ratelimitly_zone a "bucket=a" rate=1r/s;
           ratelimitly_zone b "bucket=b" rate=1r/s;
           ratelimitly_group zone=a zone=b;"#,
        [OF_GROUP, "first argument must be a name without \"=\", it is \"zone=a\"", GROUP_FORM];
    r22_group_with_an_empty_zone_reference:
        r#"ratelimitly_zone a "bucket=a" rate=1r/s;
           ratelimitly_group g zone=a zone=;"#,
        [OF_GROUP, "\"zone=\" is empty", "expected zone=<zone> with the name of a zone defined above"];
    r23_group_of_an_unknown_zone:
        r#"ratelimitly_zone a "bucket=a" rate=1r/s;
           ratelimitly_group g zone=a zone=b;"#,
        [OF_GROUP, "unknown zone \"b\"", "expected a zone that \"ratelimitly_zone\" defines above"];
    r28_guard_of_an_unknown_tracker:
        r#"ratelimitly_guard g tracker=t threshold=1s;"#,
        [OF_GUARD, "unknown tracker \"t\"", "expected a tracker that \"ratelimitly_tracker\" defines above"];
    r37_invalid_threshold:
        r#"ratelimitly_tracker t "service=shop";
           ratelimitly_guard g tracker=t threshold=soon;"#,
        [OF_GUARD, "\"threshold=soon\" is not a duration", DURATION_FORM];
    r38_threshold_above_32_bits:
        r#"ratelimitly_tracker t "service=shop";
           ratelimitly_guard g tracker=t threshold=4294967296ms;"#,
        [OF_GUARD, "\"threshold=4294967296ms\" is above 4294967295 ms", DURATION_FORM];
    r39_threshold_of_zero:
        r#"ratelimitly_tracker t "service=shop";
           ratelimitly_guard g tracker=t threshold=0;"#,
        [OF_GUARD, "\"threshold=0\" is zero", DURATION_FORM];
    r40_ttl_above_32_bits:
        r#"ratelimitly_tracker t "service=shop" ttl=4294967296ms;"#,
        [OF_TRACKER, "\"ttl=4294967296ms\" is above 4294967295 ms", DURATION_FORM];
    r41_ttl_of_zero:
        r#"ratelimitly_tracker t "service=shop" ttl=0s;"#,
        [OF_TRACKER, "\"ttl=0s\" is zero", DURATION_FORM];
    r43_quotes_around_the_service_only:
        r#"ratelimitly_tracker t service="shop";"#,
        [OF_TRACKER, "the value of \"service=\" starts with a quote", "quote the whole argument (\"service=...\")"];
    r99_remember_deny_of_zero:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s remember_deny=0;"#,
        [OF_ZONE, "\"remember_deny=0\" is zero", DURATION_FORM];
    r99_remember_deny_that_is_no_duration:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s remember_deny=on;"#,
        [OF_ZONE, "remember_deny=on", DURATION_FORM];
    r99_remember_deny_twice:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s remember_deny=1s remember_deny=1s;"#,
        [OF_ZONE, "remember_deny"];
    r44_tracker_that_keeps_no_sample:
        r#"ratelimitly_tracker t "service=shop" max_samples=0;"#,
        [OF_TRACKER, "\"max_samples=0\" keeps nothing", "expected 1..4294967295"];
    r45_removed_argument_buffer_size:
        r#"ratelimitly_tracker t "service=shop" buffer_size=128;"#,
        [OF_TRACKER, "\"buffer_size=\" is no longer supported", "expected \"max_samples=<n>\" instead"];
    r46_sample_threshold_above_32_bits:
        r#"ratelimitly_tracker t "service=shop" min_sample_threshold=4294967296;"#,
        [OF_TRACKER, "\"min_sample_threshold=4294967296\" is above 4294967295", "expected a whole number"];
    r73_zone_name_with_an_equals_sign:
        r#"ratelimitly_zone a=b "bucket=shop" rate=1r/s;"#,
        [OF_ZONE, "first argument must be a name without \"=\", it is \"a=b\"", ZONE_FORM];
    r73_tracker_name_with_an_equals_sign:
        r#"ratelimitly_tracker a=b "service=shop";"#,
        [OF_TRACKER, "first argument must be a name without \"=\", it is \"a=b\"", TRACKER_FORM];
    r73_guard_name_with_an_equals_sign:
        r#"ratelimitly_tracker t "service=shop";
           ratelimitly_guard a=b tracker=t threshold=1s;"#,
        [OF_GUARD, "first argument must be a name without \"=\", it is \"a=b\"", GUARD_FORM];
    r74_group_above_its_zone:
        r#"ratelimitly_group g zone=z;
           ratelimitly_zone z "bucket=shop" rate=1r/s;"#,
        [OF_GROUP, "unknown zone \"z\"", "expected a zone that \"ratelimitly_zone\" defines above"];
    r74_guard_above_its_tracker:
        r#"ratelimitly_guard g tracker=t threshold=1s;
           ratelimitly_tracker t "service=shop";"#,
        [OF_GUARD, "unknown tracker \"t\"", "expected a tracker that \"ratelimitly_tracker\" defines above"];
    quotes_around_the_rate_only:
        r#"ratelimitly_zone z "bucket=shop" rate="1r/s";"#,
        [OF_ZONE, "the value of \"rate=\" starts with a quote", "(\"rate=...\") or leave the quotes out"];
    quotes_around_a_rate_with_a_space:
        r#"ratelimitly_zone z "bucket=shop" rate="1 r/s";"#,
        [OF_ZONE, "the value of \"rate=\" starts with a quote", ZONE_FORM];
    quotes_around_the_threshold_only:
        r#"ratelimitly_tracker t "service=shop";
           ratelimitly_guard g tracker=t threshold='1s';"#,
        [OF_GUARD, "the value of \"threshold=\" starts with a quote", "(\"threshold=...\") or leave the quotes out"];
    quotes_around_the_tracker_only:
        r#"ratelimitly_tracker t "service=shop";
           ratelimitly_guard g tracker="t" threshold=1s;"#,
        [OF_GUARD, "the value of \"tracker=\" starts with a quote", "(\"tracker=...\") or leave the quotes out"];
    quotes_around_the_ttl_only:
        r#"ratelimitly_tracker t "service=shop" ttl="30s";"#,
        [OF_TRACKER, "the value of \"ttl=\" starts with a quote", "(\"ttl=...\") or leave the quotes out"];
    quotes_around_the_zone_of_a_group_only:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s;
           ratelimitly_group g zone="z";"#,
        [OF_GROUP, "the value of \"zone=\" starts with a quote", "(\"zone=...\") or leave the quotes out"];
    zone_without_a_bucket:
        r#"ratelimitly_zone z rate=1r/s;"#,
        [OF_ZONE, "argument \"bucket=\" is missing", ZONE_FORM];
    zone_without_a_rate:
        r#"ratelimitly_zone z "bucket=shop";"#,
        [OF_ZONE, "argument \"rate=\" is missing", ZONE_FORM];
    zone_with_two_rates:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s rate=1r/s;"#,
        [OF_ZONE, "duplicate argument \"rate=\"", ZONE_FORM];
    zone_with_an_unknown_argument:
        r#"ratelimitly_zone z "bucket=shop" rate=1r/s burst=5;"#,
        [OF_ZONE, "unknown argument \"burst=5\"", ZONE_FORM];
    zone_of_an_empty_bucket:
        r#"ratelimitly_zone z bucket= rate=1r/s;"#,
        [OF_ZONE, "\"bucket=\" is empty", "expected 1..1024 bytes"];
    zone_without_any_argument:
        r#"ratelimitly_zone;"#,
        [OF_ZONE, "invalid number of arguments", ZONE_FORM];
    tracker_without_a_service:
        r#"ratelimitly_tracker t ttl=30s;"#,
        [OF_TRACKER, "argument \"service=\" is missing", TRACKER_FORM];
    guard_without_a_threshold:
        r#"ratelimitly_tracker t "service=shop";
           ratelimitly_guard g tracker=t;"#,
        [OF_GUARD, "argument \"threshold=\" is missing", GUARD_FORM];
    group_without_a_zone:
        r#"ratelimitly_group g;"#,
        [OF_GROUP, "argument \"zone=\" is missing", GROUP_FORM];
}

#[tokio::test]
async fn r10_static_bucket_of_1025_bytes() {
    let checked =
        check(r#"ratelimitly_zone z "bucket={value}" rate=10r/s;"#, &[("value", &"b".repeat(1025))]).await;
    checked.refused(&[OF_ZONE, "the bucket has 1025 bytes, at most 1024 are allowed"]);
}

#[tokio::test]
async fn r42_static_service_of_1025_bytes() {
    let checked = check(r#"ratelimitly_tracker t "service={value}";"#, &[("value", &"s".repeat(1025))]).await;
    checked.refused(&[OF_TRACKER, "the service has 1025 bytes, at most 1024 are allowed"]);
}
