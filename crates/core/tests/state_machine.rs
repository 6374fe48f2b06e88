//! The client under inputs in a random order: starts, cancellations, send results, answers, deadlines, discoveries and a
//! clock that jumps. Each seed is one history; a failure names its seed.

mod machine;

use fastrand::Rng;

const SEEDS: u64 = 200;
/// Bytes of a history, each action taking one or a few.
const LENGTH: usize = 600;

#[test]
fn the_books_balance_and_work_is_bounded_in_any_order_of_inputs() {
    for seed in 0..SEEDS {
        let mut random = Rng::with_seed(seed);
        let input: Vec<u8> = (0..LENGTH).map(|_| random.u8(..)).collect();
        let run = std::panic::catch_unwind(|| machine::run(&input));
        run.unwrap_or_else(|_| panic!("the state machine failed for seed {seed}"));
    }
}

#[test]
fn histories_that_failed_once_pass() {
    // No input at all, and a batch of live transmits that left too many withdrawn ones behind.
    let mut batch = vec![0x3a, 0x0b, 0x60, 0x1d];
    batch.extend([0; 11]);
    batch.push(0x67);
    for input in [&[][..], &batch] {
        machine::run(input);
    }
}
