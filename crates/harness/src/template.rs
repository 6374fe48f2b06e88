//! A test's configuration text and its placeholders. The text is the whole configuration as far as the test is
//! concerned; the harness adds only what each instance needs to live in its own folder (paths, log files, one worker)
//! and the location that the lifecycle checks ask. Called by the builder and the configuration check.
//!
//! Placeholders: `{module}`, `{prefix}`, `{key}`, `{dns}`, `{zone}`, `{service}` (the directives that name these three),
//! `{usual}` (the same with the usual policy and the failure policy `{fail}`), `{http2}` (makes the `listen` before it
//! accept HTTP/2 with either nginx), `{port}` and `{port_anything}` (a free port each), and what `Builder::set` names.

use crate::environment;
use crate::ports::free_port;
use regex::{Captures, Regex};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

static PLACEHOLDER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{([a-z][a-z0-9_]*)\}").expect("a constant pattern"));

/// What `{service}` stands for: how nginx finds the development server and its key.
const SERVICE: &str =
    "ratelimitly_auth_key {key}; ratelimitly_dns_srv {zone}; ratelimitly_dns_resolver {dns};";

/// What `{usual}` stands for: the service, a horizon of 1.8 s, and the failure policy that the test chooses.
const USUAL: &str = "{service} ratelimitly_policy standard unit=600ms; ratelimitly_fail {fail};";

/// The comment of a configuration that does without the module.
const UNLOADED: &str = "# no load_module";

/// Texts for placeholders, ports included.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values(BTreeMap<String, String>);

impl Values {
    pub(crate) fn set(&mut self, name: &str, value: impl ToString) {
        self.0.insert(name.to_owned(), value.to_string());
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The port behind `{port}` or `{port_…}`.
    pub(crate) fn port(&self, name: &str) -> u16 {
        let port = self.0.get(name).and_then(|text| text.parse().ok());
        port.unwrap_or_else(|| panic!("the configuration has no port placeholder {{{name}}}"))
    }

    /// Chooses a new port for each port placeholder of the text.
    pub(crate) fn choose_ports(&mut self, text: &str) {
        let names = PLACEHOLDER.captures_iter(text).map(|found| found[1].to_owned());
        for name in names.filter(|name| name == "port" || name.starts_with("port_")) {
            self.set(&name, free_port());
        }
    }

    /// The text with every placeholder replaced.
    ///
    /// # Panics
    /// A placeholder that has no value.
    pub(crate) fn fill(&self, text: &str) -> String {
        let value = |found: &Captures<'_>| match self.0.get(&found[1]) {
            Some(value) => value.clone(),
            None => panic!("no value for the placeholder {}", &found[0]),
        };
        let text = text.replace("{usual}", USUAL).replace("{service}", SERVICE);
        PLACEHOLDER.replace_all(&text, value).into_owned()
    }
}

/// What the harness adds to a configuration text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    /// The error log's level.
    pub(crate) level: &'static str,
    /// With the server whose location `/__alive` the lifecycle checks ask.
    pub(crate) alive: bool,
    /// Without the module and an access log.
    pub(crate) bare: bool,
}

/// What follows the address of a `listen` to make it accept HTTP/2.
pub(crate) fn http2() -> &'static str {
    if environment::has_http2_directive() { "; http2 on" } else { " http2" }
}

/// The configuration file: the harness's preamble, then the test's text with the harness's http settings included as
/// the first thing in its `http` block. A text without `http {` is the content of that block. What the text sets itself,
/// the preamble leaves out.
pub(crate) fn whole(text: &str, frame: Frame) -> String {
    let mut whole = String::from("daemon off;\npid {prefix}/nginx.pid;\n");
    whole += &format!("error_log {{prefix}}/error.log {};\n", frame.level);
    let mut unless_set = |directive: &str, line: &str| {
        if !sets(text, directive) {
            whole += line;
        }
    };
    if !frame.bare && !text.contains(UNLOADED) {
        unless_set("load_module", "load_module {module};\n");
    }
    unless_set("worker_processes", "worker_processes 1;\n");
    unless_set("events", "events { worker_connections 1024; }\n");
    if environment::is_root() {
        unless_set("user", "user root;\n");
    }
    const OPENED: &str = "http {\n    include {prefix}/harness.conf;\n";
    if text.contains("http {") {
        whole + &text.replacen("http {", OPENED, 1)
    } else {
        whole + OPENED + text + "\n}\n"
    }
}

fn sets(text: &str, directive: &str) -> bool {
    text.lines().any(|line| line.split_whitespace().next() == Some(directive))
}

/// The http settings of each instance.
pub(crate) fn http_settings(frame: Frame) -> String {
    let mut settings = String::from(include_str!("http.conf"));
    if !frame.bare {
        settings += include_str!("log.conf");
    }
    if frame.alive {
        settings += include_str!("alive.conf");
    }
    settings
}

/// Whether the lifecycle checks can ask for an admission: only with a key.
pub(crate) fn can_admit(text: &str) -> bool {
    text.contains("{service}")
        || text.contains("{usual}")
        || sets(text, "ratelimitly_auth_key")
        || sets(text, "ratelimitly_auth_key_file")
}

/// The folders and files that the settings name.
pub(crate) fn lay_out(prefix: &Path) -> std::io::Result<()> {
    for folder in ["temp", "html", "logs"] {
        std::fs::create_dir_all(prefix.join(folder))?;
    }
    std::fs::write(prefix.join("html/__alive"), "alive\n")
}
