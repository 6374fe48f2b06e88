//! A running nginx: its ports, its logs, its processes, and the signals it gets. Made by the builder; the checks at
//! its end are in `lifecycle.rs`. It is killed and reaped when it is dropped.

use crate::builder::{Builder, tail};
use crate::check::{self, Checked};
use crate::dev::Dev;
use crate::log;
use crate::process;
use crate::template::{Frame, Values};
use crate::wait::{blocking, eventually, eventually_some};
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::Duration;
use tempfile::TempDir;

/// Longest wait for a line in a log, and for what a worker does within a moment.
pub(crate) const LOG_PATIENCE: Duration = Duration::from_secs(20);
/// Longest time in which an old worker may finish after a reload.
pub(crate) const OLD_WORKER: Duration = Duration::from_secs(5);
/// Longest graceful shutdown.
const QUIT: Duration = Duration::from_secs(3);
/// Longest wait for a new worker.
const NEW_WORKER: Duration = Duration::from_secs(20);
/// The line of a reload that begins; the one of the signal only ends so.
const RELOADS: &str = r"\d: reconfiguring$";
/// Looks at what a signal was to bring before nginx without a master is woken.
const LOOKS_BEFORE_NUDGE: u32 = 50;

/// What an nginx was started with.
pub(crate) struct Setup {
    pub(crate) child: Child,
    pub(crate) prefix: TempDir,
    pub(crate) text: String,
    pub(crate) values: Values,
    pub(crate) dev: Option<Dev>,
    pub(crate) frame: Frame,
    pub(crate) checked: Checked,
}

impl Setup {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.prefix.path().join(name)
    }

    /// Whether master and worker are one process.
    pub(crate) fn single(&self) -> bool {
        self.text.contains("master_process off;")
    }

    pub(crate) fn worker_count(&self) -> usize {
        let after = self.text.split_once("worker_processes ").map(|(_, rest)| rest);
        after.and_then(|rest| rest.split(';').next()?.trim().parse().ok()).unwrap_or(1)
    }

    /// Whether a connection succeeds; true where there is no port to try.
    pub(crate) async fn connects(&self) -> bool {
        let Some(name) = ["port_alive", "port"].into_iter().find(|name| self.values.has(name)) else {
            return true;
        };
        tokio::net::TcpStream::connect(("127.0.0.1", self.values.port(name))).await.is_ok()
    }
}

/// A running nginx. A test ends with `finish`, else its drop fails the test.
pub struct Nginx {
    /// The process that signals go to.
    master: u32,
    pub(crate) setup: Setup,
    /// The workers that are expected to be at work.
    pub(crate) workers: Vec<u32>,
    /// Open files of each of them before the first request.
    pub(crate) baseline: Vec<usize>,
    pub(crate) expected_log: Vec<Regex>,
    pub(crate) allowed_log: Vec<Regex>,
    pub(crate) extra_files: usize,
    pub(crate) exited: Option<ExitStatus>,
    /// Whether a test has to await `finish`.
    pub(crate) must_finish: bool,
}

impl Nginx {
    /// An nginx with this configuration; see `template.rs` for placeholders and what the harness adds.
    pub fn builder(text: &str) -> Builder {
        Builder::new(text)
    }

    pub(crate) fn new(setup: Setup) -> Nginx {
        let child = setup.child.id();
        // A tracer runs nginx as its child; without one a single process has no children.
        let traced = if setup.single() { process::children(child).first().copied() } else { None };
        let mut nginx = Nginx {
            master: traced.unwrap_or(child),
            setup,
            workers: Vec::new(),
            baseline: Vec::new(),
            expected_log: Vec::new(),
            allowed_log: Vec::new(),
            extra_files: 0,
            exited: None,
            must_finish: false,
        };
        nginx.take_stock();
        nginx
    }

    /// Remembers the workers of now and their open files.
    pub(crate) fn take_stock(&mut self) {
        self.workers = self.worker_pids();
        self.baseline = self.workers.iter().map(|pid| open_files(*pid)).collect();
    }

    /// The port behind `{port}`.
    pub fn port(&self) -> u16 {
        self.named_port("port")
    }

    /// The port behind another placeholder, such as `port_tls`.
    ///
    /// # Panics
    /// The configuration has no such placeholder.
    pub fn named_port(&self, name: &str) -> u16 {
        self.setup.values.port(name)
    }

    /// The folder that this nginx lives in.
    pub fn prefix(&self) -> &Path {
        self.setup.prefix.path()
    }

    /// What `nginx -t` said before the start: warnings.
    pub fn check_output(&self) -> &str {
        &self.setup.checked.message
    }

