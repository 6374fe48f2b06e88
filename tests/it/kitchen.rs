//! Configurations of the pages, started as they stand there: with the test's own key, addresses and paths. Called by the
//! tests of pages whose examples are whole `http` blocks.

use ratelimitly_harness::{Dev, Nginx, Upstream, environment::repository, eventually, http};
use regex::Regex;
use std::time::Duration;

/// Longest wait for a line of the log.
const SOON: Duration = Duration::from_secs(10);

/// What is the reader's in an example, and what the test has in its place. The unit is long, so that a slow machine changes
/// no decision.
const OF_THE_READER: [(&str, &str); 8] = [
    ("ratelimitly_auth_key rl-aes1...;", "{service} ratelimitly_policy standard unit=600ms;"),
    (
        "ratelimitly_auth_key_file /run/secrets/ratelimitly.key;",
        "ratelimitly_auth_key_file {key_file}; ratelimitly_dns_srv {zone}; ratelimitly_dns_resolver {dns};",
    ),
    ("listen 80;", "listen 127.0.0.1:{port};"),
    ("# listen 443 ssl, with HTTP/2 and your certificate", "listen 127.0.0.1:{port} {http2};"),
    ("127.0.0.1:8080", "{upstream}"),
    ("/var/log/nginx/access.log", "{prefix}/example.log"),
    ("/var/log/nginx/", "{prefix}/"),
    ("/var/cache/nginx/", "{prefix}/"),
];

/// The text of a page of the repository.
pub fn page(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text of the first block of this kind in a section.
pub fn block(page: &str, heading: &str, kind: &str) -> String {
    let section = page.split("\n## ").find(|section| section.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("no section {heading}"));
    let start = section.find(&format!("```{kind}\n")).expect("a block") + kind.len() + 4;
    let end = start + section[start..].find("```").expect("the block's end");
    section[start..end].to_owned()
}

/// An nginx that runs an example.
pub struct Kitchen {
    pub dev: Dev,
    pub nginx: Nginx,
    _upstream: Upstream,
}

impl Kitchen {
    /// Starts an example, in which `change` is replaced.
    pub async fn start(example: &str, change: (&str, &str)) -> Kitchen {
        let spaces = Regex::new(" +").expect("a constant pattern");
        let mut text = spaces.replace_all(example, " ").into_owned();
        assert!(text.contains(change.0), "the example no longer has {}", change.0);
        text = text.replace(change.0, change.1);
        for (shown, real) in OF_THE_READER {
            text = text.replace(shown, real);
        }
        let dev = Dev::single().await;
        let upstream = Upstream::ok("content").await;
        let key = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(key.path(), dev.key()).expect("the file");
        let nginx = Nginx::builder(&text).dev(&dev).set("upstream", upstream.address());
        let faulty = text.contains("ratelimitly_fault ");
        let nginx = if faulty { nginx.fault_module() } else { nginx };
        let nginx = nginx.set("key_file", key.path().display()).start().await;
        if !faulty {
            // The first request meets the fault, and it shall be the test's.
            nginx.admits().await;
        }
        // It is read at each load, so it stays until this process ends.
        key.keep().expect("the file stays");
        Kitchen { dev, nginx, _upstream: upstream }
    }

    pub async fn get(&self, path: &str) -> http::Response {
        http::get(self.nginx.port(), path).await
    }

    pub async fn status(&self, path: &str) -> u16 {
        self.get(path).await.status
    }

    /// The lines of the example's own access log, once there are so many.
    pub async fn log(&self, count: usize) -> Vec<String> {
        let path = self.nginx.prefix().join("example.log");
        let read = || std::fs::read_to_string(&path).unwrap_or_default();
        eventually(SOON, format!("{count} lines"), || read().lines().count() >= count).await;
        read().lines().map(str::to_owned).collect()
    }
}
