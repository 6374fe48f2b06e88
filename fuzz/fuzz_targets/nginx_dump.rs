//! The reader of `nginx -T`: any text ends in findings that a terminal can show, one a line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_lab::diagnose::point_out;

fuzz_target!(|text: &[u8]| {
    let report = point_out("nginx.conf", text);
    assert!(report.starts_with("Configuration\n") && report.lines().count() >= 2);
    assert!(!report.chars().any(|c| c.is_control() && c != '\n'), "{report:?}");
});
