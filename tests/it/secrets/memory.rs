//! The key's text in the memory of nginx: gone from master and workers once the configuration is loaded, and the old one
//! gone after a reload with another. The decoded secret itself has to stay, in one place of each process.

use ratelimitly_core::key::{ApiKey, KeyKind};
use ratelimitly_harness::{Dev, Nginx, quotas};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};

/// Besides the key, the text that must be found: a search that finds nothing proves nothing.
const CONFIGURATION: &str = r#"
    {service}
    ratelimitly_zone z "bucket=a-bucket-to-be-found" rate=1000r/s;
    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=z; empty_gif; }
    }
"#;

/// How often the text is in the writable memory of a process.
fn occurrences(pid: u32, text: &str) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the process lives");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("the process is this test's own");
    let writable =
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|mode| mode.starts_with("rw")));
    let mut found = 0;
    for line in writable {
        let range = line.split(' ').next().expect("a range").split_once('-').expect("two ends");
        let [start, end] = [range.0, range.1].map(|end| u64::from_str_radix(end, 16).expect("an address"));
        let mut bytes = vec![0; (end - start) as usize];
        // Some areas of the kernel cannot be read.
        if memory.read_exact_at(&mut bytes, start).is_ok() {
            found += bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
        }
    }
    found
}

/// Keys that a part of finds as well as the whole; other tests' keys have their beginning in common.
fn part(key: &str) -> &str {
    &key[30..62]
}

async fn no_process_holds(nginx: &Nginx, key: &str) {
    let processes = [vec![nginx.master_pid()], nginx.worker_pids()].concat();
    for pid in processes {
        assert!(occurrences(pid, "a-bucket-to-be-found") > 0, "the search finds nothing in {pid}");
        assert_eq!(occurrences(pid, part(key)), 0, "process {pid} holds the key's text");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_holds_the_text_of_the_key_or_of_the_one_before() {
    let dev = Dev::start().await;
    let mut nginx = Nginx::builder(CONFIGURATION).dev(&dev).warm().await;
    let old = dev.key();
    no_process_holds(&nginx, &old).await;

    let secret = std::array::from_fn(|at| (at * 7 + 1) as u8);
    let new = ApiKey::new(KeyKind::Aes, 42, secret, quotas()).expect("good quotas").encode();
    nginx.set("key", &new);
    nginx.reload().await;

    no_process_holds(&nginx, &old).await;
    no_process_holds(&nginx, &new).await;
    nginx.set("key", &old);
    nginx.reload().await;
    nginx.admits().await;
    nginx.finish().await;
}

/// The file is read into memory of the module's own, which it overwrites.
#[tokio::test(flavor = "multi_thread")]
async fn no_process_holds_the_text_of_a_key_file() {
    let dev = Dev::start().await;
    let secret = std::array::from_fn(|at| (at * 5 + 3) as u8);
    let new = ApiKey::new(KeyKind::Aes, 42, secret, quotas()).expect("good quotas").encode();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    fs::write(&path, dev.key()).expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("the file's owner");
    let text = CONFIGURATION.replace(
        "{service}",
        "ratelimitly_auth_key_file {key_file}; ratelimitly_dns_srv {zone}; ratelimitly_dns_resolver {dns};",
    );
    let mut nginx = Nginx::builder(&text).dev(&dev).set("key_file", path.display()).warm().await;
    no_process_holds(&nginx, &dev.key()).await;

    fs::write(&path, &new).expect("the file");
    nginx.reload().await;
    no_process_holds(&nginx, &dev.key()).await;
    no_process_holds(&nginx, &new).await;
    fs::write(&path, dev.key()).expect("the file");
    nginx.reload().await;
    nginx.admits().await;
    nginx.finish().await;
}
