//! What the packages carry beside their programs: checksums, licences, the bill of materials, debug symbols. Called by the steps
//! when the packages are installed; changes nothing that it does not take back.

use crate::chroot::{Chroot, DEVSERVER, MODULE};
use serde_json::Value;

/// Looks at all of it. `file` is the module's.
///
/// # Panics
/// Something is missing or does not fit.
pub fn all(chroot: &Chroot, file: &str) {
    checksums(chroot);
    for package in [MODULE, DEVSERVER] {
        notices(chroot, package);
    }
    symbols(chroot, file);
}

/// docs/install.md: "Check that the files are the ones that were made".
fn checksums(chroot: &Chroot) {
    let folder = chroot.packages();
    let said = chroot.run(&["sh", "-c", &format!("cd {folder} && sha256sum --check --strict SHA256SUMS")]);
    let fit = said.lines().filter(|line| line.ends_with(".deb: OK")).count();
    assert_eq!(fit, 4, "two packages, each with its debug symbols: {said}");
}

/// Each crate of the bill of materials has a licence there, and a paragraph in the file `copyright`.
fn notices(chroot: &Chroot, package: &str) {
    let folder = format!("/usr/share/doc/{package}");
    let bill = chroot.run(&["zcat", &format!("{folder}/{package}.cdx.json.gz")]);
    let bill: Value = serde_json::from_str(&bill).unwrap_or_else(|error| panic!("{package}: {error}"));
    assert_eq!(bill["bomFormat"], "CycloneDX");
    let copyright = chroot.read(&format!("{folder}/copyright"));
    let crates = bill["components"].as_array().expect("a list of components");
    let foreign: Vec<_> = crates.iter().filter(|one| one["hashes"].is_array()).collect();
    assert!(foreign.iter().any(|one| one["name"] == "ring"), "{package} links ring: {foreign:?}");
    for one in foreign {
        let licence = one["licenses"][0]["expression"].as_str().unwrap_or_default();
        let (name, version) =
            (one["name"].as_str().unwrap_or_default(), one["version"].as_str().unwrap_or_default());
        assert!(!licence.is_empty(), "no licence: {one}");
        let paragraph = format!("Files: registry/{name}-{version}/*\n");
        assert!(copyright.contains(&paragraph), "{package}: no {paragraph}");
    }
}

/// The debug symbols are found by the build id that the module's file carries.
fn symbols(chroot: &Chroot, file: &str) {
    let package = format!("{MODULE}-dbgsym");
    chroot.install(&[&chroot.file(&package)]);
    let id = chroot.field(&package, "Build-Ids");
    let bytes: Vec<u8> = (0..id.len() / 2)
        .map(|place| u8::from_str_radix(&id[2 * place..2 * place + 2], 16).expect("hexadecimal digits"))
        .collect();
    let module = std::fs::read(chroot.path(file)).expect("the module can be read");
    assert!(
        bytes.len() == 20 && module.windows(20).any(|part| part == bytes),
        "{file} has not the build id {id}"
    );
    let (folder, name) = id.split_at(2);
    let debug = chroot.path(&format!("/usr/lib/debug/.build-id/{folder}/{name}.debug"));
    assert!(debug.is_file(), "{} is missing", debug.display());
    chroot.run(&["apt-get", "purge", "-y", &package]);
}
