//! `ci/demo --keep`: the demo plays in a second process, which stays; the first one shows its output up to the table's
//! end and returns to the shell. Called by `main`.

use crate::scenes;
use ratelimitly_harness::environment;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use tokio::signal::unix::{SignalKind, signal};

/// The argument of the process that stays.
const FOREGROUND: &str = "--foreground";
/// Ends the output that the first process shows.
const END: &str = "-- running --";

/// Starts the process that stays and shows its output until it has said everything.
#[expect(clippy::zombie_processes, reason = "it stays on purpose, and this process ends right after")]
pub fn in_background() -> ExitCode {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    // A group of its own: an interrupt at the terminal is for the first process.
    command.arg(FOREGROUND).process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    // Its messages go to a file: whoever reads this program's output must see the end of it when this process ends.
    let log = environment::repository().join("target/log/demo-keep.log");
    let messages = File::create(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    let mut child = command.stderr(messages).spawn().expect("this program can be started again");
    let output = child.stdout.take().expect("it is piped");
    for line in BufReader::new(output).lines() {
        let line = line.expect("the output is text");
        if line == END {
            return ExitCode::SUCCESS;
        }
        println!("{line}");
    }
    let _ = child.wait();
    eprint!("{}", std::fs::read_to_string(&log).unwrap_or_default());
    ExitCode::FAILURE
}

/// Plays, tells how to go on by hand and how to stop, and runs until SIGTERM or SIGINT.
pub async fn until_stopped() -> ExitCode {
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be awaited");
    let mut interrupt = signal(SignalKind::interrupt()).expect("signals can be awaited");
    let played = scenes::play().await;
    if !played.all_right {
        played.nginx.finish().await;
        return ExitCode::FAILURE;
    }
    scenes::servers_back(&played).await;
    let control = scenes::open_control(&played);
    let port = played.nginx.port();
    println!("Running on, with fail close and all three servers up again:");
    for path in ["/checkout", "/search", "/browse"] {
        println!("  http://127.0.0.1:{port}{path}");
    }
    println!("Try:          curl -i http://127.0.0.1:{port}/browse");
    println!("Control:      {}", control.display());
    println!("Break it:     {}", command(&control, r#"{"command":"fault","fault":"silent"}"#));
    println!("Mend it:      {}", command(&control, r#"{"command":"clear"}"#));
    println!("Count:        {}", command(&control, r#"{"command":"status"}"#));
    println!("Error log:    {}", played.nginx.prefix().join("error.log").display());
    println!("Access log:   {}", played.nginx.prefix().join("demo.log").display());
    println!("Stop:         kill {}", std::process::id());
    println!("{END}");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    played.nginx.finish().await;
    ExitCode::SUCCESS
}

/// The line that sends a command to the development server.
fn command(control: &Path, json: &str) -> String {
    format!("echo '{json}' | socat - UNIX-CONNECT:{}", control.display())
}
