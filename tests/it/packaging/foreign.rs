//! `ci/build-module` for an nginx that is not ours: what is missing is said in one sentence, before cargo runs. And the Debian
//! packages have the version of the project.

use crate::packaging::text;
use ratelimitly_harness::environment::repository;
use std::path::Path;
use std::process::Command;

/// What the script says when it refuses: one line.
fn refused(arguments: &[&str]) -> String {
    let output = Command::new(repository().join("ci/build-module")).args(arguments).output();
    let output = output.expect("the script can be run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// Writes a file with the folders above it.
fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
    std::fs::write(path, text).expect("the file can be written");
}

fn with_version(version: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "src/core/nginx.h", &format!("#define NGINX_VERSION      \"{version}\"\n"));
    folder
}

fn at(folder: &tempfile::TempDir) -> &str {
    folder.path().to_str().expect("a path in UTF-8")
}

#[test]
fn a_folder_that_is_no_source_of_nginx_is_named() {
    let empty = tempfile::tempdir().expect("a folder");
    let said = refused(&["--source", at(&empty), "--build", at(&empty)]);
    assert!(said.contains("is no source of nginx") && said.contains("unpack the source"), "{said}");
}

#[test]
fn a_source_that_is_not_configured_is_named_with_what_configures_it() {
    let source = with_version("1.28.3");
    let said = refused(&["--source", at(&source), "--build", at(&source)]);
    assert!(
        said.contains("holds no configured nginx") && said.contains("the options that 'nginx -V' prints"),
        "{said}"
    );
}

#[test]
fn an_nginx_that_is_too_old_is_told_which_one_is_needed() {
    let source = with_version("1.20.2");
    write(source.path(), "objs/Makefile", "");
    write(source.path(), "objs/ngx_auto_config.h", "");
    let build = format!("{}/objs", at(&source));
    let said = refused(&["--source", at(&source), "--build", &build]);
    assert!(said.contains("nginx 1.20.2 is too old: the module needs 1.22.0 or newer"), "{said}");
}

#[test]
fn an_nginx_without_http_is_refused() {
    let source = with_version("1.28.3");
    write(source.path(), "objs/Makefile", "");
    write(source.path(), "objs/ngx_auto_config.h", "#define NGX_CONFIGURE \" --without-http\"\n");
    let build = format!("{}/objs", at(&source));
    let said = refused(&["--source", at(&source), "--build", &build]);
    assert!(said.contains("--without-http"), "{said}");
}

#[test]
fn the_debian_packages_have_the_version_of_the_project() {
    let changelog = text("ci/debian/changelog");
    let version = env!("CARGO_PKG_VERSION");
    assert!(changelog.starts_with(&format!("ratelimitly-nginx ({version}-")), "{changelog}");
}
