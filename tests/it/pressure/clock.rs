//! The wall clock stepped by an hour under a worker, with libfaketime. Deadlines run on the monotonic clock; only the time
//! stamp on the wire follows.

use crate::FAILURES;
use crate::pressure::{CONFIGURATION, builder_with, clear, silence, skip, status};
use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::{Dev, Nginx, http};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HOUR_MS: u64 = 3_600_000;
/// Half a horizon of 1.8 s: less than this was no waiting for it.
const HALF_A_HORIZON: Duration = Duration::from_millis(900);
/// What libfaketime reads, kept by nginx for its workers.
const ENVIRONMENT: &str = "env LD_PRELOAD; env FAKETIME_TIMESTAMP_FILE; env FAKETIME_NO_CACHE; \
                           env FAKETIME_DONT_FAKE_MONOTONIC;";

/// An nginx whose wall clock is as far off as the file says.
struct Stepped {
    nginx: Nginx,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Stepped {
    /// `None`: there is no libfaketime on this machine.
    async fn start(dev: &Dev, fail: &str, unit: &str) -> Option<Stepped> {
        let library = library()?;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("offset");
        std::fs::write(&file, "+0").expect("a file");
        let builder =
            builder_with(&format!("{ENVIRONMENT} http {{{CONFIGURATION}}}"), dev, fail).set("unit", unit);
        let builder = builder.env("LD_PRELOAD", library);
        let builder = builder.env("FAKETIME_TIMESTAMP_FILE", &file).env("FAKETIME_NO_CACHE", "1");
        let nginx = builder.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").warm().await;
        Some(Stepped { nginx, file, _folder: folder })
    }

    /// Replaced as a whole: libfaketime may read it at any moment.
    fn step(&self, offset: &str) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, offset).expect("a file");
        std::fs::rename(&new, &self.file).expect("it can be renamed");
    }
}

fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    libraries.find(|path| Path::is_file(path))
}

/// How far the worker's wall clock, as the server's event tells it, is ahead of the server's.
fn ahead_ms(dev: &Dev) -> i64 {
    let event = dev.requests().pop().expect("a request");
    event.timestamp_ms.cast_signed() - event.time_ms.cast_signed()
}

fn is_about(value: i64, expected: i64) -> bool {
    (value - expected).abs() < 60_000
}

/// Forward under a request that is held back, and back under another.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_by_an_hour_ends_no_admission() {
    let dev = Dev::single().await;
    let Some(stepped) = Stepped::start(&dev, "close", "600ms").await else {
        return skip(
            "a_clock_that_steps_by_an_hour_ends_no_admission",
            "libfaketime is missing (package faketime)",
        );
    };
    assert_eq!(status(&stepped.nginx).await, 200);
    assert!(is_about(ahead_ms(&dev), 0), "{}", ahead_ms(&dev));

    for (offset, expected) in [("+3600", HOUR_MS.cast_signed()), ("-3600", -HOUR_MS.cast_signed())] {
        dev.clear_events();
        dev.fault(Fault::Hold).await;
        let port = stepped.nginx.port();
        let waiting = tokio::spawn(async move { http::get(port, "/").await.status });
        dev.await_requests("the request arrives", |seen| !seen.is_empty()).await;
        stepped.step(offset);
        // nginx takes the time of another event in before the answer comes.
        assert_eq!(http::get(port, "/health").await.status, 204);
        clear(&dev, vec![FaultKind::Hold]).await;

        assert_eq!(waiting.await.expect("the client ends"), 200, "clock at {offset} s");
        assert_eq!(status(&stepped.nginx).await, 200);
        assert!(is_about(ahead_ms(&dev), expected), "the clock did not step: {}", ahead_ms(&dev));
    }
    assert!(stepped.nginx.log_lines("admission failure=").is_empty());
    stepped.nginx.finish().await;
}

/// A silent server is waited for as long as ever, whatever the wall clock does meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_by_an_hour_changes_no_deadline() {
    for (fail, expected) in FAILURES {
        tokio::join!(waits_as_ever(fail, expected, "+3600"), waits_as_ever(fail, expected, "-3600"));
    }
}

async fn waits_as_ever(fail: &str, expected: u16, offset: &str) {
    let dev = Dev::single().await;
    let Some(stepped) = Stepped::start(&dev, fail, "600ms").await else {
        return skip("a_clock_that_steps_by_an_hour_changes_no_deadline", "libfaketime is missing");
    };
    silence(&dev).await;
    let step_meanwhile = async || {
        stepped.step("+0");
        let (port, asked) = (stepped.nginx.port(), Instant::now());
        let waiting = tokio::spawn(async move { http::get(port, "/").await.status });
        dev.await_requests("the request arrives", |seen| !seen.is_empty()).await;
        stepped.step(offset);
        assert_eq!(http::get(port, "/health").await.status, 204);

        assert_eq!(waiting.await.expect("the client ends"), expected);
        let took = asked.elapsed();
        assert!(took > HALF_A_HORIZON && took < Duration::from_secs(20), "{offset}: it took {took:?}");
    };
    let ((), sent) = dev.replayed(step_meanwhile).await;
    assert_eq!(sent.len(), 2, "one send and one replay: {sent:#?}");
    stepped.nginx.finish().await;
}
