//! What ships beside the source: the example configurations load, the documentation names every directive and the defaults
//! that a worker really has, and no example keys a bucket by what a client chooses. Conformance rows A24, M05, M06 and M11;
//! P01 and P02, the shared object itself, are in `shared_object.rs`.

mod arrows;
mod blocks;
mod client_network;
mod defaults;
mod demo;
mod directives;
mod examples;
mod foreign;

use ratelimitly_harness::environment::repository;
use std::path::{Path, PathBuf};

/// The text of a file of the repository.
fn text(path: impl AsRef<Path>) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Files of a folder of the repository whose names end so, in order; at least one.
fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join(folder)).expect("the folder exists").flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == end));
    files.sort();
    assert!(!files.is_empty(), "{folder} has no .{end} file");
    files
}

/// The Rust files below a folder of the repository, its own folders included; at least one.
fn files_below(folder: &str) -> Vec<PathBuf> {
    let mut folders = vec![repository().join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder exists").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    assert!(!files.is_empty(), "{folder} has no Rust file");
    files
}

/// The pages that describe the module.
fn pages() -> Vec<PathBuf> {
    let mut pages = files("docs", "md");
    pages.push(repository().join("README.md"));
    pages
}

/// The nginx examples of a page: what stands between ```nginx and ```.
fn nginx_blocks(page: &str) -> Vec<&str> {
    page.split("```nginx\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest)).collect()
}
