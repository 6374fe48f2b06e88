//! One nginx under measurement: its folder, its configuration, its process, perhaps under valgrind or strace. Used by
//! every measurement; what is measured is theirs.

use crate::Error;
use crate::process::{self, WORKER_CPU, await_some, child_of, require};
use rustix::process::Signal;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The file that every condition serves.
const PAGE: &str = "The same few bytes for every condition, whoever was asked before they were sent.\n";

/// The library that makes clocks and waits run slower, where Debian puts it.
fn slow_clocks() -> PathBuf {
    PathBuf::from(format!("/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", std::env::consts::ARCH))
}

/// How the process is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A master and one worker on its own processor, as in service.
    Worker,
    /// The same on the others' processors: not measured.
    Upstream,
    /// One process, under callgrind.
    Callgrind,
    /// One process, under strace.
    Strace,
}

/// What a condition adds to the configuration that all share.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Before everything: modules.
    pub main: String,
    /// In the http block.
    pub http: String,
    /// In the server block.
    pub server: String,
    /// In the location that is asked for.
    pub location: String,
}

/// The nginx that `ci/bench` names.
pub fn binary() -> Result<PathBuf, Error> {
    from_environment("RATELIMITLY_NGINX")
}

/// The module that `ci/bench` names.
pub fn module() -> Result<PathBuf, Error> {
    from_environment("RATELIMITLY_MODULE")
}

fn from_environment(name: &str) -> Result<PathBuf, Error> {
    let path = std::env::var_os(name).ok_or_else(|| format!("{name} is not set: use ci/bench"))?;
    Ok(PathBuf::from(path))
}

/// A port that was free a moment ago.
pub fn free_port() -> Result<u16, Error> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A running nginx; it is ended when it is dropped.
pub struct Nginx {
    /// Where it accepts.
    pub address: SocketAddr,
    /// The process that serves.
    pub worker: u32,
    child: Child,
    folder: TempDir,
    ended: bool,
}

impl Nginx {
    /// Starts one and waits until it accepts.
    pub fn start(parts: &Parts, mode: Mode) -> Result<Nginx, Error> {
        Nginx::start_slowed(parts, mode, 1)
    }

    /// The same with clocks that run so many times slower, for a process that a tool slows down as much.
    pub fn start_slowed(parts: &Parts, mode: Mode, times: u32) -> Result<Nginx, Error> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        lay_out(folder.path(), &configuration(folder.path(), port, parts, mode))?;
        let mut command = command(folder.path(), mode)?;
        if times > 1 {
            let library = slow_clocks();
            require(&library, "libfaketime")?;
            command.env("LD_PRELOAD", library).env("FAKETIME", format!("+0 x{}", 1.0 / f64::from(times)));
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(folder.path().join("stdout"))?)
            .stderr(File::create(folder.path().join("stderr"))?)
            .spawn()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut nginx = Nginx { address, worker: child.id(), child, folder, ended: false };
        nginx.await_ready(mode).map_err(|error| format!("{error}\n{}", nginx.complaints()))?;
        Ok(nginx)
    }

    fn await_ready(&mut self, mode: Mode) -> Result<(), Error> {
        await_some("nginx accepts", || {
            let over = self.child.try_wait().ok().flatten().is_some();
            (over || TcpStream::connect(self.address).is_ok()).then_some(())
        })?;
        if let Some(status) = self.child.try_wait()? {
            self.ended = true;
            return Err(format!("nginx ended at once: {status}").into());
        }
        if matches!(mode, Mode::Worker | Mode::Upstream) {
            let master = self.child.id();
            self.worker = await_some("a worker", || child_of(master))?;
        }
        Ok(())
    }

    /// Ends it; what a tool around it writes is complete then.
    pub fn end(mut self) -> Result<TempDir, Error> {
        self.ended = true;
        // One that strace started is strace's child: the tool passes nothing on.
        let traced = child_of(self.child.id()).filter(|_| self.folder.path().join("strace").exists());
        process::end_run_by(traced.unwrap_or(self.child.id()), &mut self.child, Signal::TERM)?;
        Ok(std::mem::replace(&mut self.folder, tempfile::tempdir()?))
    }

    /// What it has logged, for a message about something that went wrong.
    pub fn complaints(&self) -> String {
        let read = |name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        format!("{}{}", read("error.log"), read("stderr"))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if !self.ended {
            let _ = process::end(&mut self.child, Signal::TERM);
        }
    }
}

fn command(folder: &Path, mode: Mode) -> Result<Command, Error> {
    let binary = binary()?;
    let mut command = match mode {
        Mode::Worker | Mode::Upstream => Command::new(&binary),
        Mode::Callgrind => {
            let mut command = Command::new("valgrind");
            let out = folder.join("callgrind");
            command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display()));
            command.arg(&binary);
            command
        }
        Mode::Strace => {
            let mut command = Command::new("strace");
            command.args(["-c", "-f", "-o"]).arg(folder.join("strace")).arg(&binary);
            command
        }
    };
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    Ok(command)
}

fn lay_out(folder: &Path, configuration: &str) -> Result<(), Error> {
    fs::create_dir_all(folder.join("temp"))?;
    fs::create_dir_all(folder.join("html"))?;
    fs::write(folder.join("html/page"), PAGE)?;
    fs::write(folder.join("nginx.conf"), configuration)?;
    Ok(())
}

fn configuration(folder: &Path, port: u16, parts: &Parts, mode: Mode) -> String {
    let folder = folder.display();
    let process = match mode {
        Mode::Upstream => "worker_processes 1;".to_owned(),
        Mode::Worker => format!("worker_processes 1;\nworker_cpu_affinity {:b};", 1 << WORKER_CPU),
        Mode::Callgrind | Mode::Strace => "master_process off;".to_owned(),
    };
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let Parts { main, http, server, location } = parts;
    format!(
        "daemon off;\n{user}\n{process}\npid {folder}/nginx.pid;\nerror_log {folder}/error.log warn;\n\
         worker_rlimit_nofile 30000;\n{main}\n\
         events {{ worker_connections 24000; }}\n\
         http {{\n\
         client_body_temp_path {folder}/temp/body;\nproxy_temp_path {folder}/temp/proxy;\n\
         fastcgi_temp_path {folder}/temp/fastcgi;\nuwsgi_temp_path {folder}/temp/uwsgi;\n\
         scgi_temp_path {folder}/temp/scgi;\n\
         access_log off;\nsendfile on;\nkeepalive_timeout 600s;\nkeepalive_requests 1000000000;\n\
         {http}\n\
         server {{\nlisten 127.0.0.1:{port} backlog=16384;\n{server}\n\
         location / {{\nroot {folder}/html;\n{location}\n}}\n}}\n}}\n"
    )
}
