//! An nginx for an experiment: a configuration text with `{module}`, `{prefix}` and `{port}`, started in a folder of its
//! own and stopped when it is dropped. Called by the experiments; knows nothing of what they measure.

use crate::error::{Error, io};
use rustix::process::{Pid, Signal, kill_process};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest start.
const START: Duration = Duration::from_secs(20);
/// Longest shutdown.
const STOP: Duration = Duration::from_secs(5);
/// Tries with other ports when one was taken in between.
const TRIES: usize = 5;
/// What each instance needs to stay inside its own folder; the text's `http` block includes it.
const FOLDERS: &str = "client_body_temp_path {prefix}/body; proxy_temp_path {prefix}/proxy; \
    fastcgi_temp_path {prefix}/fastcgi; uwsgi_temp_path {prefix}/uwsgi; scgi_temp_path {prefix}/scgi;\n";

/// A running nginx.
pub struct Nginx {
    child: Child,
    prefix: TempDir,
    port: u16,
}

impl Nginx {
    /// Starts nginx with this text and waits until it takes connections on its `{port}`.
    ///
    /// # Errors
    /// nginx refuses the text, finds no port or does not serve in time.
    pub async fn start(text: &str) -> Result<Nginx, Error> {
        let mut last = String::new();
        for _ in 0..TRIES {
            let mut nginx = Nginx::spawn(text)?;
            match nginx.serving().await {
                Ok(()) => return Ok(nginx),
                Err(reason) if reason.contains("Address already in use") => last = reason,
                Err(reason) => return Err(Error::Nginx(reason)),
            }
        }
        Err(Error::Nginx(last))
    }

    fn spawn(text: &str) -> Result<Nginx, Error> {
        let prefix = tempfile::Builder::new().prefix("ratelimitly-lab-").tempdir();
        let prefix = prefix.map_err(io("a folder for nginx"))?;
        let port = free_port().map_err(io("a free port"))?;
        let module = file_from("RATELIMITLY_MODULE")?;
        let text = text.replacen("http {", &format!("http {{\n    {FOLDERS}"), 1);
        let text = text.replace("{module}", &module.display().to_string());
        let text = text.replace("{prefix}", &prefix.path().display().to_string());
        let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
        let whole = format!("daemon off;\n{user}{}", text.replace("{port}", &port.to_string()));
        std::fs::write(prefix.path().join("nginx.conf"), whole).map_err(io("nginx.conf"))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]).arg(file_from("RATELIMITLY_NGINX")?);
        command.arg("-p").arg(prefix.path()).arg("-c").arg(prefix.path().join("nginx.conf"));
        command.arg("-e").arg(prefix.path().join("start.log"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(io("setpriv with nginx"))?;
        Ok(Nginx { child, prefix, port })
    }

    async fn serving(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || started.elapsed() > START {
                let said = std::fs::read_to_string(self.prefix.path().join("start.log")).unwrap_or_default();
                let log = std::fs::read_to_string(self.file("error.log")).unwrap_or_default();
                return Err(format!("{said}{log}"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await; // then tried again
        }
        Ok(())
    }

    /// Its port of 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A file in its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.prefix.path().join(name)
    }

    /// The text of a file in its folder.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, name: &str) -> Result<String, Error> {
        std::fs::read_to_string(self.file(name)).map_err(io(name))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM);
        }
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && started.elapsed() < STOP {
            std::thread::sleep(Duration::from_millis(10)); // then looked at again
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn file_from(variable: &'static str) -> Result<PathBuf, Error> {
    let value = std::env::var_os(variable).ok_or(Error::Environment(variable))?;
    let path = Path::new(&value);
    path.canonicalize().map_err(io(format!("{variable}={}", path.display())))
}

/// A free port below the range that the kernel takes for outgoing connections.
fn free_port() -> std::io::Result<u16> {
    let mut last = None;
    for _ in 0..100 {
        let port = fastrand::u16(10_240..30_000);
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))
}
