//! Every nginx example of the pages loads. An example may be a whole configuration or a part of one; what it refers to
//! and does not define itself is defined around it.

use crate::packaging::{nginx_blocks, pages, text};
use ratelimitly_core::key::KeyKind;
use ratelimitly_harness::check::{Checked, check_config_with};
use ratelimitly_harness::environment::fault_module;
use ratelimitly_harness::key;
use regex::Regex;
use std::io::Write;

/// What an example may refer to, the text that refers to it, and the line that defines it where the example does not. A
/// group and a guard are defined only where they are used: an example may define what they refer to.
const DEFINITIONS: [(&str, &str, &str); 8] = [
    ("ratelimitly_auth_key", "", "ratelimitly_auth_key {key};"),
    (
        "ratelimitly_zone per_client",
        "",
        r#"ratelimitly_zone per_client "bucket=client:$binary_remote_addr" rate=10r/s;"#,
    ),
    (
        "ratelimitly_zone everyone",
        "",
        r#"ratelimitly_zone everyone "bucket=site:$server_name" rate=5000r/10s;"#,
    ),
    ("ratelimitly_group api", "group=api", "ratelimitly_group api zone=per_client zone=everyone;"),
    (
        "ratelimitly_tracker backend",
        "",
        r#"ratelimitly_tracker backend "service=a" ttl=20ms min_sample_threshold=0;"#,
    ),
    (
        "ratelimitly_guard healthy",
        "guard=healthy",
        "ratelimitly_guard healthy tracker=backend threshold=350ms;",
    ),
    ("upstream app", "http://app", "upstream app { server 127.0.0.1:9; }"),
    ("log_format admission", " admission;", "log_format admission $status;"),
];

/// What is an address or a path of the reader's machine in an example.
const OF_THE_READER: [(&str, &str); 7] = [
    ("rl-aes1...", "{key}"),
    ("/run/secrets/ratelimitly.key", "{key_file}"),
    ("/var/log/nginx/", "{prefix}/"),
    ("/var/cache/nginx/", "{prefix}/"),
    ("modules/ngx_http_ratelimitly_module.so", "{module}"),
    ("listen 80;", ""),
    ("server {\n", "server {\n listen unix:{prefix}/example.sock;\n"),
];

#[tokio::test(flavor = "multi_thread")]
async fn m14_every_nginx_example_of_the_pages_loads() {
    let (mut examples, mut refused) = (0, Vec::new());
    for path in pages() {
        let page = text(&path);
        for example in nginx_blocks(&page).into_iter().flat_map(|block| block.split("# or\n")) {
            examples += 1;
            let checked = loads(example).await;
            if !checked.iter().any(|checked| checked.ok) {
                let complaints = checked.iter().map(|checked| checked.message.as_str());
                refused.push(format!("{}:\n{example}\n{}", path.display(), complaints.collect::<String>()));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(examples > 20, "only {examples} examples were found");
}

#[tokio::test]
async fn an_example_with_a_mistake_is_found() {
    for bad in
        ["ratelimitly zone=undefined;", "ratelimitly_guard g tracker=backend;", "ratelimitly_nonsense on;"]
    {
        assert!(loads(bad).await.iter().all(|checked| !checked.ok), "{bad}");
    }
}

/// The example at each place where it may belong.
async fn loads(example: &str) -> Vec<Checked> {
    let mut all = Vec::new();
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(key(KeyKind::Aes).encode().as_bytes()).expect("written");
    let key_file = ("key_file", file.path().to_str().expect("a path in UTF-8"));
    for text in wrapped(&filled(example)) {
        let fault = fault_module();
        let values = [key_file, ("module", fault.to_str().expect("a path in UTF-8"))];
        let values = if example.contains("ratelimitly_fault") { &values[..] } else { &values[..1] };
        all.push(check_config_with(&text, values).await);
    }
    all
}

/// Without usage lines, whose words in angle brackets are no configuration, and with the harness's paths.
fn filled(example: &str) -> String {
    let usage = Regex::new("<[a-z]").expect("a constant pattern");
    let mut text: String =
        example.lines().filter(|line| !usage.is_match(line)).map(|line| format!("{line}\n")).collect();
    for (shown, real) in OF_THE_READER {
        text = text.replace(shown, real);
    }
    Regex::new("include +fastcgi_params;").expect("a constant pattern").replace_all(&text, "").into_owned()
}

fn wrapped(example: &str) -> Vec<String> {
    if example.contains("http {") {
        return vec![example.to_owned()];
    }
    let defined = |what: &str| {
        let spaced = what.split(' ').collect::<Vec<_>>().join(" +");
        Regex::new(&format!("(?m)^ *{spaced}\\b")).expect("a pattern").is_match(example)
    };
    // The key comes in one way only.
    let defined = |what: &str| defined(what) || defined(&format!("{what}_file"));
    let missing =
        DEFINITIONS.iter().filter(|(what, use_of_it, _)| !defined(what) && example.contains(use_of_it));
    let around: String = missing.map(|(_, _, line)| format!("{line}\n")).collect();
    let server = "server {\n listen unix:{prefix}/nginx.sock;\n";
    vec![
        format!("http {{\n{around}{example}}}\n"),
        format!("http {{\n{around}{server}{example}}}\n}}\n"),
        format!("http {{\n{around}{server}location / {{\n{example}}}\n}}\n}}\n"),
        format!("{example}events {{}}\nhttp {{\n{around}}}\n"),
    ]
}
