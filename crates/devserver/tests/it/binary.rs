//! The real binary: its first line, its control socket from end to end, its events file, its keys, its complaints.

use crate::support::{Ask, Client, PATIENCE, guard, resource, within};
use ratelimitly_core::key::{ApiKey, KeyKind};
use ratelimitly_devserver::{Event, Verdict};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};

fn binary(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimitly-devserver"));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    command
}

pub async fn output(arguments: &[&str]) -> Output {
    within(binary(arguments).output()).await.unwrap()
}

async fn keygen(arguments: &[&str]) -> ApiKey {
    let output = output(&[&["keygen"], arguments].concat()).await;
    assert!(output.status.success(), "{output:?}");
    ApiKey::parse(std::str::from_utf8(&output.stdout).unwrap().trim_end()).unwrap()
}

/// A running `serve` with a folder for its socket and events.
pub struct Served {
    child: Child,
    pub ready: Value,
    pub key: ApiKey,
    folder: TempDir,
}

impl Served {
    pub async fn start(arguments: &[&str]) -> Served {
        let key = keygen(&["--kind", "aes", "--key-id", "7"]).await;
        let folder = tempfile::tempdir().unwrap();
        let (control, events) = (folder.path().join("control"), folder.path().join("events"));
        let text = key.encode();
        let mut command = binary(&["serve", "--dns", "127.0.0.1:0", "--key", &text]);
        command.arg("--control").arg(&control).arg("--events").arg(&events).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = within(stdout.next_line()).await.unwrap().expect("a first line");
        Served { child, ready: serde_json::from_str(&line).unwrap(), key, folder }
    }

    fn address(&self, place: usize) -> SocketAddr {
        self.ready["servers"][place]["address"].as_str().unwrap().parse().unwrap()
    }

    fn control(&self) -> std::path::PathBuf {
        self.folder.path().join("control")
    }

    pub async fn terminate(mut self) -> (std::process::ExitStatus, String) {
        let id = self.child.id().unwrap().to_string();
        // The shell's own `kill`: a small Debian has no other.
        assert!(Command::new("sh").args(["-c", "kill -TERM \"$0\"", &id]).status().await.unwrap().success());
        let mut complaints = String::new();
        within(self.child.stderr.take().unwrap().read_to_string(&mut complaints)).await.unwrap();
        (within(self.child.wait()).await.unwrap(), complaints)
    }
}

/// A connection to the control socket.
struct Control {
    replies: Lines<BufReader<OwnedReadHalf>>,
    commands: OwnedWriteHalf,
}

impl Control {
    async fn connect(path: &Path) -> Control {
        let (reader, commands) = UnixStream::connect(path).await.unwrap().into_split();
        Control { replies: BufReader::new(reader).lines(), commands }
    }

    async fn line(&mut self, line: &str) -> Value {
        self.commands.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        serde_json::from_str(&within(self.replies.next_line()).await.unwrap().unwrap()).unwrap()
    }

    async fn tell(&mut self, command: Value) -> Value {
        self.line(&command.to_string()).await
    }
}

#[tokio::test]
async fn the_first_line_says_where_everything_is() {
    let served = Served::start(&["--servers", "2", "--zone", "my.test"]).await;
    assert_eq!(served.ready["event"], "ready");
    assert_eq!(served.ready["zone"], "my.test");
    assert!(served.ready["dns"].as_str().unwrap().starts_with("127.0.0.1:"));
    let ids: Vec<_> = served.ready["servers"].as_array().unwrap().iter().map(|s| s["id"].clone()).collect();
    assert_eq!(ids, [json!(1_015_809), json!(9_404_417)]);
    let client = Client::new(&served.key).await;
    client.send(served.address(1), &Ask::token(1)).await;
    assert!(client.answer().await.unwrap().allow);
}

#[tokio::test]
async fn it_says_what_it_is_not_and_ends_when_told() {
    let served = Served::start(&["--ids", "5,3"]).await;
    assert_eq!(served.ready["servers"][0]["id"], 5);
    let control = served.control();
    let (status, complaints) = served.terminate().await;
    assert!(status.success());
    assert!(complaints.contains("development server") && complaints.contains("not the RateLimitly service"));
    assert!(!control.exists(), "the control socket is gone");
}

