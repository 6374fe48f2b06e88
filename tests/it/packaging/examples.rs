//! The example configurations of `nginx-conf/` and of the pages.

use crate::packaging::{files, nginx_blocks, pages, text};
use ratelimitly_harness::check::{Checked, check_config_with};
use ratelimitly_harness::environment::module;
use regex::Regex;

/// Nothing listens here; `nginx -t` does not connect.
const PLACEHOLDERS: [(&str, &str); 2] = [("fail", "close"), ("upstream", "127.0.0.1:9")];

async fn loads(text: &str) -> Checked {
    let checked = check_config_with(text, &PLACEHOLDERS).await;
    checked.accepted();
    assert!(!checked.message.contains("[emerg]"), "{}", checked.message);
    checked
}

#[tokio::test]
async fn a24_the_minimal_example_loads_once_its_key_is_filled_in() {
    let example = text("nginx-conf/minimal.conf");
    assert!(example.contains("listen unix:"), "the example listens where nobody else does");

    loads(&example).await;

    let unfilled = check_config_with(&example, &[("key", "YOUR_KEY")]).await;
    unfilled.refused(&["\"ratelimitly_auth_key\" directive: this is a placeholder", "expected an API key"]);
}

#[tokio::test]
async fn every_example_configuration_loads() {
    for path in files("nginx-conf", "conf") {
        let checked = loads(&text(&path)).await;
        let warnings: Vec<_> = checked.message.lines().filter(|line| line.contains("[warn]")).collect();
        let of_resolv_conf = |line: &&str| line.contains("/etc/resolv.conf");
        assert!(warnings.iter().all(of_resolv_conf), "{}: {warnings:#?}", path.display());
    }
}

/// The whole one of README.md as it stands there, but for the key, the module's path and the places of socket and log.
#[tokio::test]
async fn the_readme_example_loads() {
    let readme = text("README.md");
    let (_, minimal) =
        readme.split_once("## Minimal configuration").expect("README.md has a whole configuration");
    let mut filled = nginx_blocks(minimal)[0].to_owned();
    for (shown, real) in [
        ("rl-aes1...", "{key}"),
        ("modules/ngx_http_ratelimitly_module.so", "{module}"),
        ("listen 80;", "listen unix:{prefix}/nginx.sock;"),
        ("/var/log/nginx/access.log", "{prefix}/admission.log"),
    ] {
        assert!(filled.contains(shown), "the example no longer shows {shown}");
        filled = filled.replace(shown, real);
    }
    loads(&filled).await;
}

#[tokio::test]
async fn a_relocated_module_loads() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("ngx_http_ratelimitly_module.so");
    std::fs::copy(module(), &copy).expect("the module can be copied");
    let copy = copy.to_str().expect("a path in UTF-8");

    check_config_with(&text("nginx-conf/minimal.conf"), &[("module", copy)]).await.accepted();
}

/// What a client writes into its request as it likes.
const CLIENTS_CHOICE: &str =
    r"\$\{?(arg_|args\b|cookie_|http_|host\b|uri\b|request_uri\b|document_uri\b|query_string\b)";

#[test]
fn m11_no_example_uses_an_identity_that_the_client_chooses() {
    let choice = Regex::new(CLIENTS_CHOICE).expect("a constant pattern");
    let mut bad = Vec::new();
    let mut search = |place: String, example: &str| {
        // The names of files to try are no identity.
        let lines = example.lines().filter(|line| !line.trim_start().starts_with("try_files "));
        let found = lines.flat_map(|line| choice.find_iter(line));
        bad.extend(found.map(|found| format!("{place}: {}", found.as_str())));
    };
    for path in files("nginx-conf", "conf") {
        search(path.display().to_string(), &text(&path));
    }
    for path in pages() {
        for block in nginx_blocks(&text(&path)) {
            search(path.display().to_string(), block);
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn the_search_for_identities_finds_them() {
    let choice = Regex::new(CLIENTS_CHOICE).expect("a constant pattern");
    for bad in
        ["$arg_key", "$cookie_id", "$http_x_user", "$host", "${host}x", "$uri", "$request_uri", "$args"]
    {
        assert!(choice.is_match(bad), "{bad}");
    }
    for good in ["$hostname", "$binary_remote_addr", "$server_name", "$remote_user", "$request_time"] {
        assert!(!choice.is_match(good), "{good}");
    }
}
