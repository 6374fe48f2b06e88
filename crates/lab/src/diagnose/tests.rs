//! Whole diagnoses of hand-made logs, one for each cause; and that no input ends in a panic.

use super::*;
use clap::Parser;
use proptest::prelude::*;
use std::fmt::Write;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// What arrives in a second, and how the application does.
#[derive(Clone, Copy)]
struct Second {
    requests: u32,
    /// Of a hundred.
    heavy: u32,
    clients: u32,
    /// The application's time for /light and /heavy.
    light: f64,
    heavy_time: f64,
    /// What each request waits before.
    wait: f64,
}

const USUAL: Second =
    Second { requests: 200, heavy: 0, clients: 10, light: 0.05, heavy_time: 0.3, wait: 0.0 };

/// Ten usual seconds and five others in which the wait grows; then the application's log, likewise.
fn logs(then: Second) -> (String, String) {
    let (mut access, mut app) = (String::new(), String::new());
    for second in 0..15_u32 {
        let growing = Second { wait: 0.15 * f64::from(second.saturating_sub(9)), ..then };
        let now = if second < 10 { USUAL } else { growing };
        for nth in 0..now.requests {
            let heavy = nth * now.heavy / 100 != (nth + 1) * now.heavy / 100;
            let (path, took) = if heavy { ("/heavy", now.heavy_time) } else { ("/light", now.light) };
            let at = 1000.0 + f64::from(second) + f64::from(nth) / f64::from(now.requests);
            let (header, client) = (now.wait + took, nth % now.clients);
            let end = at + header;
            let _ = writeln!(
                access,
                "{end:.3} 200 \"GET {path} HTTP/1.1\" 192.0.2.{client} 127.0.0.1:9 200 {header:.3} {header:.3} - allow \
                 - 0.001 \"-\""
            );
            let _ = writeln!(app, "{end:.3} {path} {took:.4} served");
        }
    }
    (access, app)
}

/// The report of these logs with these further arguments.
fn report(access: &str, app: Option<&str>, arguments: &[&str]) -> Result<String, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let mut words = vec!["diagnose".to_owned(), write("access.log", access)];
    if let Some(app) = app {
        words.extend(["--app-log".to_owned(), write("app.log", app)]);
    }
    words.extend(arguments.iter().map(|word| (*word).to_owned()));
    run(&Cli::try_parse_from(words).expect("good arguments").options)
}

const APP_FORMAT: [&str; 2] = ["--app-format", "$msec $uri $app_time $fate"];

#[track_caller]
fn says(then: Second, with_app: &str, without: &str) {
    let (access, app) = logs(then);
    let both = report(&access, Some(&app), &APP_FORMAT).expect("a report");
    assert!(both.contains(with_app), "{both}");
    let one = report(&access, None, &[]).expect("a report");
    assert!(one.contains(without), "{one}");
}

#[test]
fn longer_processing_is_told_from_the_applications_log() {
    says(
        Second { light: 0.12, ..USUAL },
        "Cause: longer processing",
        "The logs cannot tell: longer processing and",
    );
}

#[test]
fn more_heavy_requests_are_told_from_the_paths() {
    let heavy = Second { heavy: 40, ..USUAL };
    says(heavy, "Cause: more heavy requests", "Cause: more heavy requests");
}

#[test]
fn more_requests_from_more_clients_are_told_from_nginxs_log() {
    let more = Second { requests: 600, clients: 30, ..USUAL };
    says(more, "Cause: more requests, from more clients", "Cause: more requests, from more clients");
}

#[test]
fn more_requests_per_client_are_told_from_nginxs_log() {
    let more = Second { requests: 400, ..USUAL };
    says(more, "Cause: more requests per client", "Cause: more requests per client");
}

#[test]
fn fewer_slots_are_what_is_left_when_nothing_else_has_changed() {
    says(USUAL, "Cause: fewer slots", "The logs cannot tell: longer processing and");
}

#[test]
fn without_a_growing_wait_there_is_no_cause() {
    let (access, app) = logs(USUAL);
    let quiet: Vec<&str> = access.lines().take(2000).collect();
    let text = report(&quiet.join("\n"), Some(&app), &APP_FORMAT).expect("a report");
    assert!(text.contains("Nothing waits"), "{text}");
}

#[test]
fn a_log_that_begins_in_the_trouble_cannot_tell() {
    let mut access = String::new();
    for nth in 0..400 {
        let at = 1001.0 + f64::from(nth) / 40.0;
        let _ = writeln!(
            access,
            "{at:.3} 504 \"GET / HTTP/1.1\" 192.0.2.1 127.0.0.1:9 504 - 1.000 - allow - 0.001 \"-\""
        );
    }
    let text = report(&access, None, &[]).expect("a report");
    assert!(text.contains("no usual time before that") && text.contains("504s came after 1.0"), "{text}");
}

