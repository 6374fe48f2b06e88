//! What the figures were measured on. Goes into every file of results.

use ratelimitly_harness::environment;
use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;

/// A machine and its software.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The processor as it calls itself.
    pub processor: String,
    /// Its processors.
    pub processors: usize,
    /// Kernel release.
    pub kernel: String,
    /// nginx's version.
    pub nginx: String,
    /// Runnable processes in the last minute before the run, on average: above 1 the machine was not quiet.
    pub load_before: String,
}

impl Machine {
    /// This one, now.
    pub fn look() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let named = |wanted: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(wanted))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let (family, model) = (named("cpu family"), named("model\t"));
        Machine {
            processor: format!(
                "{} (family {}, model {})",
                named("model name").unwrap_or_default(),
                family.unwrap_or_default(),
                model.unwrap_or_default()
            ),
            processors: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().into(),
            nginx: nginx_version().unwrap_or_default(),
            load_before: fs::read_to_string("/proc/loadavg")
                .unwrap_or_default()
                .split(' ')
                .next()
                .unwrap_or("?")
                .into(),
        }
    }
}

/// The version that nginx writes to stderr: `nginx version: nginx/1.22.1`.
fn nginx_version() -> Option<String> {
    let output = Command::new(environment::nginx_binary()).arg("-v").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(text.trim().rsplit(": ").next()?.to_owned())
}
