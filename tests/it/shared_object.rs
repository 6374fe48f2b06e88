//! The module's file as it ships (docs/conformance.md, P01 and P02): it can be copied anywhere, needs nothing private, and
//! brings no second runtime into a worker.

use ratelimitly_harness::environment::{module, repository};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Libraries that every Debian has; nginx itself needs libc.
const PUBLIC: [&str; 7] =
    ["libc.so.6", "libgcc_s.so.1", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux"];

#[test]
fn p01_a_relocated_module_has_no_search_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("elsewhere.so");
    std::fs::copy(module(), &copy).expect("the module can be copied");

    let dynamic = run("readelf", &["--dynamic".as_ref(), copy.as_os_str()]);

    assert!(dynamic.contains("(NEEDED)"), "no dynamic section: {dynamic}");
    assert!(!dynamic.contains("RPATH") && !dynamic.contains("RUNPATH"), "{dynamic}");
}

#[test]
fn p02_needs_no_private_library_and_finds_every_one() {
    let dynamic = run("readelf", &["--dynamic".as_ref(), module().as_os_str()]);
    let needed: Vec<&str> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
    let is_public = |line: &&str| PUBLIC.iter().any(|name| line.contains(name));

    assert!(!needed.is_empty() && needed.iter().all(is_public), "{needed:#?}");
    let found = run("ldd", &[module().as_os_str()]);
    assert!(!found.contains("not found"), "{found}");
}

#[test]
fn the_module_contains_no_tokio() {
    let tree = |invert: &str| {
        let arguments =
            ["tree", "--locked", "-p", "ngx_http_ratelimitly_module", "-e", "normal", "-i", invert];
        Command::new(env!("CARGO"))
            .args(arguments)
            .current_dir(repository())
            .output()
            .expect("cargo can be run")
    };

    let hickory = tree("hickory-resolver");
    assert!(hickory.status.success(), "{}", String::from_utf8_lossy(&hickory.stderr));
    let tokio = tree("tokio");
    let said = [tokio.stdout, tokio.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let absent =
        ["nothing to print", "did not match any packages"].iter().any(|answer| said.contains(answer));
    assert!(absent, "the module depends on tokio: {said}");
}

fn run(program: &str, arguments: &[&OsStr]) -> String {
    let output =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} on {}: {output:?}",
        Path::new(arguments[arguments.len() - 1]).display()
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
