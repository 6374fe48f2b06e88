//! A system that refuses `sendmmsg` or `recvmmsg`, as a seccomp filter of a container may: `strace` gives the worker such a
//! system. Skipped with its reason where processes cannot be traced.

use crate::pressure::{builder, skip};
use ratelimitly_devserver::Config;
use ratelimitly_harness::{Dev, Nginx, eventually, eventually_some, http};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A tracer that ends with the test.
struct Tracer(Child);

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tracer_of(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    line.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Lets the worker's calls of this name fail; `None`: the test is skipped.
async fn refuse(nginx: &Nginx, call: &str, fault: &str, test: &str) -> Option<Tracer> {
    let worker = nginx.worker_pid();
    let mut command = Command::new("strace");
    command.args(["-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={call}:{fault}"), "-p", &worker.to_string()]);
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut tracer = Tracer(child.expect("strace can be run"));
    let attached = eventually_some(PATIENCE, "strace attaches or gives up", async || {
        match tracer.0.try_wait().expect("a child") {
            Some(_) => Some(false),
            None => (tracer_of(worker) != 0).then_some(true),
        }
    });
    if attached.await {
        return Some(tracer);
    }
    skip(test, "strace cannot attach to the worker");
    None
}

async fn three_servers() -> (Dev, Nginx) {
    let dev = Dev::with(|config: Config| config.servers(3)).await;
    let nginx = builder(&dev, "close").log_level("info").warm().await;
    (dev, nginx)
}

async fn all_are_admitted(nginx: &Nginx, requests: usize) {
    for _ in 0..requests {
        assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_are_asked_where_sendmmsg_is_refused() {
    for errno in ["EPERM", "ENOSYS"] {
        let (dev, nginx) = three_servers().await;
        let Some(tracer) = refuse(&nginx, "sendmmsg", &format!("error={errno}"), "sendmmsg").await else {
            return nginx.finish().await;
        };
        let before = dev.requests().len();

        all_are_admitted(&nginx, 5).await;

        eventually(PATIENCE, "every server got every request", || dev.requests().len() >= before + 15).await;
        let line = r"\[warn\].*the system refuses sendmmsg: .*os error \d+.*; this worker uses sendto";
        nginx.await_log_line(line).await;
        assert_eq!(nginx.log_lines("the system refuses").len(), 1, "{errno}");
        drop(tracer);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_arrive_where_recvmmsg_is_refused() {
    for errno in ["EPERM", "ENOSYS"] {
        let (_dev, nginx) = three_servers().await;
        let Some(tracer) = refuse(&nginx, "recvmmsg", &format!("error={errno}"), "recvmmsg").await else {
            return nginx.finish().await;
        };

        all_are_admitted(&nginx, 5).await;

        let line = r"\[warn\].*the system refuses recvmmsg: .*os error \d+.*; this worker uses recvfrom";
        nginx.await_log_line(line).await;
        assert_eq!(nginx.log_lines("the system refuses").len(), 1, "{errno}");
        drop(tracer);
        nginx.finish().await;
    }
}
