//! `ci/build-module` for an nginx that is not ours, and cargo without it: what is missing is said in one sentence, and no build
//! script panics. And the Debian packages have the version of the project.

use crate::packaging::text;
use ratelimitly_harness::environment::{nginx_headers, repository};
use std::path::Path;
use std::process::Command;

/// What the script says when it refuses: one line.
fn refused(arguments: &[&str]) -> String {
    said_once(Command::new(repository().join("ci/build-module")).args(arguments))
}

fn said_once(script: &mut Command) -> String {
    let output = script.output().expect("the script can be run");
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

/// A compiler and a cargo that are not there: the script's path has what it calls itself, and its home no rustup.
#[test]
fn a_compiler_and_a_cargo_that_are_missing_are_named() {
    let (source, build) = nginx_headers();
    let home = tempfile::tempdir().expect("a folder");
    let mut script = Command::new(repository().join("ci/build-module"));
    script.arg("--source").arg(source).arg("--build").arg(build).env("CC", "no-such-compiler");
    let said = said_once(&mut script);
    assert!(said.contains("no C compiler 'no-such-compiler': install gcc"), "{said}");

    for program in ["bash", "dirname", "basename", "sed", "sort", "head", "grep", "cat"] {
        let found = answer(Command::new("sh").args(["-c", &format!("command -v {program}")]));
        std::os::unix::fs::symlink(found.trim(), home.path().join(program)).expect("a link");
    }
    script
        .env("CC", "/usr/bin/cc")
        .env("PATH", home.path())
        .env("HOME", home.path())
        .env_remove("CARGO_HOME");
    let said = said_once(&mut script);
    assert!(said.contains("there is no cargo: install Rust"), "{said}");
}

#[test]
fn a_libclang_that_is_not_where_the_variable_says_is_told_of() {
    let (source, build) = nginx_headers();
    let empty = tempfile::tempdir().expect("a folder");
    let mut script = Command::new(repository().join("ci/build-module"));
    script.arg("--source").arg(source).arg("--build").arg(build).env("LIBCLANG_PATH", empty.path());
    let said = said_once(&mut script);
    assert!(
        said.contains("libclang") && said.contains("LIBCLANG_PATH=") && said.contains("unset it"),
        "{said}"
    );
}

/// Runs a program in the repository; gives its stdout.
fn answer(command: &mut Command) -> String {
    let output = command.current_dir(repository()).output().expect("the program can be run");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn cargo_by_itself_runs_no_build_script_that_looks_for_an_nginx() {
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.args(["tree", "--locked", "--offline", "--package", "ngx_http_ratelimitly_module"]);
    tree.args(["--edges", "normal,build", "--prefix", "none"]);
    let without = answer(&mut tree);
    assert!(without.contains("hickory-resolver") && !without.contains("nginx-sys"), "{without}");
    let with = answer(tree.args(["--features", "nginx"]));
    assert!(with.contains("nginx-sys"), "{with}");
}

#[test]
fn cargo_by_itself_ends_with_what_builds_the_module() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("build");
    answer(Command::new("rustc").args(["--edition", "2024", "build.rs", "-o"]).arg(&program));
    let said = answer(Command::new(&program).env_remove("DEP_NGINX_VERSION_NUMBER"));
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("cargo::error=")).collect();
    assert!(matches!(errors[..], [one] if one.contains("run ci/build-module 1.28.3")), "{said}");
}

#[test]
fn the_debian_packages_have_the_version_of_the_project() {
    let changelog = text("ci/debian/changelog");
    let version = env!("CARGO_PKG_VERSION");
    assert!(changelog.starts_with(&format!("ratelimitly-nginx ({version}-")), "{changelog}");
}
