//! Starts an nginx from a configuration text: fills the placeholders in, has nginx check the result, starts it and
//! waits until it serves. Called by tests through `Nginx::builder`; what runs afterwards is in `nginx.rs`.

use crate::dev::Dev;
use crate::nginx::{Nginx, Setup};
use crate::template::{Values, can_admit};
use crate::{check, environment, log, process};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest start, the five tries of nginx to bind a port included.
const START: Duration = Duration::from_secs(20);
/// Tries with other ports when one was taken in between.
const TRIES: usize = 5;

/// What an nginx needs before it starts.
pub struct Builder {
    text: String,
    values: Values,
    dev: Option<Dev>,
    level: &'static str,
    environment: Vec<(String, OsString)>,
}

impl Builder {
    pub(crate) fn new(text: &str) -> Builder {
        let mut values = Values::default();
        values.set("module", environment::module().display());
        Builder { text: text.to_owned(), values, dev: None, level: "debug", environment: Vec::new() }
    }

    /// The development server that this nginx asks: fills `{key}`, `{dns}` and `{zone}` in, and lets the lifecycle
    /// checks ask for an admission.
    #[must_use]
    pub fn dev(mut self, dev: &Dev) -> Builder {
        for (name, value) in
            [("key", dev.key()), ("dns", dev.dns_addr().to_string()), ("zone", dev.zone().into())]
        {
            if !self.values.has(name) {
                self.values.set(name, value);
            }
        }
        self.dev = Some(dev.clone());
        self
    }

    /// The text for the placeholder `{name}`.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl ToString) -> Builder {
        self.values.set(name, value);
        self
    }

    /// Loads the module with the feature `fault-injection`.
    #[must_use]
    pub fn fault_module(self) -> Builder {
        let module = environment::fault_module();
        self.set("module", module.display())
    }

    /// The error log's level instead of `debug`, for tests whose load would drown in it.
    #[must_use]
    pub fn log_level(mut self, level: &'static str) -> Builder {
        self.level = level;
        self
    }

    /// Adds a variable to nginx's environment. Workers keep it only where the configuration has an `env` line for it.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Builder {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Starts nginx and waits until it serves.
    ///
    /// # Panics
    /// nginx refuses the configuration or does not start.
    pub async fn start(mut self) -> Nginx {
        let alive = self.dev.is_some() && can_admit(&self.text);
        for _ in 0..TRIES {
            self.values.choose_ports(&self.text);
            if alive {
                self.values.choose_ports("{port_alive}");
            }
            let prefix =
                tempfile::Builder::new().prefix("ratelimitly-").tempdir().expect("a folder for the prefix");
            check::write(prefix.path(), &self.values, &self.text, alive, self.level);
            let checked = check::test(prefix.path());
            checked.accepted();
            let setup = Setup {
                child: spawn(prefix.path(), &self.environment),
                prefix,
                text: self.text.clone(),
                values: self.values.clone(),
                dev: self.dev.clone(),
                level: self.level,
                alive,
                checked,
            };
            match serving(setup).await {
                Ok(nginx) => return nginx,
                Err(reason) => {
                    assert!(reason.contains("Address already in use"), "nginx did not start: {reason}")
                }
            }
        }
        panic!("in {TRIES} tries some port was always taken");
    }
}

/// nginx as a child that ends with this process, whatever becomes of it.
fn spawn(prefix: &Path, environment: &[(String, OsString)]) -> Child {
    let output = std::fs::File::create(prefix.join("output.log")).expect("a file for nginx's output");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(environment::nginx_binary());
    command.args(check::arguments(prefix)).stdin(Stdio::null());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdout(output.try_clone().expect("a file descriptor")).stderr(output);
    command.spawn().expect("setpriv can be run")
}

/// Waits until every worker is at work and a connection succeeds; `Err` is what nginx said before it gave up.
async fn serving(mut setup: Setup) -> Result<Nginx, String> {
    let started = Instant::now();
    let master = setup.child.id();
    let wanted = setup.worker_count();
    loop {
        if let Some(status) = setup.child.try_wait().expect("nginx is our child") {
            let said =
                [log::lines(&setup.prefix.path().join("start.log")), log::lines(&setup.file("error.log"))];
            return Err(format!("{status}: {}", tail(&said.concat())));
        }
        // Without a master it is the file that nginx writes once it listens everywhere; `nginx -t` leaves it empty.
        let ready = if setup.single() {
            std::fs::metadata(setup.file("nginx.pid")).is_ok_and(|file| file.len() > 0)
        } else {
            process::workers(master).len() == wanted
        };
        if ready && setup.connects().await {
            return Ok(Nginx::new(setup));
        }
        assert!(
            started.elapsed() < START,
            "nginx is not ready after {START:?}: {}",
            setup.file("error.log").display()
        );
        tokio::time::sleep(Duration::from_millis(10)).await; // then polled again
    }
}

/// The last lines that are no debug output.
pub(crate) fn tail(lines: &[String]) -> String {
    let shown: Vec<&str> =
        lines.iter().map(String::as_str).filter(|line| !line.contains("[debug]")).collect();
    shown[shown.len().saturating_sub(40)..].join("\n")
}
