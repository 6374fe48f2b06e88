//! Another module's pre-content check that has moved behind this module, as lua-nginx-module moves its own: it still
//! runs after an allow. The module is `late.c`, built here against the headers of the nginx under test.

use crate::POLICIES;
use crate::routing::labels;
use ratelimitly_devserver::Fault;
use ratelimitly_harness::{Dev, Nginx, environment, http};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const SOURCE: &str = include_str!("late.c");

const CONFIGURATION: &str = r#"
    load_module {module};
    load_module {late};
    events { worker_connections 1024; }
    http {
        {usual}
        ratelimitly_zone all "bucket=all" rate=1000r/s;

        server {
            listen 127.0.0.1:{port};
            location / { ratelimitly zone=all; ratelimitly_label $uri; empty_gif; }
            location /free { empty_gif; }
        }
    }
"#;

/// The shared object in a folder of its own.
fn build() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, module) = (folder.path().join("late.c"), folder.path().join("late.so"));
    std::fs::write(&source, SOURCE).expect("the source can be written");
    let (headers, objects) = environment::nginx_headers();
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&module).arg(&source);
    for part in [
        "core",
        "event",
        "event/modules",
        "event/quic",
        "os/unix",
        "http",
        "http/modules",
        "http/v2",
        "http/v3",
    ] {
        compiler.arg("-I").arg(headers.join("src").join(part));
    }
    let done = compiler.arg("-I").arg(objects).output().expect("gcc is installed (ci/setup)");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    (folder, module)
}

async fn start(dev: &Dev, fail: &str, late: &Path) -> Nginx {
    let builder = Nginx::builder(CONFIGURATION).dev(dev).set("fail", fail).set("late", late.display());
    builder.warm().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_has_moved_behind_runs_after_an_allow() {
    let (_folder, late) = build();
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = start(&dev, fail, &late).await;

        let refused = http::get(nginx.port(), "/page?refuse").await;
        let served = http::get(nginx.port(), "/page").await;

        assert_eq!((refused.status, served.status), (403, 200));
        let expected = ["403 allow \"GET /page?refuse HTTP/1.1\"", "200 allow \"GET /page HTTP/1.1\""];
        assert_eq!(nginx.await_access_log(2).await, expected);
        assert_eq!(labels(&dev), ["/page"; 2], "both were asked about: the check comes afterwards");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_has_moved_behind_runs_under_fail_open() {
    let (_folder, late) = build();
    let dev = Dev::single().await;
    let nginx = start(&dev, "open", &late).await;
    dev.fault(Fault::Silent).await;

    assert_eq!(http::get(nginx.port(), "/page?refuse").await.status, 403);

    assert_eq!(nginx.await_access_log(1).await, ["403 - \"GET /page?refuse HTTP/1.1\""]);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deny_comes_before_the_check_that_has_moved_behind() {
    let (_folder, late) = build();
    let dev = Dev::start().await;
    let nginx = start(&dev, "close", &late).await;
    dev.fault(Fault::ForceDeny).await;

    assert_eq!(http::get(nginx.port(), "/page?refuse").await.status, 429);
    assert_eq!(http::get(nginx.port(), "/free?refuse").await.status, 403, "the check is there");
    nginx.finish().await;
}