#[tokio::test]
async fn it_prints_the_lines_that_nginx_needs_without_the_key() {
    let served = Served::start(&["--zone", "my.test"]).await;
    let (dns, key) = (served.ready["dns"].as_str().unwrap().to_owned(), served.key.encode());
    let (_, said) = served.terminate().await;
    assert!(said.contains("ratelimitly_dns_srv      my.test;"), "{said}");
    assert!(said.contains(&format!("ratelimitly_dns_resolver {dns};")), "{said}");
    assert!(said.contains("ratelimitly_auth_key ") && !said.contains(&key), "{said}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_the_option_that_changes_it() {
    let taken = Served::start(&["--servers", "1"]).await;
    let (key, dns) = (taken.key.encode(), taken.ready["dns"].as_str().unwrap().to_owned());
    let refused = output(&["serve", "--key", &key, "--dns", &dns]).await;
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success());
    assert!(complaint.contains(&dns) && complaint.contains("another port with --dns"), "{complaint}");
}

#[tokio::test]
async fn the_documented_port_of_dns_is_the_default() {
    let help = output(&["serve", "--help"]).await;
    assert!(String::from_utf8(help.stdout).unwrap().contains("[default: 127.0.0.1:5300]"));
    let page = include_str!("../../../../docs/devserver.md");
    assert!(page.contains("| `--dns <ip:port>` | `127.0.0.1:5300` |"));
    assert!(page.contains("ratelimitly_dns_resolver 127.0.0.1:5300;"));
}

#[tokio::test]
async fn status_counts_each_admission_once_and_each_answer_of_a_server() {
    let served = Served::start(&["--servers", "2"]).await;
    let (mut control, client) = (Control::connect(&served.control()).await, Client::new(&served.key).await);
    // Asked at both servers, as the module does; then a second request, for which no token is left.
    for (place, ask) in [Ask::token(1), Ask::token(1)].iter().flat_map(|ask| [(0, ask), (1, ask)]) {
        client.send(served.address(place), ask).await;
        client.answer().await.unwrap();
    }
    let status = control.tell(json!({"command": "status"})).await;
    assert_eq!(status["admissions"], json!({"allow": 1, "deny": 1}));
    for server in [0, 1] {
        assert_eq!(status["servers"][server]["answers"], json!({"allow": 1, "deny": 1}));
    }
}

#[tokio::test]
async fn events_show_the_name_that_a_bucket_and_a_tracker_were_given() {
    let tracker = "service=shop@ttl=60s,max_samples=8,min_sample_threshold=1";
    let served = Served::start(&["--name", "bucket=bucket@1r/m", "--name", tracker]).await;
    let client = Client::new(&served.key).await;
    let resources = [resource("bucket", 1, 1), resource("bucket", 2, 1)];
    client.send(served.address(0), &Ask::new([guard("shop", 5)], resources)).await;
    client.answer().await.unwrap();
    let text = std::fs::read_to_string(served.folder.path().join("events")).unwrap();
    let event: Event = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let names: Vec<_> = event.resources.iter().map(|seen| seen.name.as_deref()).collect();
    assert_eq!(names, [Some("bucket"), None], "another rate is another bucket");
    assert_eq!(event.guards[0].name.as_deref(), Some("shop"));
}

#[tokio::test]
async fn commands_take_effect_before_their_reply() {
    let served = Served::start(&["--servers", "2"]).await;
    let (mut control, client) = (Control::connect(&served.control()).await, Client::new(&served.key).await);
    let reply =
        control.tell(json!({"command": "fault", "servers": [1_015_809], "fault": "force_deny"})).await;
    assert_eq!(reply, json!({"ok": true, "reply": "done"}));
    for (place, allow) in [(0, false), (1, true)] {
        client.send(served.address(place), &Ask::token(9)).await;
        assert_eq!(client.answer().await.unwrap().allow, allow);
    }
    let status = control.tell(json!({"command": "status"})).await;
    assert_eq!(status["servers"][0]["faults"], json!(["force_deny"]));
    assert_eq!(control.tell(json!({"command": "reset"})).await["ok"], true);
    client.send(served.address(0), &Ask::token(9)).await;
    assert!(client.answer().await.unwrap().allow);
}

/// Every one of these is a command.
async fn accepted(commands: impl IntoIterator<Item = Value>) {
    let served = Served::start(&["--servers", "1"]).await;
    let mut control = Control::connect(&served.control()).await;
    for command in commands {
        let reply = control.tell(command.clone()).await;
        assert_eq!(reply["ok"], true, "{command}: {reply}");
    }
}

