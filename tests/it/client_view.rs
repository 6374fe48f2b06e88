//! docs/client-view.md: its examples, started as they stand there, and each row of its table of outcomes.

use crate::controls::fields::Fields;
use crate::kitchen::{Kitchen, block, page};
use ratelimitly_devserver::Fault;
use ratelimitly_harness::http::Response;
use regex::Regex;

const PAGE: &str = "docs/client-view.md";
const OUTCOMES: &str = "Status and header fields";
/// Adds an outcome to the test's log to the page's configuration.
const LOGGED: (&str, &str) = (
    "server {\n",
    "log_format outcome '$ratelimitly_outcome'; server {\n access_log {prefix}/access.log outcome;",
);

/// The rows of the page's first table: its cells.
fn rows() -> Vec<Vec<String>> {
    let page = page(PAGE);
    let section = page.split("\n## ").find(|section| section.starts_with(OUTCOMES)).expect("the section");
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// Whether a cell begins with "yes" or "no".
fn says_yes(cell: &str) -> bool {
    assert!(cell.starts_with("yes") || cell == "no", "{cell}");
    cell.starts_with("yes")
}

/// Looks at a response as a row has it.
fn check(row: &[String], status: u16, told: &str, response: &Response) {
    let [outcomes, what, statuses, retry_after, limits] = row else { panic!("five cells: {row:?}") };
    assert!(outcomes.contains(&format!("`{told}`")), "{told}, not {outcomes}");
    let says = format!("{what}: {}", response.status);
    assert_eq!(response.status, status, "{says}");
    let ours = Regex::new("429|guard=|500|as of a zone's").expect("a constant pattern");
    assert_eq!(ours.is_match(statuses), status != 200, "{says}");
    let fields = Fields::of(response);
    assert_eq!(fields.retry_after.is_some(), says_yes(retry_after), "{says}");
    assert_eq!(
        (fields.limit.is_empty(), fields.policy.is_empty()),
        (!says_yes(limits), !says_yes(limits)),
        "{says}"
    );
}

/// What the page says of the row, who is asked under which fault, and the status.
const ASKED: [(&str, Option<Fault>, &str, u16); 9] = [
    ("a server allows", None, "/", 200),
    ("a zone refuses", Some(Fault::Deficit { resource: 0, tokens: 1 }), "/", 429),
    ("only guards refuse", Some(Fault::Latency { guard: 0, ms: 400 }), "/", 503),
    ("there is no answer", Some(Fault::Silent), "/", 200),
    ("there is no answer", Some(Fault::Silent), "/login", 429),
    ("a dry run", None, "/new", 200),
    ("a dry run", Some(Fault::ForceDeny), "/new", 200),
    ("a dry run", Some(Fault::Silent), "/new", 200),
    ("no rule is in effect", Some(Fault::ForceDeny), "/health", 200),
];

#[tokio::test(flavor = "multi_thread")]
async fn m12_each_outcome_has_the_status_and_the_fields_of_its_row() {
    let kitchen = Kitchen::start(&block(&page(PAGE), OUTCOMES, "nginx"), LOGGED).await;
    let rows = rows();
    for (position, (what, fault, path, status)) in ASKED.into_iter().enumerate() {
        kitchen.dev.clear([]).await;
        if let Some(fault) = fault {
            kitchen.dev.fault(fault).await;
        }
        let response = kitchen.get(path).await;
        let told = kitchen.nginx.await_access_log(position + 1).await.swap_remove(position);
        let row = rows.iter().find(|row| row[1].starts_with(what) && row[0].contains(&format!("`{told}`")));
        check(row.unwrap_or_else(|| panic!("no row for {what}: {told}")), status, &told, &response);
    }
    kitchen.nginx.finish().await;
}

/// The two rows that need more than a fault of the servers.
#[tokio::test(flavor = "multi_thread")]
async fn m12_a_skip_and_an_error_of_the_module_have_the_status_and_the_fields_of_their_rows() {
    let example = block(&page(PAGE), OUTCOMES, "nginx")
        .replace("zone=per_client guard=healthy", "zone=per_client if=$arg_if");
    let example = example.replace("http {\n", "http {\n ratelimitly_fault handler_panic=1;\n");
    let mut kitchen = Kitchen::start(&example, LOGGED).await;
    kitchen.nginx.expect_log(r"\[alert\].*panic at .*injected panic in the handler");
    kitchen.nginx.expect_log(r"\[alert\].*a panic was stopped in the pre-content handler");
    let rows = rows();
    for (position, (what, path, status)) in
        [("the module itself fails", "/?if=1", 500), ("no rule applies", "/", 200)].into_iter().enumerate()
    {
        let response = kitchen.get(path).await;
        let told = kitchen.nginx.await_access_log(position + 1).await.swap_remove(position);
        let row = rows.iter().find(|row| row[1].starts_with(what)).expect("a row");
        check(row, status, &told, &response);
    }
    kitchen.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_remembered_denial_has_the_status_and_the_fields_of_its_row() {
    let example = block(&page(PAGE), OUTCOMES, "nginx").replacen(" rate=", " remember_deny=10s rate=", 1);
    let kitchen = Kitchen::start(&example, LOGGED).await;
    kitchen.dev.fault(Fault::Deficit { resource: 0, tokens: 100 }).await;
    assert_eq!(kitchen.get("/").await.status, 429);
    kitchen.dev.clear([]).await;

    let response = kitchen.get("/").await;

    let told = kitchen.nginx.await_access_log(2).await.swap_remove(1);
    let rows = rows();
    let row = rows.iter().find(|row| row[1].starts_with("a worker remembers a denial")).expect("a row");
    check(row, 429, &told, &response);
    kitchen.nginx.finish().await;
}

#[test]
fn each_row_and_each_outcome_is_tried() {
    let tried = [
        "a server allows",
        "a zone refuses",
        "only guards refuse",
        "a worker remembers a denial",
        "there is no answer",
        "there is no answer",
        "the module itself fails",
        "no rule applies",
        "a dry run",
        "no rule is in effect",
    ];
    let rows = rows();
    assert_eq!(rows.len(), tried.len());
    assert!(rows.iter().zip(tried).all(|(row, tried)| row[1].starts_with(tried)), "{rows:#?}");
    let reference = page("docs/configuration.md");
    let outcomes = block_of_outcomes(&reference);
    assert!(outcomes.len() > 7, "{outcomes:?}");
    for outcome in outcomes {
        assert!(rows.iter().any(|row| row[0].contains(&outcome)), "{outcome} has no row");
    }
}

/// The values of `$ratelimitly_outcome` in the reference, in their backquotes.
fn block_of_outcomes(reference: &str) -> Vec<String> {
    let section = reference.split("\n### ").find(|section| section.starts_with("$ratelimitly_outcome"));
    let rows = section.expect("the section").lines().filter(|line| line.starts_with("| `"));
    let word = Regex::new("`[a-z_]+`").expect("a constant pattern");
    rows.flat_map(|row| word.find_iter(row.split('|').nth(1).expect("a cell")))
        .map(|found| found.as_str().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_problem_details_name_what_refused() {
    let kitchen = Kitchen::start(&block(&page(PAGE), "A body for programs", "nginx"), ("", "")).await;
    kitchen.dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    let refused = kitchen.get("/").await;
    assert_eq!((refused.status, refused.header("Retry-After")), (429, Some("1")));
    assert_eq!(refused.header("Content-Type"), Some("application/problem+json"));
    let body: serde_json::Value = serde_json::from_slice(&refused.body).expect("JSON");
    assert_eq!(body["violated-policies"], serde_json::json!(["per_client"]));
    kitchen.dev.fault(Fault::Silent).await;
    assert_eq!(kitchen.status("/").await, 503, "nginx's own page: there is nothing to name");
    kitchen.nginx.finish().await;
}
