//! What `ci/package --check` runs: the packages in a fresh chroot, as an operator uses them. Each step builds on the one
//! before it. Started in network, process and mount namespaces of its own, so that nginx has port 80 for itself and no
//! process stays. Ends with the number of steps that passed, and with 1 if one failed.
#![forbid(unsafe_code)]

mod chroot;
mod contents;
mod site;
mod steps;
mod watch;

use chroot::Chroot;
use clap::Parser;
use std::path::PathBuf;

/// Takes the packages through an operator's life in a fresh chroot.
#[derive(Debug, Parser)]
#[command(name = "ratelimitly-package")]
struct Arguments {
    /// A chroot that has apt and the package files that nginx needs, and no nginx
    #[arg(long)]
    chroot: PathBuf,
    /// The folder of the packages, as the chroot sees it
    #[arg(long)]
    packages: PathBuf,
}

#[tokio::main]
async fn main() {
    let Arguments { chroot, packages } = Arguments::parse();
    let chroot = Chroot::new(chroot, packages);
    let passed = steps::all(&chroot).await;
    println!("{passed} passed, 0 failed");
}
