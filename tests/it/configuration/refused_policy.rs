//! Policies that are refused: rows R48 to R65.

use crate::configuration::{check, key_with, refused};

const OF_POLICY: &str = "\"ratelimitly_policy\" directive: ";
const DURATION_FORM: &str = "expected a duration such as 20ms, 5s or 1m30s";
const GAP_FORM: &str = "expected fixed:<n>, linear:<n>:<step>:<max> or exponential:<n>:<factor>:<max>";
const CUSTOM_FORM: &str = "\"custom\" needs unit=<duration>, replays=<0..65535>, replay_gap=<schedule>, \
                           final_wait_units=<0..4294967295> and completion_delivery=on|off, each exactly once, and \
                           accepts silent_after=<n>";

refused! {
    r48_unknown_policy:
        r#"ratelimitly_policy eager;"#,
        [OF_POLICY, "unknown policy \"eager\"", "expected \"standard\", \"single_round\" or \"custom\""];
    r49_standard_policy_with_an_unknown_argument:
        r#"ratelimitly_policy standard replays=2;"#,
        [OF_POLICY, "unknown argument \"replays=2\"", "\"standard\" accepts only \"unit=<duration>\""];
    r50_policy_given_twice:
        r#"ratelimitly_policy standard;
           ratelimitly_policy standard;"#,
        [OF_POLICY, "is duplicate", "accepted once: ratelimitly_policy standard|single_round|custom"];
    r51_unit_that_is_not_a_duration:
        r#"ratelimitly_policy standard unit=fast;"#,
        [OF_POLICY, "\"unit=fast\" is not a duration", DURATION_FORM];
    r52_unit_of_zero:
        r#"ratelimitly_policy standard unit=0ms;"#,
        [OF_POLICY, "\"unit=0ms\" is zero", DURATION_FORM];
    r53_unit_above_32_bits:
        r#"ratelimitly_policy single_round unit=4294967296ms;"#,
        [OF_POLICY, "\"unit=4294967296ms\" is above 4294967295 ms", DURATION_FORM];
    r54_horizon_above_32_bits:
        r#"ratelimitly_policy standard unit=1431655766ms;"#,
        [OF_POLICY, "horizon", "use a shorter unit, fewer replays or smaller gaps", "at most 4294967295 ms"];
    r55_custom_policy_with_fields_missing:
        r#"ratelimitly_policy custom unit=20ms;"#,
        [OF_POLICY, "\"replays=\" is missing", CUSTOM_FORM];
    r56_custom_policy_with_a_field_repeated:
        r#"ratelimitly_policy custom unit=20ms unit=20ms replays=1 replay_gap=fixed:1 final_wait_units=1
                              completion_delivery=on;"#,
        [OF_POLICY, "duplicate argument \"unit=\"", CUSTOM_FORM];
    r57_replays_above_65535:
        r#"ratelimitly_policy custom unit=20ms replays=65536 replay_gap=fixed:1 final_wait_units=1
                              completion_delivery=on;"#,
        [OF_POLICY, "\"replays=65536\" is invalid", "expected a whole number of 0..65535"];
    r58_unknown_schedule:
        r#"ratelimitly_policy custom unit=20ms replays=1 replay_gap=random:1 final_wait_units=1
                              completion_delivery=on;"#,
        [OF_POLICY, "\"replay_gap=random:1\" has an unknown schedule", GAP_FORM];
    r59_linear_schedule_with_too_few_parts:
        r#"ratelimitly_policy custom unit=20ms replays=1 replay_gap=linear:1:1 final_wait_units=1
                              completion_delivery=on;"#,
        [OF_POLICY, "\"replay_gap=linear:1:1\" has the wrong number of parts", GAP_FORM];
    r60_gap_of_zero:
        r#"ratelimitly_policy custom unit=20ms replays=1 replay_gap=fixed:0 final_wait_units=1
                              completion_delivery=on;"#,
        [OF_POLICY, "\"replay_gap=fixed:0\" has a gap of zero", "at least 1 is needed", GAP_FORM];
    r61_linear_step_of_zero:
        r#"ratelimitly_policy custom unit=20ms replays=1 replay_gap=linear:1:0:3 final_wait_units=1
                              completion_delivery=on;"#,
        [OF_POLICY, "\"replay_gap=linear:1:0:3\" has a step of zero", "at least 1 is needed", GAP_FORM];
    r62_exponential_factor_below_two:
        r#"ratelimitly_policy custom unit=20ms replays=1 replay_gap=exponential:1:1:8 final_wait_units=1
                              completion_delivery=on;"#,
        [OF_POLICY, "\"replay_gap=exponential:1:1:8\" has a factor below 2", GAP_FORM];
    r63_linear_schedule_that_starts_above_its_maximum:
        r#"ratelimitly_policy custom unit=20ms replays=1 replay_gap=linear:4:1:3 final_wait_units=1
                              completion_delivery=on;"#,
        [OF_POLICY, "\"replay_gap=linear:4:1:3\" starts above its maximum", GAP_FORM];
    r63_exponential_schedule_that_starts_above_its_maximum:
        r#"ratelimitly_policy custom unit=20ms replays=1 replay_gap=exponential:9:2:8 final_wait_units=1
                              completion_delivery=on;"#,
        [OF_POLICY, "\"replay_gap=exponential:9:2:8\" starts above its maximum", GAP_FORM];
    r64_completion_delivery_neither_on_nor_off:
        r#"ratelimitly_policy custom unit=20ms replays=1 replay_gap=fixed:1 final_wait_units=1
                              completion_delivery=yes;"#,
        [OF_POLICY, "\"completion_delivery=yes\" is invalid", "expected \"on\" or \"off\""];
    quotes_around_the_unit_only:
        r#"ratelimitly_policy standard unit="20ms";"#,
        [OF_POLICY, "the value of \"unit=\" starts with a quote", "(\"unit=...\") or leave the quotes out"];
    r89_bounds_of_a_fixed_unit:
        r#"ratelimitly_policy standard unit=20ms max=50ms;"#,
        [OF_POLICY, "\"max=\" bounds a unit that follows the round trip", "expected \"unit=auto\" beside it"];
    r90_shortest_unit_above_the_longest:
        r#"ratelimitly_policy standard unit=auto min=60ms max=50ms;"#,
        [OF_POLICY, "\"min=\" of 60 ms is above \"max=\" of 50 ms", "a smaller \"min=\" or a larger \"max=\""];
    r91_bound_that_is_not_a_duration:
        r#"ratelimitly_policy standard unit=auto max=far;"#,
        [OF_POLICY, "\"max=far\" is not a duration", DURATION_FORM];
    r92_custom_policy_with_a_unit_that_follows_the_round_trip:
        r#"ratelimitly_policy custom unit=auto replays=1 replay_gap=fixed:1 final_wait_units=1
                              completion_delivery=on;"#,
        [OF_POLICY, "\"unit=auto\" belongs to \"standard\" and \"single_round\""];
    r93_silent_after_no_request:
        r#"ratelimitly_policy standard silent_after=0;"#,
        [OF_POLICY, "\"silent_after=0\" is invalid", "expected a number of requests, 1..4294967295"];
    final_wait_above_32_bits:
        r#"ratelimitly_policy custom unit=20ms replays=1 replay_gap=fixed:1 final_wait_units=4294967296
                              completion_delivery=on;"#,
        [OF_POLICY, "\"final_wait_units=4294967296\" is above 4294967295", "expected a whole number"];
}

