//! `ci/lab diagnose` on what a real nginx wrote: its access log in the recommended format, and its `nginx -T`. The causes
//! of an overload are told from hand-made logs in crates/lab/src/diagnose/tests.rs.

use ratelimitly_harness::environment::{nginx_binary, repository};
use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, eventually, http};
use ratelimitly_lab::diagnose::{self, Options, RECOMMENDED};
use regex::Regex;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const CONF: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_zone few "bucket=few" rate=1r/1h;
    limit_req_zone $binary_remote_addr zone=slow:1m rate=1r/m;
    limit_req_status 429;
    log_format app '{format}';
    upstream app { server {app}; keepalive 32; }
    upstream none { server 127.0.0.1:9 down; }

    server {
        listen 127.0.0.1:{port};
        access_log {prefix}/app.log app;
        location /few/ { ratelimitly zone=few; proxy_pass http://app; }
        location /limited/ { limit_req zone=slow; proxy_pass http://app; }
        location /none/ { proxy_pass http://none; }
        location /late/ { proxy_pass http://app; proxy_read_timeout 100ms; }
        location /files/ { ratelimitly zone=few; try_files $uri @app; }
        location @app { proxy_pass http://app; }
    }
"#;

/// An nginx before an application that answers `/late/` only at the end of the test.
async fn start(dev: &Dev) -> (Nginx, Upstream) {
    let never = Arc::new(Notify::new());
    let app = Upstream::start(move |seen| match seen.target.starts_with("/late/") {
        true => Answer::When(Arc::clone(&never), 200, "late".into()),
        false => Answer::ok("done"),
    })
    .await;
    let builder = Nginx::builder(CONF).dev(dev).set("format", RECOMMENDED).set("app", app.address());
    let mut nginx = builder.start().await;
    nginx.allow_open_files(32);
    nginx.admits().await;
    (nginx, app)
}

/// The whole output of `nginx -T`, with what it says about the test.
fn dump(nginx: &Nginx) -> PathBuf {
    let own = |name: &str| nginx.prefix().join(name);
    let mut command = Command::new(nginx_binary());
    command.arg("-T").arg("-p").arg(own("")).arg("-c").arg(own("nginx.conf")).arg("-e").arg(own("start.log"));
    let output = command.output().expect("nginx can be run");
    let path = own("nginx-T.txt");
    std::fs::write(&path, [output.stderr, output.stdout].concat()).expect("a file");
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_real_nginx_logged_is_put_down_to_what_caused_it() {
    let dev = Dev::single().await;
    let (nginx, _app) = start(&dev).await;
    let mut statuses = Vec::new();
    for path in ["/few/1", "/few/2", "/limited/1", "/limited/2", "/none/", "/late/"] {
        statuses.push(http::get(nginx.port(), path).await.status);
    }
    assert_eq!(statuses, [200, 429, 200, 429, 502, 504]);
    let log = nginx.prefix().join("app.log");
    let lines = || std::fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == statuses.len());
    eventually(Duration::from_secs(10), "a line for each request", lines).await;

    let options =
        Options { access_log: vec![log.clone()], client: "remote_addr".into(), ..diagnose_defaults() };
    let text = diagnose::run(&options).expect("a report");

    for row in [
        "Access log: 6 lines\n",
        " 2  33.3%  answered\n",
        " 1  16.7%  refused by this module\n",
        " 1  16.7%  refused by limit_req or limit_conn\n",
        " 1  16.7%  502, no server could be chosen (max_conns, or all are down)\n",
        " 1  16.7%  504, the application gave no answer in time\n",
        "  refused by: zone:few 1\n",
    ] {
        assert!(text.contains(row), "{row:?} is missing in\n{text}");
    }
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nginx_prints_of_its_configuration_is_read_with_files_and_lines() {
    let dev = Dev::single().await;
    let (nginx, _app) = start(&dev).await;
    let options = Options { config: Some(dump(&nginx)), ..diagnose_defaults() };

    let text = diagnose::run(&options).expect("a report");

    let file = nginx.prefix().join("nginx.conf");
    let source = std::fs::read_to_string(&file).expect("nginx's configuration");
    for (line, check) in [("keepalive 32;", "keepalive-timeout"), ("try_files $uri @app;", "try-files")] {
        let number = 1 + source.lines().position(|text| text.contains(line)).expect("a line of it");
        let start = format!("  {}:{number}: ", file.display());
        let found = |text: &str| text.starts_with(&start) && text.ends_with(&format!("[{check}]"));
        assert!(text.lines().any(found), "{start}... [{check}] is missing in\n{text}");
    }
    assert!(!text.contains("cannot be read"), "{text}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_pointed_out_in_the_examples_that_ship() {
    let folder = tempfile::tempdir().expect("a folder");
    let placeholder = Regex::new(r"\{[a-z]+\}").expect("a constant pattern");
    for name in ["minimal.conf", "full.conf", "demo.conf"] {
        let text = std::fs::read_to_string(repository().join("nginx-conf").join(name)).expect("an example");
        let config = folder.path().join(name);
        std::fs::write(&config, placeholder.replace_all(&text, "1").as_ref()).expect("a file");
        let text = diagnose::run(&Options { config: Some(config), ..diagnose_defaults() }).expect("a report");
        assert_eq!(text, "Configuration\n  nothing to point out\n", "{name}");
    }
}

/// What the command line has where nothing is given.
fn diagnose_defaults() -> Options {
    Options { app_format: "$msec $uri $app_time".into(), ..Options::default() }
}
