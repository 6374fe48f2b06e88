//! The binary `ratelimitly-devserver`: sets up logging to stderr and hands over to the command line.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match ratelimitly_devserver::cli::run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ratelimitly-devserver: {error}");
            ExitCode::FAILURE
        }
    }
}
