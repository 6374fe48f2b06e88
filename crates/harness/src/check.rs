//! `nginx -t` on a configuration text: what the tests of accepted and refused configurations ask. Also run by the
//! builder before each start and each reload. It never starts an nginx.

use crate::dev::key;
use crate::environment;
use crate::template::{self, Frame, Values};
use ratelimitly_core::key::KeyKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// What nginx said about a configuration.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Whether it can be loaded.
    pub ok: bool,
    /// The signal that ended nginx, which should have ended by itself.
    pub signal: Option<i32>,
    /// Everything that nginx wrote, warnings included.
    pub message: String,
}

impl Checked {
    /// Expects that the configuration is accepted.
    ///
    /// # Panics
    /// It was refused.
    #[track_caller]
    pub fn accepted(&self) {
        assert!(self.ok, "refused: {}", self.message);
    }

    /// Expects that the configuration is refused, with one message that holds all these texts.
    ///
    /// # Panics
    /// It was accepted, or no line that refuses it holds them.
    #[track_caller]
    pub fn refused(&self, texts: &[&str]) {
        assert!(!self.ok, "accepted: {}", self.message);
        assert_eq!(self.signal, None, "nginx died of a signal: {}", self.message);
        let mut refusals = self.message.lines().filter(|line| line.contains("[emerg]"));
        let says_all = |line: &str| texts.iter().all(|text| line.contains(text));
        assert!(refusals.any(says_all), "refused, but not with {texts:?}: {}", self.message);
    }
}

/// Asks nginx about a text with the placeholders that `Builder` knows, `{key}` being a good AES key.
pub async fn check_config(text: &str) -> Checked {
    check_config_with(text, &[]).await
}

/// The same with other texts for placeholders.
///
/// # Panics
/// A placeholder has no value, or nginx cannot be run.
pub async fn check_config_with(text: &str, values: &[(&str, &str)]) -> Checked {
    let prefix = tempfile::tempdir().expect("a folder for the prefix");
    let mut all = Values::default();
    all.set("module", environment::module().display());
    all.set("key", key(KeyKind::Aes).encode());
    all.set("dns", "127.0.0.1:53");
    all.set("zone", "dev.test");
    for (name, value) in values {
        all.set(name, value);
    }
    all.choose_ports(text);
    write(prefix.path(), &all, text, Frame { level: "notice", ..Frame::default() });
    let prefix_path = prefix.path().to_owned();
    tokio::task::spawn_blocking(move || test(&prefix_path)).await.expect("nginx -t does not panic")
}

/// Writes the configuration file and the harness's part of it below the prefix.
///
/// # Panics
/// A placeholder has no value, or a file cannot be written.
pub(crate) fn write(prefix: &Path, values: &Values, text: &str, frame: Frame) {
    let mut values = values.clone();
    values.set("prefix", prefix.display());
    values.set("http2", template::http2());
    template::lay_out(prefix).expect("the prefix can be filled");
    let settings = values.fill(&template::http_settings(frame));
    std::fs::write(prefix.join("harness.conf"), settings).expect("harness.conf can be written");
    let whole = values.fill(&template::whole(text, frame));
    std::fs::write(prefix.join("nginx.conf"), whole).expect("nginx.conf can be written");
}

/// Runs `nginx -t` on the configuration that `write` wrote.
///
/// # Panics
/// nginx cannot be run.
pub(crate) fn test(prefix: &Path) -> Checked {
    let mut command = Command::new(environment::nginx_binary());
    command.arg("-t").args(arguments(prefix));
    let output = command.output().expect("nginx can be run");
    Checked {
        ok: output.status.success(),
        signal: output.status.signal(),
        message: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The arguments that keep an nginx inside its prefix.
pub(crate) fn arguments(prefix: &Path) -> [std::ffi::OsString; 6] {
    let own = |name: &str| prefix.join(name).into_os_string();
    ["-p".into(), own(""), "-c".into(), own("nginx.conf"), "-e".into(), own("start.log")]
}
