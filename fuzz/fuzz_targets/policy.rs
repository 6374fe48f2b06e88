//! The arguments of `ratelimitly_policy`, separated by newlines: a policy that is accepted has a horizon that is the sum of its
//! rounds and its final wait.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_config::policy::parse;

fuzz_target!(|text: &[u8]| {
    let arguments: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    match parse(&arguments) {
        Ok(parsed) => {
            let policy = parsed.policy;
            let rounds: u64 = (0..=u32::from(policy.replays())).map(|k| policy.round_ms(k)).sum();
            assert_eq!(u64::from(policy.horizon_ms()), rounds + policy.final_ms());
            assert!(policy.horizon_ms() <= policy.first_horizon_ms());
            assert!(policy.first_horizon_ms() <= policy.longest_horizon_ms());
            assert!(policy.unit_ms() > 0 && policy.round_ms(0) >= u64::from(policy.unit_ms()));
        }
        Err(error) => assert!(error.to_string().len() < 700),
    }
});
