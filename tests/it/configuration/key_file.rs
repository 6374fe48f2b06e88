//! `ratelimitly_auth_key_file` as `nginx -t` takes it: which files it refuses and with which message, and that no message
//! shows what a file holds.

use crate::configuration::check;
use ratelimitly_core::key::KeyKind;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tempfile::TempDir;

const OF_FILE: &str = "\"ratelimitly_auth_key_file\" directive: ";
const ALONE: &str = "expected the API key alone on one line";
const TEXT: &str = "http { ratelimitly_auth_key_file {path}; }";

fn key() -> String {
    ratelimitly_harness::key(KeyKind::Aes).encode()
}

/// A folder beside the one of nginx's configuration, with a file `key` of this content for its owner alone.
fn folder(content: impl AsRef<[u8]>) -> TempDir {
    let folder = tempfile::Builder::new().prefix("ratelimitly-key-").tempdir().expect("a folder");
    let path = folder.path().join("key");
    fs::write(&path, content).expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("the file's owner");
    folder
}

async fn refused(path: &Path, parts: &[&str]) {
    let path = path.to_str().expect("a path in UTF-8");
    let checked = check(TEXT, &[("path", path)]).await;
    checked.refused(&[&[OF_FILE], parts].concat());
    assert!(!checked.message.contains(&key()[30..62]), "a part of the key is shown: {}", checked.message);
}

async fn refused_content(content: impl AsRef<[u8]>, parts: &[&str]) {
    refused(&folder(content).path().join("key"), &[&["/key\""], parts].concat()).await;
}

#[tokio::test]
async fn a26_key_file_with_white_space_a_byte_order_mark_and_line_ends_is_accepted() {
    let key = key();
    for content in [
        key.clone(),
        format!("{key}\n"),
        format!("\u{feff}{key}\r\n"),
        format!("\n \t{key} \r\n\r\n"),
        format!("{key}{}", " ".repeat(4096 - key.len())),
    ] {
        let folder = folder(content);
        let path = folder.path().join("key").display().to_string();
        let checked = check(TEXT, &[("path", &path)]).await;
        checked.accepted();
        assert!(!checked.message.contains("[warn]"), "{}", checked.message);
    }
}

/// As a mounted secret of Kubernetes is: a link to a link in the folder of the version.
#[tokio::test]
async fn a26_key_file_behind_symbolic_links_is_accepted() {
    let folder = folder(key());
    symlink("key", folder.path().join("data")).expect("a link");
    symlink("data", folder.path().join("link")).expect("a link");
    let path = folder.path().join("link").display().to_string();
    check(TEXT, &[("path", &path)]).await.accepted();
}

#[tokio::test]
async fn a26_key_file_is_found_beside_the_configuration() {
    let folder = folder(key());
    let name = folder.path().file_name().expect("a name").to_str().expect("a name in UTF-8");
    check(TEXT, &[("path", &format!("../{name}/key"))]).await.accepted();
}

#[tokio::test]
async fn r85_key_file_that_is_not_there() {
    let folder = folder("");
    let gone = folder.path().join("gone");
    refused(&gone, &["/gone\" cannot be read: No such file", "expected a regular file", "alone on one line"])
        .await;
}

/// A pipe without a writer would hold up an nginx that opens it as usual.
#[tokio::test]
async fn r85_key_file_that_is_no_regular_file() {
    let folder = folder("");
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    refused(&pipe, &["/pipe\" is not a regular file", "expected a regular file"]).await;
    refused(folder.path(), &["is not a regular file"]).await;
    refused(Path::new("/dev/null"), &["\"/dev/null\" is not a regular file"]).await;
}

#[tokio::test]
async fn r86_key_file_whose_content_is_no_key() {
    let key = key();
    refused_content("", &["is empty", ALONE]).await;
    refused_content(" \r\n\n", &["is empty", ALONE]).await;
    refused_content(format!("{key}\n{key}\n"), &["has more than one line", ALONE]).await;
    refused_content(format!("{key}{}", " ".repeat(4097)), &["has more than 4096 bytes", ALONE]).await;
    refused_content(format!("ratelimitly_auth_key {key};\n"), &["holds a directive", ALONE]).await;
    refused_content("random-text", &["invalid bech32", "expected an API key: rl-aes1... or rl-cookie1..."])
        .await;
    refused_content(&key[..key.len() - 1], &["expected an API key"]).await;
    refused_content(b"\xff\xfer\0l\0", &["is UTF-16 text"]).await;
}

#[tokio::test]
async fn r87_key_file_twice_empty_or_with_a_key_in_its_place() {
    let folder = folder(key());
    let path = folder.path().join("key").display().to_string();
    let twice = "http { ratelimitly_auth_key_file {path}; ratelimitly_auth_key_file {path}; }";
    let duplicate = ["is duplicate", "accepted once: ratelimitly_auth_key_file <path>"];
    check(twice, &[("path", &path)]).await.refused(&[&[OF_FILE], &duplicate[..]].concat());
    check("http { ratelimitly_auth_key_file \"\"; }", &[]).await.refused(&[OF_FILE, "\"path=\" is empty"]);
    let checked = check("http { ratelimitly_auth_key_file {key}; }", &[]).await;
    checked.refused(&[OF_FILE, "the path holds an API key", "expected the path of a file"]);
}

#[tokio::test]
async fn r87_key_and_key_file_together_in_any_order() {
    let folder = folder(key());
    let path = folder.path().join("key").display().to_string();
    for (text, second) in [
        ("http {\nratelimitly_auth_key {key};\nratelimitly_auth_key_file {path};\n}", OF_FILE),
        (
            "http {\nratelimitly_auth_key_file {path};\nratelimitly_auth_key {key};\n}",
            "\"ratelimitly_auth_key\" directive: ",
        ),
    ] {
        let checked = check(text, &[("path", &path)]).await;
        checked.refused(&[second, "the API key is given already, in ", "nginx.conf:", "expected one of"]);
    }
}

#[tokio::test]
async fn w05_key_file_that_everybody_can_read_draws_one_warning() {
    let folder = folder(key());
    let file = folder.path().join("key");
    let path = file.display().to_string();
    for (mode, warnings) in [(0o644, 1), (0o604, 1), (0o640, 0), (0o600, 0)] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("the file's owner");
        let checked = check(TEXT, &[("path", &path)]).await;
        checked.accepted();
        let found = checked.message.matches("can be read by every user of this machine").count();
        assert_eq!(found, warnings, "mode {mode:o}: {}", checked.message);
        assert_eq!(checked.message.matches("[warn]").count(), warnings, "mode {mode:o}: {}", checked.message);
    }
}
