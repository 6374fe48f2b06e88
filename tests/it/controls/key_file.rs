//! The API key in a file: a reload rotates it, and a file that is broken meanwhile changes nothing.

use ratelimitly_core::key::{ApiKey, KeyKind};
use ratelimitly_harness::{Dev, Nginx, http, key, quotas};
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const SITE: &str = r#"
    http {
        ratelimitly_auth_key_file {key_file};
        ratelimitly_dns_srv       {zone};
        ratelimitly_dns_resolver  {dns};
        ratelimitly_policy        standard unit=600ms;
        ratelimitly_fail          close;
        ratelimitly_zone          all "bucket=all" rate=1000r/s;
        server {
            listen 127.0.0.1:{port};
            location / { ratelimitly zone=all; empty_gif; }
        }
    }
"#;

/// A key beside the harness's own.
fn other_key() -> ApiKey {
    ApiKey::new(KeyKind::Aes, 4242, [0x17; 32], quotas()).expect("good quotas")
}

/// The servers know both keys.
async fn servers() -> Dev {
    Dev::with(|config| config.servers(1).key(key(KeyKind::Aes)).key(other_key())).await
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("the file can be written");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("the file's owner");
}

fn file(folder: &tempfile::TempDir, key: &ApiKey) -> PathBuf {
    let path = folder.path().join("ratelimitly.key");
    write(&path, &format!("{}\n", key.encode()));
    path
}

fn key_ids(dev: &Dev) -> Vec<u64> {
    dev.admissions().iter().map(|event| event.key_id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn e28_a_reload_rotates_the_key_of_the_file() {
    let dev = servers().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, &key(KeyKind::Aes));
    let mut nginx = Nginx::builder(SITE).dev(&dev).set("key_file", path.display()).start().await;
    nginx.admits().await;
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);

    write(&path, &other_key().encode());
    assert_eq!(http::get(nginx.port(), "/").await.status, 200, "the worker keeps the old key");
    nginx.reload().await;
    nginx.admits().await;
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);

    assert_eq!(key_ids(&dev), [42, 42, 4242]);
    nginx.finish().await;
}

/// The master refuses the new configuration, and the workers go on with the old one.
#[tokio::test(flavor = "multi_thread")]
async fn e29_a_reload_with_a_broken_file_keeps_the_old_key() {
    let dev = servers().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, &key(KeyKind::Aes));
    let mut nginx = Nginx::builder(SITE).dev(&dev).set("key_file", path.display()).start().await;
    nginx.admits().await;
    nginx.expect_log("has more than one line");

    write(&path, &format!("{0}\n{0}\n", other_key().encode()));
    nginx.signal(nginx.master_pid(), Signal::HUP);
    let refused = nginx.await_log_line("has more than one line").await;
    assert!(!refused.contains(&other_key().encode()[30..62]), "{refused}");
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    assert_eq!(key_ids(&dev), [42]);

    write(&path, &key(KeyKind::Aes).encode());
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w05_a_file_that_everybody_can_read_is_named_at_each_load() {
    let dev = servers().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, &key(KeyKind::Aes));
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("the file's owner");
    let mut nginx = Nginx::builder(SITE).dev(&dev).set("key_file", path.display()).start().await;
    let warning = "can be read by every user of this machine";
    assert_eq!(nginx.check_output().matches(warning).count(), 1, "{}", nginx.check_output());
    nginx.reload().await;
    assert_eq!(nginx.log_lines(warning).len(), 1, "once for the reload");
    nginx.finish().await;
}