    /// The master's process id.
    pub fn master_pid(&self) -> u32 {
        self.master
    }

    /// The process ids of the workers at work, ascending.
    pub fn worker_pids(&self) -> Vec<u32> {
        if self.setup.single() { vec![self.master_pid()] } else { process::workers(self.master_pid()) }
    }

    /// Every process that serves requests, those that only finish what they have included.
    fn processes_at_work(&self) -> Vec<u32> {
        if self.setup.single() { vec![self.master_pid()] } else { process::children(self.master_pid()) }
    }

    /// The process id of the only worker.
    ///
    /// # Panics
    /// There is none or more than one.
    pub fn worker_pid(&self) -> u32 {
        let workers = self.worker_pids();
        assert_eq!(workers.len(), 1, "one worker is expected, there are {workers:?}");
        workers[0]
    }

    /// The error log's lines.
    pub fn error_log(&self) -> Vec<String> {
        log::lines(&self.setup.file("error.log"))
    }

    /// The access log's lines, `<status> <verdict> "<request>"` each.
    pub fn access_log(&self) -> Vec<String> {
        log::lines(&self.setup.file("access.log"))
    }

    /// The error log's lines that match.
    pub fn log_lines(&self, pattern: &str) -> Vec<String> {
        let pattern = log::pattern(pattern);
        self.error_log().into_iter().filter(|line| pattern.is_match(line)).collect()
    }

    /// Waits for the first line in the error log that matches.
    ///
    /// # Panics
    /// There is none in time.
    pub async fn await_log_line(&self, pattern: &str) -> String {
        self.await_log_lines(pattern, 1).await.swap_remove(0)
    }

    /// Waits until at least so many lines of the error log match.
    ///
    /// # Panics
    /// There are fewer in time.
    pub async fn await_log_lines(&self, pattern: &str, count: usize) -> Vec<String> {
        let what = format!("{count} lines of the error log that match {pattern}");
        eventually_some(LOG_PATIENCE, what, async || {
            Some(self.log_lines(pattern)).filter(|found| found.len() >= count)
        })
        .await
    }

    /// Waits until the access log has at least so many lines and what follows them in the log phase is done too, such as
    /// a report; gives all lines of then. nginx writes a line once a response has been sent, so that a client can be
    /// faster than the log.
    ///
    /// # Panics
    /// There are fewer in time.
    pub async fn await_access_log(&self, count: usize) -> Vec<String> {
        let what = format!("{count} lines of the access log");
        eventually(LOG_PATIENCE, what, || self.access_log().len() >= count).await;
        let mut busy = self.processes_at_work();
        eventually(LOG_PATIENCE, "the workers have nothing left to do", || {
            busy.retain(|pid| process::is_running(*pid) && !process::is_waiting(*pid));
            busy.is_empty()
        })
        .await;
        self.access_log()
    }

    /// Announces that the error log will hold a line that matches, which may be one that otherwise fails the test.
    pub fn expect_log(&mut self, pattern: &str) {
        self.expected_log.push(log::pattern(pattern));
    }

    /// Announces lines that may be there and otherwise fail the test.
    pub fn allow_log(&mut self, pattern: &str) {
        self.allowed_log.push(log::pattern(pattern));
    }

    /// Announces that the worker still holds so many files more when the test ends, such as idle upstream connections.
    pub fn allow_open_files(&mut self, count: usize) {
        self.extra_files = count;
    }

    /// Announces that a worker was replaced on purpose; the workers of now are the expected ones from here on.
    pub fn expect_new_workers(&mut self) {
        self.take_stock();
    }

    /// Sends a signal to a process of this nginx.
    ///
    /// # Panics
    /// The process is gone.
    pub fn signal(&self, pid: u32, signal: Signal) {
        send(pid, signal).unwrap_or_else(|error| panic!("signal {signal:?} to {pid}: {error}"));
    }

    /// Kills the worker (SIGKILL) and waits for the one that takes its place.
    ///
    /// # Panics
    /// The master starts no other one.
    pub async fn replace_worker(&mut self) {
        let killed = self.worker_pid();
        self.expect_log(r"\[alert\].*exited on signal 9");
        self.signal(killed, Signal::KILL);
        let is_replaced = || matches!(self.worker_pids()[..], [worker] if worker != killed);
        eventually(NEW_WORKER, "the master starts another worker", is_replaced).await;
        self.expect_new_workers();
    }