#[tokio::test]
async fn every_fault_of_a_server_has_a_json_form() {
    let faults = [
        json!({"drop": {"probability": 0.5}}),
        json!({"drop": {"probability": 0.5, "of": "answers"}}),
        json!({"delay": {"ms": 5}}),
        json!({"jitter": {"ms": 5}}),
        json!({"duplicate": {"extra": 1}}),
        json!("wrong_authentication"),
        json!({"truncated": {}}),
        json!({"truncated": {"bytes": 10}}),
        json!("wrong_request_id"),
        json!({"wrong_server_id": {"id": 1}}),
        json!("empty_results"),
        json!("short_results"),
        json!("extra_results"),
        json!("rebind"),
        json!("force_allow"),
        json!("force_deny"),
        json!({"force_deny_of": {"label": "/login"}}),
        json!({"force_deny_of": {"bucket": "checkout@3r/10m"}}),
        json!({"latency": {"guard": 0, "ms": 5}}),
        json!({"deficit": {"resource": 0, "tokens": 5}}),
        json!("hold"),
        json!("silent"),
    ];
    accepted(faults.map(|fault| json!({"command": "fault", "fault": fault}))).await;
}

#[tokio::test]
async fn every_fault_of_dns_has_a_json_form() {
    let faults = [
        json!("no_srv"),
        json!({"no_address": {}}),
        json!({"no_target": {"servers": [1_015_809]}}),
        json!({"bad_target": {}}),
        json!("serv_fail"),
        json!({"delay": {"ms": 5}}),
        json!("silent"),
        json!("truncate"),
        json!({"extra_addresses": {"server": 1_015_809, "addresses": ["100::1"]}}),
    ];
    accepted(faults.map(|fault| json!({"command": "dns", "fault": fault}))).await;
}

#[tokio::test]
async fn every_other_command_has_a_json_form() {
    accepted([
        json!({"command": "clear", "servers": [1_015_809], "faults": ["silent", "delay"]}),
        json!({"command": "clear"}),
        json!({"command": "clear_dns", "faults": ["serv_fail"]}),
        json!({"command": "clear_dns"}),
        json!({"command": "release"}),
        json!({"command": "release", "order": "reverse"}),
        json!({"command": "release", "order": {"list": []}}),
        json!({"command": "down", "servers": [1_015_809]}),
        json!({"command": "up"}),
        json!({"command": "members", "remove": [1_015_809], "add": [{"id": 3}, {"id": 4, "address": "[::1]:9"}]}),
        json!({"command": "ttl", "seconds": 9}),
        json!({"command": "status"}),
        json!({"command": "reset"}),
    ])
    .await;
}

