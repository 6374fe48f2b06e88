//! What the arguments of `ratelimitly_policy` mean, and what is wrong with wrong ones.

use super::*;
use proptest::prelude::*;

fn parsed(text: &str) -> Result<Parsed, PolicyTextError> {
    let arguments: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
    parse(&arguments)
}

fn policy(text: &str) -> Result<Policy, PolicyTextError> {
    parsed(text).map(|parsed| parsed.policy)
}

fn error(text: &str) -> String {
    policy(text).expect_err(text).to_string()
}

const CUSTOM: &str =
    "custom unit=10ms replays=2 replay_gap=linear:1:1:3 final_wait_units=2 completion_delivery=off";

fn custom_with(field: &str, value: &str) -> String {
    let changed = CUSTOM.split(' ').map(|word| match word.split_once('=') {
        Some((name, _)) if name == field => format!("{name}={value}"),
        _ => word.to_owned(),
    });
    changed.collect::<Vec<_>>().join(" ")
}

#[test]
fn named_policies_default_to_20_ms() {
    assert_eq!(policy("standard").unwrap(), Policy::standard(20).unwrap());
    assert_eq!(policy("single_round").unwrap(), Policy::single_round(20).unwrap());
    assert_eq!(policy("single_round unit=25ms").unwrap(), Policy::single_round(25).unwrap());
    assert_eq!(policy("standard unit=1").unwrap(), Policy::standard(1000).unwrap());
}

#[test]
fn units_reach_the_wire_limit() {
    assert_eq!(policy("single_round unit=4294967295ms").unwrap().horizon_ms(), u32::MAX);
    assert_eq!(policy("standard unit=1431655765ms").unwrap().horizon_ms(), u32::MAX);
}

#[test]
fn a_horizon_above_32_bits_is_refused() {
    assert!(error("standard unit=1431655766ms").contains("horizon"));
    assert!(error(&custom_with("final_wait_units", "4294967295")).contains("horizon"));
}

#[test]
fn custom_takes_every_schedule() {
    let linear = Schedule::Linear { initial: 1, step: 1, maximum: 3 };
    assert_eq!(policy(CUSTOM).unwrap(), Policy::custom(10, 2, linear, 2, false).unwrap());
    let fixed = policy(&custom_with("replay_gap", "fixed:1")).unwrap();
    assert_eq!(fixed, Policy::custom(10, 2, Schedule::Fixed(1), 2, false).unwrap());
    let exponential = Schedule::Exponential { initial: 1, factor: 2, maximum: 8 };
    let got = policy(&custom_with("replay_gap", "exponential:1:2:8")).unwrap();
    assert_eq!(got, Policy::custom(10, 2, exponential, 2, false).unwrap());
}

#[test]
fn custom_takes_zero_replays_and_zero_final_wait() {
    let text = "custom completion_delivery=ON final_wait_units=0 replays=0 replay_gap=fixed:1 unit=5ms";
    assert_eq!(policy(text).unwrap().horizon_ms(), 5);
}

/// As in nginx's own flags and enumerations.
#[test]
fn words_are_the_same_in_any_case() {
    let gap = "Linear:1:1:3";
    let custom =
        format!("Custom unit=10ms replays=2 replay_gap={gap} final_wait_units=2 completion_delivery=Off");
    assert_eq!(policy(&custom), policy(CUSTOM));
    assert_eq!(policy("STANDARD unit=5ms"), policy("standard unit=5ms"));
    assert_eq!(policy("Single_Round"), policy("single_round"));
    assert!(error("custom UNIT=10ms").contains("unknown argument \"UNIT=10ms\""));
}

#[test]
fn values_in_quotes_are_told_where_quotes_belong() {
    for text in ["standard unit=\"20ms\"", "custom unit='20ms'", &custom_with("replay_gap", "\"fixed:1\"")] {
        assert!(error(text).contains("leave the quotes out"), "{text}");
    }
    assert!(error("standard unit=\"1s 5ms\"").contains("the value of \"unit=\" starts with a quote"));
}

#[test]
fn unknown_policies_and_foreign_arguments() {
    assert!(error("turbo").contains("expected \"standard\", \"single_round\" or \"custom\""));
    assert!(error("").contains("unknown policy \"\""));
    let message = error("standard replays=2");
    assert!(
        message.contains("unknown argument \"replays=2\", \"standard\" accepts only \"unit=<duration>\"")
    );
    assert!(error("single_round fast").contains("accepts only"));
    assert!(error(&format!("{CUSTOM} burst=1")).contains("unknown argument \"burst=1\""));
    assert!(error(&format!("{CUSTOM} unit")).contains("unknown argument \"unit\""));
}

