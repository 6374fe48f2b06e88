//! Starts an nginx from a configuration text: fills the placeholders in, has nginx check the result, starts it and
//! waits until it serves. Called by tests through `Nginx::builder`; what runs afterwards is in `nginx.rs`.

use crate::dev::Dev;
use crate::nginx::{Nginx, Setup};
use crate::template::{Frame, Values, can_admit};
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
    frame: Frame,
    environment: Vec<(String, OsString)>,
    /// A command that runs the command after it, such as a tracer.
    tool: Vec<String>,
    patience: Duration,
}

impl Builder {
    pub(crate) fn new(text: &str) -> Builder {
        let mut values = Values::default();
        values.set("module", environment::module().display());
        Builder {
            text: text.to_owned(),
            values,
            dev: None,
            frame: Frame { level: "debug", ..Frame::default() },
            environment: Vec::new(),
            tool: Vec::new(),
            patience: START,
        }
    }

    /// Leaves out of the configuration what only tests need: the module, an access log and the lifecycle checks' server.
    #[must_use]
    pub fn bare(mut self) -> Builder {
        self.frame.bare = true;
        self
    }

    /// Runs nginx by way of a tool such as valgrind or strace, whose words may contain placeholders, and gives it longer
    /// to start.
    #[must_use]
    pub fn under(mut self, tool: &[&str], patience: Duration) -> Builder {
        self.tool = tool.iter().map(|word| (*word).to_owned()).collect();
        self.patience = patience;
        self
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
        self.frame.level = level;
        self
    }

    /// Adds a variable to nginx's environment. Workers keep it only where the configuration has an `env` line for it.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Builder {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Starts nginx for a test, which ends with `Nginx::finish`, and waits until it serves.
    ///
    /// # Panics
    /// nginx refuses the configuration or does not start.
    pub async fn start(self) -> Nginx {
        let mut nginx =
            self.try_start().await.unwrap_or_else(|reason| panic!("nginx did not start: {reason}"));
        nginx.must_finish = true;
        nginx
    }

    /// Starts nginx for a test, and waits until its worker has found the servers and gets an admission.
    ///
    /// # Panics
    /// nginx does not start, or no admission is allowed.
    pub async fn warm(self) -> Nginx {
        let nginx = self.start().await;
        nginx.admits().await;
        nginx
    }

    /// Starts nginx for a program, which may drop it at any time, and waits until it serves.
    ///
    /// # Errors
    /// What nginx said when it refused the configuration or did not start.
    pub async fn try_start(mut self) -> Result<Nginx, String> {
        self.frame.alive = self.dev.is_some() && !self.frame.bare && can_admit(&self.text);
        let mut reason = String::new();
        for _ in 0..TRIES {
            self.values.choose_ports(&self.text);
            if self.frame.alive {
                self.values.choose_ports("{port_alive}");
            }
            match serving(self.spawn()?, self.patience).await {
                Ok(nginx) => return Ok(nginx),
                Err(said) if said.contains("Address already in use") => reason = said,
                Err(said) => return Err(said),
            }
        }
        Err(reason)
    }

    fn spawn(&mut self) -> Result<Setup, String> {
        let prefix =
            tempfile::Builder::new().prefix("ratelimitly-").tempdir().expect("a folder for the prefix");
        self.values.set("prefix", prefix.path().display());
        check::write(prefix.path(), &self.values, &self.text, self.frame);
        let checked = check::test(prefix.path());
        if !checked.ok {
            return Err(format!("refused: {}", checked.message));
        }
        let tool: Vec<String> = self.tool.iter().map(|word| self.values.fill(word)).collect();
        Ok(Setup {
            child: spawn(prefix.path(), &tool, &self.environment),
            prefix,
            text: self.text.clone(),
            values: self.values.clone(),
            dev: self.dev.clone(),
            frame: self.frame,
            checked,
        })
    }
}

/// Starts nginx as a child that ends when this process ends.
fn spawn(prefix: &Path, tool: &[String], environment: &[(String, OsString)]) -> Child {
    let output = std::fs::File::create(prefix.join("output.log")).expect("a file for nginx's output");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).args(tool).arg(environment::nginx_binary());
    command.args(check::arguments(prefix)).stdin(Stdio::null());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdout(output.try_clone().expect("a file descriptor")).stderr(output);
    command.spawn().expect("setpriv can be run")
}

/// Waits until every worker is at work and a connection succeeds; `Err` is what nginx said before it gave up.
async fn serving(mut setup: Setup, patience: Duration) -> Result<Nginx, String> {
    let started = Instant::now();
    let master = setup.child.id();
    let wanted = setup.worker_count();
    loop {
        if let Some(status) = setup.child.try_wait().expect("nginx is our child") {
            let said = ["output.log", "start.log", "error.log"].map(|name| log::lines(&setup.file(name)));
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
            started.elapsed() < patience,
            "nginx is not ready after {patience:?}: {}",
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
