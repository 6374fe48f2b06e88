//! The demo behind `ci/demo`: three servers of the development server, their DNS zone, an upstream and nginx with
//! nginx-conf/demo.conf, real requests, and a table of what came of them. Exits with 1 if a row is not what it should
//! be. With `--keep` everything runs on in a process of its own until that is told to stop.
#![forbid(unsafe_code)]

mod keep;
mod scenes;
mod table;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => outcome(scenes::play().await).await,
        ["--keep"] => keep::in_background(),
        [keep::FOREGROUND] => keep::until_stopped().await,
        _ => {
            eprintln!("ci/demo: unknown argument {arguments:?}: it must be --keep or nothing");
            ExitCode::from(2)
        }
    }
}

async fn outcome(played: scenes::Played) -> ExitCode {
    let right = played.all_right;
    played.nginx.finish().await;
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
