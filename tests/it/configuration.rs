//! What `nginx -t` accepts and refuses, and with which message: conformance rows A01 to A26, R01 to R88 and W01 to W14. A row is
//! the content of an http block and, where nginx refuses it, what one message must say: the directive, what is wrong and
//! what would be right. No nginx is started here.

mod accepted;
mod controls;
mod doubtful;
mod key_file;
mod pairs;
mod refused_definitions;
mod refused_policy;
mod refused_rules;
mod refused_settings;
mod secrets;
mod slips;
mod system;
mod wild;

use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_harness::check::{Checked, check_config_with};
use ratelimitly_harness::quotas;

/// One test for each row: its name, the content of the http block, and what one message must say.
macro_rules! refused {
    ($($(#[$attribute:meta])* $name:ident: $text:expr, $says:expr;)+) => {$(
        $(#[$attribute])*
        #[tokio::test]
        async fn $name() {
            $crate::configuration::check($text, &[]).await.refused(&$says);
        }
    )+};
}
pub(crate) use refused;

/// What nginx says about a configuration, or about the content of an http block. It never says the key.
async fn check(text: &str, values: &[(&str, &str)]) -> Checked {
    let checked = check_config_with(text, values).await;
    let mut keys = vec![ratelimitly_harness::key(KeyKind::Aes).encode()];
    keys.extend(values.iter().filter(|(name, _)| name.starts_with("key")).map(|(_, key)| (*key).to_owned()));
    for key in keys {
        assert!(!checked.message.contains(&key), "the key is shown: {}", checked.message);
    }
    checked
}

/// A key like the harness's with other quotas.
fn key_with(change: impl FnOnce(&mut Quotas)) -> String {
    let mut quotas = quotas();
    change(&mut quotas);
    ApiKey::new(KeyKind::Aes, 43, [0x3c; 32], quotas).expect("quotas that a key can express").encode()
}
