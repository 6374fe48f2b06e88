//! Runs a test once more inside namespaces of its own, where it may disable IPv6, slow its loopback down, and put another
//! file in the place of one of the system's. Used by the tests of `network.rs` and of `configuration/system.rs`.

use crate::pressure::skip;
use std::process::Command;

/// Set inside the namespace.
const INSIDE: &str = "RATELIMITLY_TEST_NAMESPACE";

/// Whether this is the run inside the namespace. Outside, the test of this name (its path as the runner prints it) is run
/// there after the shell commands, and `false` is returned once it has passed, or was skipped with its reason.
///
/// # Panics
/// It failed there.
pub fn entered(test: &str, set_up: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let script = format!("ip link set lo up && {set_up}");
    if let Err(reason) = run(unshare().args(["sh", "-c", &script])) {
        skip(test, &format!("no namespace with `{script}`: {reason}"));
        return false;
    }
    let binary = std::env::current_exe().expect("this test's own binary");
    let inside = format!("{script} && exec \"$0\" --exact {test} --nocapture");
    let mut command = unshare();
    command.args(["sh", "-c", &inside]).arg(binary).env(INSIDE, "1");
    run(&mut command).unwrap_or_else(|said| panic!("inside the namespace: {said}"));
    false
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]);
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.arg("--");
    command
}

/// Runs it; what it said where it fails.
pub fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Err(format!("{}: {out}{err}", output.status).trim_end().to_owned())
}
