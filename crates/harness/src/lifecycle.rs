//! The checks at the end of every test (docs/conformance.md, L01 to L07): the worker is still the same and still admits,
//! holds nothing that it should have given back, a reload and a quit work, and the error log tells of no broken
//! invariant. Called through `Nginx::finish`; it resets the development server first.

use crate::http::{self, Response};
use crate::log;
use crate::nginx::Nginx;
use crate::process;
use crate::wait::{eventually, holds_within};
use std::time::Duration;

/// Tries of the follow-up admission: a worker whose discovery failed last may need some seconds until the next one.
const ALIVE_TRIES: usize = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// How long sockets of discovery and connections of clients may take to close.
const CLOSING: Duration = Duration::from_secs(5);

impl Nginx {
    /// Ends the test: runs the lifecycle checks and shuts nginx down.
    ///
    /// # Panics
    /// A check fails.
    pub async fn finish(mut self) {
        self.must_finish = false;
        if self.exited.is_none() {
            self.same_workers();
            self.reset_dev().await;
            self.admits().await;
            self.nothing_held().await;
            self.survives_reload().await;
            let status = self.quit().await;
            assert!(status.success(), "nginx quits with {status}");
        }
        self.clean_log();
    }

    /// Asks for admissions of the harness's own until the worker allows one. Tests use it to warm a worker up.
    ///
    /// # Panics
    /// None is allowed within the tries.
    pub async fn admits(&self) {
        if !self.setup.frame.alive {
            return;
        }
        let mut last = None;
        for _ in 0..ALIVE_TRIES {
            let response = http::try_get(self.named_port("port_alive"), "/__alive").await;
            if response.as_ref().is_ok_and(allowed) {
                return;
            }
            last = Some(response);
            tokio::time::sleep(BETWEEN_TRIES).await; // then retry
        }
        panic!("no admission in {ALIVE_TRIES} tries; the last gave {last:?}");
    }

    fn same_workers(&self) {
        assert_eq!(
            self.worker_pids(),
            self.workers,
            "the worker was replaced though the test announced no such thing"
        );
    }

    async fn reset_dev(&self) {
        if let Some(dev) = &self.setup.dev {
            dev.reset().await.expect("the development server can be reset");
        }
    }

    /// Beyond what it held before its first request, a worker keeps its UDP socket and nothing else.
    async fn nothing_held(&self) {
        for (worker, before) in self.workers.iter().zip(&self.baseline) {
            // Workers get the channels of their siblings some time after they have started: other workers, and the manager
            // and the loader of a cache.
            let siblings = self.workers.len() - 1 + self.cache_processes();
            let most = before + 1 + self.extra_files + siblings;
            let files = || process::open_files(*worker).unwrap_or_default();
            let given_back = holds_within(CLOSING, || files().len() <= most).await;
            assert!(given_back, "worker {worker} holds more than {most} files: {:#?}", files());
            let sockets = || self.udp_sockets_of(*worker);
            let given_back = holds_within(CLOSING, || sockets().len() <= 1).await;
            assert!(given_back, "worker {worker} holds more than one UDP socket: {:?}", sockets());
        }
    }

    fn cache_processes(&self) -> usize {
        let written = std::fs::read_to_string(self.setup.file("nginx.conf")).unwrap_or_default();
        if written.contains("_cache_path ") { 2 } else { 0 }
    }

    async fn survives_reload(&mut self) {
        self.reload().await;
        self.admits().await;
        if self.setup.frame.alive {
            let owns_one = || self.workers.iter().any(|worker| self.udp_sockets_of(*worker).len() == 1);
            eventually(CLOSING, "the new worker owns one UDP socket", owns_one).await;
        }
    }

    fn clean_log(&self) {
        let lines = self.error_log();
        for expected in &self.expected_log {
            let found = lines.iter().any(|line| expected.is_match(line));
            assert!(found, "the error log lacks the announced line {expected}");
        }
        let announced = [self.expected_log.as_slice(), &self.allowed_log].concat();
        let bad = log::forbidden(&lines, &announced);
        assert!(bad.is_empty(), "the error log holds what no test may cause: {bad:#?}");
    }
}

fn allowed(response: &Response) -> bool {
    response.status == 200 && response.header("x-verdict") == Some("allow")
}