#[test]
fn a_unit_that_follows_the_round_trip() {
    let bounds = |text| policy(text).unwrap().auto_unit().map(|bounds| (bounds.min_ms, bounds.max_ms));
    assert_eq!(bounds("standard"), None);
    assert_eq!(bounds("standard unit=auto"), Some((5, 100)));
    assert_eq!(bounds("single_round unit=AUTO min=10ms max=1s"), Some((10, 1_000)));
    assert_eq!(bounds("standard max=3ms unit=auto"), Some((3, 3)), "a default never crosses a given bound");
    assert_eq!(bounds("standard unit=auto min=200ms"), Some((200, 200)));
    assert_eq!(policy("standard unit=auto").unwrap().unit_ms(), 20);
    assert!(parsed("standard unit=auto").unwrap().max_is_default);
    assert!(!parsed("standard unit=auto max=100ms").unwrap().max_is_default);
}

#[test]
fn servers_that_are_passed_over() {
    let after = |text| policy(text).unwrap().silent_after();
    assert_eq!((after("standard"), after("standard silent_after=5")), (0, 5));
    assert_eq!(after("single_round unit=auto silent_after=1"), 1);
    assert_eq!(after(&format!("{CUSTOM} silent_after=4294967295")), u32::MAX);
    for value in ["0", "", "-1", "five", "4294967296"] {
        let message = error(&format!("standard silent_after={value}"));
        assert!(message.contains("expected a number of requests, 1..4294967295"), "{message}");
    }
}

#[test]
fn bounds_that_bound_nothing() {
    assert!(error("standard min=5ms").contains("\"min=\" bounds a unit that follows the round trip"));
    assert!(error("standard unit=20ms max=5ms").contains("expected \"unit=auto\" beside it"));
    assert!(error("standard unit=auto min=9ms max=8ms").contains("of 9 ms is above \"max=\" of 8 ms"));
    assert!(error("standard unit=auto min=soon").contains("\"min=soon\" is not a duration"));
    assert!(error("standard unit=auto max=0").contains("\"max=0\" is zero"));
    assert!(error("standard unit=auto max=1431655766ms").contains("horizon does not fit 32 bits"));
    assert!(error(&custom_with("unit", "auto")).contains("belongs to \"standard\" and \"single_round\""));
}

#[test]
fn units_that_are_no_duration() {
    assert!(error("standard unit=fast").contains("\"unit=fast\" is not a duration"));
    assert!(error("standard unit=0").contains("is zero"));
    assert!(error("single_round unit=4294967296ms").contains("above 4294967295 ms"));
    assert!(error("standard unit=1s unit=2s").contains("duplicate"));
}

#[test]
fn custom_lists_what_it_needs() {
    let message = error("custom unit=10ms");
    assert!(message.contains("\"replays=\" is missing"), "{message}");
    for field in ["unit=", "replays=", "replay_gap=", "final_wait_units=", "completion_delivery="] {
        assert!(message.contains(field), "{message}");
    }
    assert!(error(&format!("{CUSTOM} unit=10ms")).contains("duplicate argument \"unit=\""));
}

#[test]
fn custom_values_out_of_range() {
    assert!(error(&custom_with("replays", "65536")).contains("0..65535"));
    assert!(error(&custom_with("replays", "-1")).contains("0..65535"));
    assert!(error(&custom_with("final_wait_units", "4294967296")).contains("above 4294967295"));
    assert!(error(&custom_with("completion_delivery", "yes")).contains("expected \"on\" or \"off\""));
    assert!(policy(&custom_with("replays", "65535")).is_ok());
}

#[test]
fn schedules_that_are_none() {
    let gap = |value| error(&custom_with("replay_gap", value));
    for (value, reason) in [
        ("random:1", "unknown schedule"),
        ("", "unknown schedule"),
        ("linear:1:1", "wrong number of parts"),
        ("fixed", "wrong number of parts"),
        ("fixed:1:2", "wrong number of parts"),
        ("fixed:x", "not a whole number"),
        ("fixed:0", "gap of zero"),
        ("linear:0:1:3", "gap of zero"),
        ("linear:1:0:3", "step of zero"),
        ("exponential:1:1:3", "factor below 2"),
        ("linear:4:1:3", "above its maximum"),
        ("exponential:4:2:3", "above its maximum"),
    ] {
        let message = gap(value);
        assert!(message.contains(reason), "{value}: {message}");
        assert!(message.contains("expected fixed:<n>, linear:<n>:<step>:<max>"), "{value}: {message}");
    }
}

proptest! {
    #[test]
    fn arbitrary_arguments_never_panic(arguments in proptest::collection::vec(any::<Vec<u8>>(), 0..6)) {
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let _ = parse(&arguments);
    }

    #[test]
    fn near_schedules_never_panic(gap in "(fixed|linear|exponential)(:[0-9]{0,11}){0,4}") {
        let _ = policy(&custom_with("replay_gap", &gap));
    }
}