#[tokio::test]
async fn r65_horizon_above_the_quota_of_the_key() {
    let text = r#"
        ratelimitly_auth_key {key_of_300_ms};
        ratelimitly_policy standard unit=101ms;
        ratelimitly_zone z "bucket=shop" rate=1r/s;
        server { ratelimitly zone=z; }"#;
    let key = key_with(|quotas| quotas.dedup_ttl_ms_max = 300);
    let checked = check(text, &[("key_of_300_ms", &key)]).await;
    checked.refused(&[
        OF_POLICY,
        "the policy's horizon of 303 ms is above the API key's deduplication quota of 300 ms",
        "expected a shorter unit, fewer replays or smaller gaps",
    ]);
}

#[tokio::test]
async fn r94_longest_unit_above_the_quota_of_the_key() {
    let text = r#"
        ratelimitly_auth_key {key_of_200_ms};
        ratelimitly_policy standard unit=auto max=100ms;
        ratelimitly_zone z "bucket=shop" rate=1r/s;
        server { ratelimitly zone=z; }"#;
    let key = key_with(|quotas| quotas.dedup_ttl_ms_max = 200);
    let checked = check(text, &[("key_of_200_ms", &key)]).await;
    checked.refused(&[
        OF_POLICY,
        "with units of up to 100 ms the policy's horizon is 300 ms",
        "above the API key's deduplication quota of 200 ms, expected \"max=66ms\" or less",
    ]);
}
