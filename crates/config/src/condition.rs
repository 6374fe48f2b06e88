//! Values that switch something: `if=` of a rule or report, and a template of `ratelimitly_dry_run`.
//!
//! Called for each request whose rule has one. `if=` means what nginx's `access_log ... if=` means, so `off` and `false`
//! are true there; `looks_like_no` lets the configuration warn about such a constant.

/// Whether a rule or report with this value of `if=` applies: unless it is empty or exactly `0`.
pub fn applies(value: &[u8]) -> bool {
    !matches!(value, b"" | b"0")
}

/// Whether this value of `ratelimitly_dry_run` lets refused requests through: unless it is empty, `0` or `off`.
pub fn is_dry_run(value: &[u8]) -> bool {
    !matches!(value, b"" | b"0" | b"off")
}

/// Words that an operator writes for "no" and that are true in an `if=`.
const NO_WORDS: [&[u8]; 8] = [b"off", b"false", b"no", b"n", b"f", b"none", b"never", b"disabled"];

/// Whether a constant value of `if=` reads like "no" and yet applies: a word for it in any case of its letters, or a
/// zero that is not written `0`.
pub fn looks_like_no(constant: &[u8]) -> bool {
    let text = constant.trim_ascii();
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let is_zero = digits.contains(&b'0') && digits.iter().all(|byte| matches!(byte, b'0' | b'.'));
    let is_blank = text.is_empty() || text == b"-";
    applies(constant) && (is_zero || is_blank || NO_WORDS.iter().any(|word| word.eq_ignore_ascii_case(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_nothing_and_zero_are_false() {
        assert!(!applies(b"") && !applies(b"0"));
        for value in ["1", "on", "off", "false", "00", " ", "0 ", "0.0", "-", "\0"] {
            assert!(applies(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn a_dry_run_also_ends_with_off() {
        assert!(!is_dry_run(b"") && !is_dry_run(b"0") && !is_dry_run(b"off"));
        for value in ["1", "on", "OFF", "false", "00", " off"] {
            assert!(is_dry_run(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn constants_that_read_like_no_and_apply_are_found() {
        for value in
            ["off", "OFF", "false", "False", "no", "none", "00", "000", "0.0", "-0", "+0", " 0", " ", "-"]
        {
            assert!(looks_like_no(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn other_constants_draw_no_warning() {
        for value in ["", "0", "1", "10", "on", "yes", "true", "offline", "north", "0x0", "."] {
            assert!(!looks_like_no(value.as_bytes()), "{value}");
        }
    }

    proptest! {
        #[test]
        fn what_looks_like_no_always_applies(value: Vec<u8>) {
            prop_assert!(applies(&value) || !looks_like_no(&value));
            prop_assert!(applies(&value) || !is_dry_run(&value));
        }
    }
}
