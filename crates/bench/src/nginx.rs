//! One nginx under measurement: its configuration, and perhaps valgrind or strace around it. Used by every measurement;
//! what is measured is theirs.

use crate::Error;
use crate::process::{WORKER_CPU, require};
use ratelimitly_harness::load::Client;
use ratelimitly_harness::{Builder, Nginx as Process};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Runtime;

/// What every client asks.
pub const REQUEST: &[u8] = b"GET /page HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: ratelimitly-bench\r\n\r\n";
/// Longest wait for a start or an end, under valgrind and on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(120);
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

/// A running nginx; it is ended when it is dropped.
pub struct Nginx {
    /// Where it accepts.
    pub address: SocketAddr,
    /// The process that serves.
    pub worker: u32,
    process: Process,
    runtime: Runtime,
}

impl Nginx {
    /// Starts one and waits until it accepts.
    pub fn start(parts: &Parts, mode: Mode) -> Result<Nginx, Error> {
        Nginx::start_slowed(parts, mode, 1)
    }

    /// The same with clocks that run so many times slower, for a process that a tool slows down as much.
    pub fn start_slowed(parts: &Parts, mode: Mode, times: u32) -> Result<Nginx, Error> {
        let mut builder =
            under_tool(Process::builder(&configuration(parts, mode)).bare().log_level("warn"), mode);
        if times > 1 {
            let library = slow_clocks();
            require(&library, "libfaketime")?;
            builder = builder.env("LD_PRELOAD", library);
            builder = builder.env("FAKETIME", format!("+0 x{}", 1.0 / f64::from(times)));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let process = runtime.block_on(builder.try_start())?;
        fs::write(process.prefix().join("html/page"), PAGE)?;
        let address = SocketAddr::from(([127, 0, 0, 1], process.port()));
        Ok(Nginx { address, worker: process.worker_pid(), process, runtime })
    }

    /// Opens connections that ask for the page.
    pub fn client(&self, connections: usize) -> Result<Client, Error> {
        Client::connect(self.address, connections, REQUEST)
    }

    /// Asks until the first good answer.
    pub fn warm_up(&self) -> Result<(), Error> {
        Client::warm_up(self.address, REQUEST)
    }

    /// The text of a file in its folder.
    pub fn read(&self, file: &str) -> Result<String, Error> {
        let path = self.process.prefix().join(file);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    /// Ends it and gives the text of a file in its folder, which the tool around it has written by then.
    pub fn end_and_read(mut self, file: &str) -> Result<String, Error> {
        self.runtime.block_on(self.process.terminate(PATIENCE));
        Ok(fs::read_to_string(self.process.prefix().join(file))?)
    }

    /// What it has logged, for a message about something that went wrong.
    pub fn complaints(&self) -> String {
        let read = |name| fs::read_to_string(self.process.prefix().join(name)).unwrap_or_default();
        format!("{}{}", read("error.log"), read("output.log"))
    }
}

fn under_tool(builder: Builder, mode: Mode) -> Builder {
    match mode {
        Mode::Worker | Mode::Upstream => builder,
        Mode::Callgrind => {
            let out = "--callgrind-out-file={prefix}/callgrind";
            // Only `gate` asks for a picture.
            let mark = "--dump-before=ngx_http_empty_gif_handler";
            builder.under(&["valgrind", "--tool=callgrind", out, mark], PATIENCE)
        }
        Mode::Strace => builder.under(&["strace", "-c", "-f", "-o", "{prefix}/strace"], PATIENCE),
    }
}

fn configuration(parts: &Parts, mode: Mode) -> String {
    let process = match mode {
        Mode::Upstream => String::new(),
        Mode::Worker => format!("worker_cpu_affinity {:b};", 1 << WORKER_CPU),
        Mode::Callgrind | Mode::Strace => "master_process off;".to_owned(),
    };
    let Parts { main, http, server, location } = parts;
    format!(
        "{process}\nworker_rlimit_nofile 30000;\n{main}\n\
         events {{ worker_connections 24000; }}\n\
         http {{\n\
         access_log off;\nsendfile on;\nkeepalive_timeout 600s;\nkeepalive_requests 1000000000;\n\
         {http}\n\
         server {{\nlisten 127.0.0.1:{{port}} backlog=16384;\n{server}\n\
         location / {{\nroot {{prefix}}/html;\n{location}\n}}\n}}\n}}\n"
    )
}