#[tokio::test]
async fn a_bad_command_is_refused_and_the_connection_lives_on() {
    let served = Served::start(&["--servers", "1"]).await;
    let mut control = Control::connect(&served.control()).await;
    for (line, part) in [
        ("{", "not a command"),
        (r#"{"command":"explode"}"#, "explode"),
        (r#"{"command":"fault","server":[1],"fault":"silent"}"#, "unknown field `server`"),
        (r#"{"command":"fault","fault":{"delay":{"millis":1}}}"#, "unknown field `millis`"),
        (r#"{"command":"fault","fault":{"delay":200}}"#, r#"has the form {"delay":{"ms":200}}"#),
        (
            r#"{"command":"fault","servers":[1],"fault":"silent"}"#,
            "no server has the id 1; there are [1015809]",
        ),
        (r#"{"command":"fault","fault":{"drop":{"probability":2}}}"#, "not between 0 and 1"),
        (r#"{"command":"fault","fault":{"force_deny_of":{}}}"#, "needs a label, a bucket or both"),
        (r#"{"command":"release","order":{"list":[0]}}"#, "place 0 cannot be released"),
    ] {
        let reply = control.line(line).await;
        assert_eq!(reply["ok"], false, "{line}");
        assert!(reply["error"].as_str().unwrap().contains(part), "{reply}");
    }
    assert_eq!(control.tell(json!({"command": "status"})).await["ok"], true);
}

#[tokio::test]
async fn commands_given_at_start_are_applied() {
    let silence = r#"{"command":"fault","servers":[9404417],"fault":"force_deny"}"#;
    let served = Served::start(&["--apply", silence, "--apply", r#"{"command":"ttl","seconds":9}"#]).await;
    let client = Client::new(&served.key).await;
    for (place, allow) in [(0, true), (1, false)] {
        client.send(served.address(place), &Ask::token(9)).await;
        assert_eq!(client.answer().await.unwrap().allow, allow);
    }
}

#[tokio::test]
async fn events_go_to_the_file_line_by_line() {
    let served = Served::start(&["--servers", "1"]).await;
    let client = Client::new(&served.key).await;
    for _ in 0..2 {
        client.send(served.address(0), &Ask::token(1)).await;
        client.answer().await.unwrap();
    }
    let text = std::fs::read_to_string(served.folder.path().join("events")).unwrap();
    let events: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(events[1].verdict, Some(Verdict::Deny));
}

#[tokio::test]
async fn a_made_key_carries_what_was_asked_for() {
    let key = keygen(&["--kind", "cookie", "--key-id", "18446744073709551615"]).await;
    assert_eq!((key.kind(), key.key_id(), key.quotas().dedup_ttl_ms_max), (KeyKind::Cookie, u64::MAX, 300));
    let quotas = [
        "--dedup-ttl=2s",
        "--rate-window-max=65536ms",
        "--rate-buckets-max=16",
        "--latency-services-max=8",
        "--metrics-labels-max=4",
        "--latency-buffer-size-max=2",
    ];
    let key = keygen(&[&["--kind", "aes", "--key-id", "1"][..], &quotas].concat()).await;
    let quotas = key.quotas();
    assert_eq!((quotas.dedup_ttl_ms_max, quotas.rate_window_size_ms_max), (2000, 65_536));
    assert_eq!((quotas.rate_buckets_max, quotas.latency_services_max), (16, 8));
    assert_eq!((quotas.metrics_labels_max, quotas.latency_buffer_size_max), (4, 2));
}

#[tokio::test]
async fn the_official_client_reads_a_made_key() {
    for kind in ["aes", "cookie"] {
        let key = keygen(&["--kind", kind, "--key-id", "9"]).await;
        key.encode().parse::<ratelimitly::ApiKey>().unwrap();
    }
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    for (arguments, part) in [
        (&["serve"][..], "--key"),
        (&["serve", "--key", "rl-none1xyz"], "--key"),
        (&["serve", "--key", "foo"], "not an API key"),
        (&["serve", "--key", "foo"], "`ratelimitly-devserver keygen --kind aes --key-id 1`"),
        (&["serve", "--servers", "0"], "--servers"),
        (&["serve", "--ttl", "5"], "like 300ms"),
        (&["serve", "--apply", "{}"], "--apply"),
        (&["serve", "--apply", r#"{"delay":200}"#], r#"{"command":"fault","fault":{"delay":{"ms":200}}}"#),
        (&["serve", "--name", "bucket=checkout"], "bucket=checkout@100r/m"),
        (&["keygen", "--kind", "aes", "--key-id", "1", "--dedup-ttl", "15ms"], "steps of 10"),
        (&["keygen", "--kind", "aes", "--key-id", "1", "--rate-window-max", "60s"], "65536ms"),
        (&["keygen", "--kind", "aes", "--key-id", "1", "--rate-buckets-max", "3"], "power of two"),
    ] {
        let output = output(arguments).await;
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(complaint.contains(part), "{arguments:?}: {complaint}");
    }
}

#[tokio::test]
async fn a_control_socket_left_behind_is_replaced_and_one_in_use_is_not() {
    let served = Served::start(&["--servers", "1"]).await;
    let control = served.control();
    let (key, path) = (served.key.encode(), control.to_str().unwrap().to_owned());
    let refused = output(&["serve", "--dns", "127.0.0.1:0", "--key", &key, "--control", &path]).await;
    assert!(String::from_utf8(refused.stderr).unwrap().contains("another process listens"));
    let stale = served.folder.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let mut second = binary(&["serve", "--dns", "127.0.0.1:0", "--key", &key, "--control"]);
    let mut second = second.arg(&stale).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(second.stdout.take().unwrap()).lines();
    let first = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
    assert!(first.is_some_and(|line| line.contains("ready")));
    assert_eq!(Control::connect(&stale).await.tell(json!({"command": "status"})).await["ok"], true);
}
