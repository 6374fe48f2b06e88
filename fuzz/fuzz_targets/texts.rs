//! What values hold: variables of a template, mistakes in the place of a key, labels that are cut, excerpts. A message never
//! shows more of a text than its beginning, and nothing of a key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_config::key_text::{Mistake, mistake};
use ratelimitly_config::text::{EXCERPT_BYTES, Excerpt, begins_with_key, has_typographic_quotes, holds_key};
use ratelimitly_config::{label, variables};

fuzz_target!(|input: &[u8]| {
    let Some((&max, text)) = input.split_first() else { return };

    // A label needs room for one character at least.
    let max = usize::from(max).max(4);
    let start = label::cut(text, max);
    assert!(text.starts_with(start) && start.len() <= max);
    assert!(start.len() == text.len() || start.len() + 3 >= max);

    let shown = Excerpt::new(text).to_string();
    assert!(shown.len() <= 4 * EXCERPT_BYTES + 3);
    assert!(shown.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "printable");
    if begins_with_key(text) {
        assert!(holds_key(text) && shown.len() <= "rl-cookie1...".len());
        assert_ne!(mistake(text), Some(Mistake::Foreign));
    }

    let Ok(text) = std::str::from_utf8(text) else { return };
    assert!(std::str::from_utf8(start).is_ok(), "a character is not split");
    has_typographic_quotes(text.as_bytes());
    for name in variables::names(text) {
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    }
    let chosen = variables::chosen_by_client(text);
    assert!(chosen.is_none_or(|chosen| variables::names(text).any(|name| name == chosen)));
    let alone = variables::only_chosen_by_client(text);
    assert!(alone.is_none() || alone == chosen);
});