#[test]
fn the_figures_behind_a_cause_are_shown() {
    let (access, app) = logs(Second { heavy: 40, ..USUAL });
    let text = report(&access, Some(&app), &APP_FORMAT).expect("a report");
    let row = |what: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(what));
        line.unwrap_or_else(|| panic!("no row {what} in {text}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(row("cost of the mixture"), "cost of the mixture at usual times x 1.00 x 3.00");
    assert_eq!(row("requests per second"), "requests per second 200.0 200.0");
    assert!(row("/heavy").starts_with("/heavy 0 -> 40% - -> "), "{}", row("/heavy"));
}

#[test]
fn lines_that_do_not_fit_are_counted_and_a_log_without_any_that_fit_is_refused() {
    let (access, _) = logs(USUAL);
    let text = report(&format!("{access}cut off at 12\n"), None, &[]).expect("a report");
    assert!(text.contains("3000 lines; 1 could not be read, such as\n"), "{text}");
    let error = report("x\ny\n", None, &[]).expect_err("no line fits").to_string();
    assert!(
        error.starts_with("no line of the access log fits its format; it must be given with --format"),
        "{error}"
    );
}

#[test]
fn a_format_is_found_in_the_configuration_and_what_the_logs_say_reaches_its_checks() {
    let mut access = String::new();
    (0..30).for_each(|nth| {
        let _ = writeln!(access, "2026-12-01T00:00:{nth:02}+00:00|/a|499|10.0.0.7|3.000");
    });
    let conf = "http { log_format short '$time_iso8601|$uri|$status|$remote_addr|$request_time';\n\
                limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;\n\
                server { location / { proxy_pass http://127.0.0.1:9; } } }";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nginx.conf");
    std::fs::write(&path, conf).expect("a file");
    let path = path.display().to_string();
    let text = report(&access, None, &["--config", &path, "--format", "short"]).expect("a report");
    assert!(
        text.contains(":2: limit_req_zone counts by the address") && text.contains("30 of 30 requests"),
        "{text}"
    );
    assert!(text.contains(":3: proxy_read_timeout is 60s (the default), and clients wait 3"), "{text}");
}

#[test]
fn the_help_has_examples_that_can_be_read() {
    let help = Cli::try_parse_from(["diagnose", "--help"]).err().expect("help").to_string();
    for line in help.lines().filter_map(|line| line.trim().split_once("ci/lab diagnose ")) {
        let words = line.1.replace('\'', "\"");
        // A shell's quotes: what is in them is one word.
        let words = words.split('"').enumerate().flat_map(|(nth, text)| match nth % 2 {
            0 => text.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![text.to_owned()],
        });
        assert!(
            Cli::try_parse_from(std::iter::once("diagnose".to_owned()).chain(words)).is_ok(),
            "{}",
            line.1
        );
    }
    assert!(help.contains("ci/lab diagnose"), "{help}");
}

#[test]
fn the_page_shows_the_format_that_is_read_and_a_report_as_it_is() {
    let page = include_str!("../../../../docs/overload.md");
    let block = |start: &str| {
        let behind = page.split_once(start).unwrap_or_else(|| panic!("no {start}")).1;
        behind.split_once("```").expect("a block ends").0
    };
    let format: String = block("log_format app ").split('\'').skip(1).step_by(2).collect();
    assert_eq!(format, RECOMMENDED);
    let (access, app) = logs(Second { heavy: 40, ..USUAL });
    let text = report(&access, Some(&app), &APP_FORMAT).expect("a report");
    assert_eq!(block("```text\n"), text, "docs/overload.md must show this report");
}

/// What both languages are made of, so that more than the first byte is read.
const PIECES: &str = "http server location include return try_files upstream ratelimitly ratelimitly_guard \
    ratelimitly_tracker keepalive proxy_pass ; { } { } ' \" \\ # $ ${ @a / ~ [ * content_by_lua_block --[[ ]] ttl=1s \
    threshold=0 tracker= - , : 1 0.1 1e9 \u{e9} \u{1b} GET HTTP/1.1 $status $uri $msec $upstream_addr |";

fn texts() -> impl Strategy<Value = String> {
    let mut pieces: Vec<&str> = PIECES.split_whitespace().collect();
    pieces.extend([" ", " ", "\n", ", ", " : ", "# configuration file /a:\n"]);
    prop::collection::vec(prop::sample::select(pieces), 0..80).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_configuration_ends_in_findings_or_faults(text in texts()) {
        let conf = Conf::read("x", text.as_bytes());
        let known = Known { answers_per_second: Some(1.0), clients_wait: Some((1, "x".into())), ..Known::default() };
        prop_assert!(findings(&conf, &known).lines().count() > 1);
    }

    #[test]
    fn any_line_of_any_format_ends_in_values_or_an_error(format in texts(), line in texts()) {
        if let Ok(format) = log::format::Format::parse(&format) {
            let mut values = Vec::new();
            if format.values(&line, &mut values).is_ok() {
                prop_assert!(values.iter().all(|value| line.contains(value)));
            }
        }
    }

    #[test]
    fn any_log_ends_in_a_report_or_an_error(lines in texts(), bytes in any::<Vec<u8>>()) {
        let lines = format!("{lines}\n1000.0|/|200\n{}|/a|504\n", lines.len());
        let text = [lines.as_bytes(), &bytes].concat();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        std::fs::write(&path, text).expect("a file");
        let words = ["x", "--format", "$msec|$uri|$status", path.to_str().expect("a path in UTF-8")];
        let options = Cli::try_parse_from(words).expect("good arguments").options;
        prop_assert!(run(&options).is_ok());
    }
}
