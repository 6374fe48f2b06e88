//! `ci/demo`'s program: what it says when asked, and that `--keep` leaves a development server that takes commands.

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

fn demo(argument: &str) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ratelimitly-demo")).arg(argument).output();
    let output = output.expect("the demo can be run");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What the demo printed after this word.
fn after(said: &str, word: &str) -> String {
    let line = Regex::new(&format!(r"(?m)^{word}: +(?:kill )?(\S+)$")).expect("a pattern");
    line.captures(said).unwrap_or_else(|| panic!("no line \"{word}:\" in {said}"))[1].to_owned()
}

async fn tell(control: &Path, command: &str) -> String {
    let mut stream = UnixStream::connect(control).await.expect("the control socket listens");
    stream.write_all(format!("{command}\n").as_bytes()).await.expect("it takes a command");
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).await.expect("it replies");
    reply
}

#[test]
fn the_demo_says_what_it_can_be_asked_for() {
    let (done, said) = demo("--help");
    assert!(done && said.contains("--keep"), "{said}");
    assert!(!demo("--nonsense").0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_that_is_kept_takes_commands_on_the_socket_that_it_names() {
    let (done, said) = tokio::task::spawn_blocking(|| demo("--keep")).await.expect("it does not panic");
    assert!(done, "{said}");
    let control = PathBuf::from(after(&said, "Control"));
    let stop = after(&said, "Stop").parse().ok().and_then(Pid::from_raw).expect("a process id");

    let reply = tell(&control, r#"{"command":"status"}"#).await;

    kill_process(stop, Signal::TERM).expect("the demo still runs");
    assert!(reply.contains(r#""admissions":{"allow":"#), "{reply}");
}