    /// Gives a placeholder another text, effective with the next reload.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.setup.values.set(name, value);
        self.rewrite();
    }

    /// Gives nginx another configuration, effective with the next reload. Port placeholders keep their ports.
    ///
    /// # Panics
    /// nginx refuses it.
    pub fn configure(&mut self, text: &str) {
        self.setup.text = text.to_owned();
        self.rewrite();
    }

    fn rewrite(&mut self) {
        let setup = &self.setup;
        check::write(setup.prefix.path(), &setup.values, &setup.text, setup.frame);
        check::test(setup.prefix.path()).accepted();
    }

    /// Reloads: new workers are at work and the old ones gone, within 5 s.
    ///
    /// # Panics
    /// They are not.
    pub async fn reload(&mut self) {
        let old = self.start_reload().await;
        self.await_gone(&old).await;
    }

    /// Reloads and waits for the new workers only; gives the old ones, which may still have requests to finish.
    ///
    /// # Panics
    /// No new worker appears.
    pub async fn start_reload(&mut self) -> Vec<u32> {
        let old = if self.setup.single() { Vec::new() } else { self.worker_pids() };
        let before = self.log_lines(RELOADS).len();
        self.signal(self.master_pid(), Signal::HUP);
        let wanted = self.setup.worker_count();
        let mut nudge = self.nudge();
        eventually(NEW_WORKER, "the reload brings new workers", || {
            nudge();
            let new = self.worker_pids().into_iter().filter(|pid| !old.contains(pid)).count();
            new == wanted && self.log_lines(RELOADS).len() > before
        })
        .await;
        self.workers = self.worker_pids();
        self.workers.retain(|pid| !old.contains(pid));
        self.baseline = self.workers.iter().map(|pid| open_files(*pid)).collect();
        old
    }

    /// Waits until these processes are gone, at most 5 s.
    ///
    /// # Panics
    /// They are not.
    pub async fn await_gone(&self, pids: &[u32]) {
        let gone = || pids.iter().all(|pid| !process::is_running(*pid));
        eventually(OLD_WORKER, format!("the processes {pids:?} end"), gone).await;
    }

    /// Ends nginx at once (SIGTERM) and gives its exit status; `finish` then looks at the log only. For runs under tools
    /// that have much to do at an exit.
    ///
    /// # Panics
    /// It does not end in time.
    pub async fn terminate(&mut self, patience: Duration) -> ExitStatus {
        self.end(Signal::TERM, patience).await
    }

    /// Shuts nginx down gracefully and gives its exit status; at most 3 s.
    ///
    /// # Panics
    /// It does not end.
    pub async fn quit(&mut self) -> ExitStatus {
        self.end(Signal::QUIT, QUIT).await
    }

    async fn end(&mut self, how: Signal, patience: Duration) -> ExitStatus {
        self.signal(self.master_pid(), how);
        let mut nudge = self.nudge();
        let child = &mut self.setup.child;
        let look = async || {
            nudge();
            child.try_wait().expect("nginx is our child")
        };
        let status = eventually_some(patience, format!("nginx ends after {how:?}"), look).await;
        self.exited = Some(status);
        status
    }

    /// To be called at each look at what a signal was to bring. Without a master nginx masks no signal: it notes one that
    /// comes just before it waits for events, and acts on it after the next event only. Now and then this gives it one:
    /// a signal that it takes no notice of, where the first one again could mean a second reload.
    fn nudge(&self) -> impl FnMut() + use<> {
        let (master, single) = (self.master_pid(), self.setup.single());
        let mut looks = 0;
        move || {
            looks += 1;
            if single && looks % LOOKS_BEFORE_NUDGE == 0 {
                let _ = send(master, Signal::ALARM);
            }
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if self.exited.is_none() {
            let workers = if self.setup.single() { Vec::new() } else { process::children(self.master_pid()) };
            let _ = send(self.master_pid(), Signal::TERM);
            let mut nudge = self.nudge();
            let child = &mut self.setup.child;
            let ended = || {
                nudge();
                child.try_wait().is_ok_and(|status| status.is_some())
            };
            if !blocking(QUIT, ended) {
                let _ = child.kill();
                let _ = child.wait();
                for worker in workers {
                    let _ = send(worker, Signal::KILL);
                }
            }
        }
        if std::thread::panicking() {
            eprintln!("-- nginx's error log without debug output:\n{}", tail(&self.error_log()));
            if std::env::var_os("RATELIMITLY_KEEP").is_some() {
                self.setup.prefix.disable_cleanup(true);
                eprintln!("-- kept: {}", self.prefix().display());
            }
        } else {
            assert!(!self.must_finish, "the test did not await Nginx::finish");
        }
    }
}

fn send(pid: u32, signal: Signal) -> rustix::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.ok_or(rustix::io::Errno::SRCH)?, signal)
}

pub(crate) fn open_files(pid: u32) -> usize {
    process::open_files(pid).map_or(0, |files| files.len())
}
