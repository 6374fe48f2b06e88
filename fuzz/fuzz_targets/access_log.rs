//! The diagnosis of logs: any format and any lines end in a judgement with figures that can be shown, or in an error.
//!
//! The first line is the format of nginx's log; an empty one stands for the recommended one. The application's log follows
//! a zero byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_lab::diagnose::{Logs, RECOMMENDED, Text, View};

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let (format, logs) = text.split_once('\n').unwrap_or(("", &text));
    let (access, app) = logs.split_once('\0').unwrap_or((logs, ""));
    let format = if format.is_empty() { RECOMMENDED } else { format };
    let access = Text { text: access, format };
    let app = Text { text: app, format: "$msec $uri $app_time" };
    match Logs::read(access, "remote_addr", app) {
        Ok(logs) => {
            let diagnosis = logs.diagnose();
            assert!(diagnosis.onset.is_none_or(f64::is_finite));
            check(&diagnosis.usual);
            diagnosis.then.iter().for_each(check);
        }
        Err(error) => assert!(!error.to_string().chars().any(|c| c.is_control() && c != '\n'), "{error:?}"),
    }
});

/// Figures of a stretch of time are not negative.
fn check(view: &View) {
    let optional = [view.wait, view.response, view.busy];
    let all = [view.per_second, view.clients, view.answers_per_second];
    assert!(all.into_iter().chain(optional.into_iter().flatten()).all(|figure| figure >= 0.0), "{view:?}");
    (0..view.costs.len()).for_each(|path| assert!((0.0..=1.0).contains(&view.share(path)), "{view:?}"));
}
