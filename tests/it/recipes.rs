//! The recipes of docs/recipes.md: each configuration is started as it stands there, with the test's own key, addresses and
//! paths, and does what the page says.

use crate::kitchen::{self, Kitchen};
use ratelimitly_devserver::Fault;
use ratelimitly_harness::{h2, http};
use regex::Regex;

/// Most lines of a recipe.
const LINES_MAX: usize = 25;

fn page() -> String {
    kitchen::page("docs/recipes.md")
}

fn block(heading: &str, kind: &str) -> String {
    kitchen::block(&page(), heading, kind)
}

async fn start(heading: &str) -> Kitchen {
    start_with(heading, ("", "")).await
}

/// Starts a recipe, in which `change` is replaced.
async fn start_with(heading: &str, change: (&str, &str)) -> Kitchen {
    Kitchen::start(&block(heading, "nginx"), change).await
}

#[test]
fn m13_every_recipe_is_whole_and_short_and_has_a_test() {
    let page = page();
    let tests = include_str!("recipes.rs");
    let mut recipes = 0;
    for section in page.split("\n## ").skip(1) {
        let heading = section.lines().next().expect("a heading");
        let block = block(heading, "nginx");
        assert!(block.starts_with("http {\n") && block.ends_with("\n}\n"), "{heading}: a whole http block");
        assert!(block.lines().count() <= LINES_MAX, "{heading}: {} lines", block.lines().count());
        let started = Regex::new(&format!(r#"start(_with)?\("{heading}""#)).expect("a plain heading");
        assert!(started.is_match(tests), "{heading} has no test");
        assert!(page.contains(&format!("| [{heading}](#")), "{heading} is not in the table");
        recipes += 1;
    }
    assert_eq!(recipes, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_one_log_line_tells_a_denial_from_a_failed_limiter() {
    let kitchen = start("Tell a denial from a failed limiter").await;
    assert_eq!(kitchen.status("/").await, 200);
    kitchen.dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    assert_eq!(kitchen.status("/").await, 429);
    kitchen.dev.fault(Fault::Silent).await;
    assert_eq!(kitchen.status("/").await, 200);
    let lines = kitchen.log(3).await;
    assert!(lines[0].contains(" 200 outcome=allow failure=- by=\"-\" took=0."), "{lines:?}");
    assert!(lines[1].contains(" 429 outcome=deny failure=- by=\"zone:per_client\" took=0."), "{lines:?}");
    assert!(lines[2].contains(" 200 outcome=fail_open failure=timeout by=\"-\" took=1."), "{lines:?}");
    assert!(lines[2].ends_with(" server=-") && !lines[1].ends_with(" server=-"), "{lines:?}");
    kitchen.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_header_fields_tell_the_limit_and_when_to_come_back() {
    let kitchen = start("Send Retry-After and RateLimit").await;
    let allowed = kitchen.get("/").await;
    assert_eq!(allowed.header("RateLimit-Policy"), Some("\"per_client\";q=100;w=60"));
    assert_eq!(allowed.header("RateLimit"), Some("\"per_client\";r=99;t=60"));
    assert_eq!(allowed.header("Retry-After"), None);
    kitchen.dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    let denied = kitchen.get("/").await;
    assert_eq!((denied.status, denied.header("Retry-After")), (429, Some("1")));
    kitchen.nginx.finish().await;
}

/// nginx's hash of the clients decides, so the number is the same each time.
#[tokio::test(flavor = "multi_thread")]
async fn m13_e12_a_rule_is_enforced_for_a_few_clients_and_tried_for_the_others() {
    let change = ("split_clients $remote_addr", "split_clients $arg_client");
    let kitchen = start_with("Try a rule before it bites", change).await;
    kitchen.dev.fault(Fault::ForceDeny).await;
    let mut refused = 0;
    for client in 0..200 {
        refused += usize::from(kitchen.status(&format!("/?client={client}")).await == 429);
    }
    let lines = kitchen.log(200).await;
    assert!((1..=30).contains(&refused), "{refused} of 200");
    assert_eq!(lines.iter().filter(|line| line.ends_with(" 429 deny")).count(), refused);
    assert_eq!(lines.iter().filter(|line| line.ends_with(" 200 deny_dry_run")).count(), 200 - refused);
    kitchen.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_each_place_says_what_a_failure_and_a_denial_mean() {
    let kitchen = start("Say what a failure means").await;
    kitchen.dev.fault(Fault::Silent).await;
    assert_eq!(kitchen.status("/").await, 200);
    assert_eq!(kitchen.status("/login").await, 503);
    assert_eq!(kitchen.status("/scraped/").await, 503);
    kitchen.dev.clear([]).await;
    kitchen.dev.fault(Fault::ForceDeny).await;
    assert_eq!(kitchen.status("/").await, 429);
    assert!(http::try_get(kitchen.nginx.port(), "/scraped/").await.is_err());
    kitchen.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_requests_are_exempt_by_address_and_place_and_weighed_by_method() {
    let kitchen = start_with("Exempt and weigh requests", ("geo $limited", "geo $arg_from $limited")).await;
    kitchen.status("/").await;
    kitchen.status("/health").await;
    kitchen.status("/?from=192.0.2.7").await;
    let post = http::Request::post("/").header("Host", "localhost").body("".into()).expect("a request");
    http::send(kitchen.nginx.port(), post).await.expect("a response");
    let tokens = kitchen.dev.admissions().into_iter().map(|event| event.resources[0].tokens);
    assert_eq!(tokens.collect::<Vec<_>>(), [1, 10]);
    kitchen.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_the_key_comes_from_its_file() {
    let kitchen = start("Keep the key in a file").await;
    assert_eq!(kitchen.status("/").await, 200);
    assert_eq!(kitchen.dev.admissions().len(), 1);
    kitchen.nginx.finish().await;
}

/// fail2ban's `<HOST>` is an address, and its patterns are Python's, whose syntax this one shares with Rust's.
#[tokio::test(flavor = "multi_thread")]
async fn m13_e07_the_filter_of_fail2ban_matches_denials_by_zones_and_nothing_else() {
    let filter = block("Feed fail2ban", "ini");
    let pattern = filter.split_once("failregex = ").expect("a filter").1.trim();
    let pattern = pattern.replace("<HOST>", "(?<host>[0-9.]+)").replacen('^', "", 1);
    // fail2ban takes the time from the beginning of a line away.
    let pattern = Regex::new(&format!(r"^\d+/\d+/\d+ [\d:]+{pattern}")).expect("a pattern");
    let shown = block("Feed fail2ban", "text");
    assert_eq!(&pattern.captures(&shown).expect("the line of the page matches")["host"], "192.0.2.7");

    let kitchen = start("Feed fail2ban").await;
    kitchen.dev.fault(Fault::Silent).await;
    kitchen.status("/").await;
    kitchen.dev.clear([]).await;
    kitchen.dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    kitchen.status("/?x=ratelimitly:%20request%20denied%20by%20zone:a,%20client:%20192.0.2.1,").await;
    let matching = kitchen.nginx.error_log();
    let matching: Vec<_> = matching.iter().filter_map(|line| pattern.captures(line)).collect();
    assert_eq!(matching.iter().map(|found| &found["host"]).collect::<Vec<_>>(), ["127.0.0.1"]);
    for other in [
        shown.replace("per_client, client", "per_client, dry run, client"),
        shown.replace("denied by zone:per_client", "denied by guard:healthy"),
        shown.replace("denied by zone:per_client", "refused without a verdict: timeout"),
    ] {
        assert_ne!(other, shown);
        let is_banned = pattern.is_match(&other);
        assert!(!is_banned, "{other}");
    }
    kitchen.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_a_guard_is_fed_with_what_the_backend_took() {
    let kitchen = start("Feed a guard with what the backend took").await;
    assert_eq!(kitchen.status("/").await, 200);
    kitchen.dev.await_reports("one report", |reports| reports.len() == 1).await;
    kitchen.dev.fault(Fault::Latency { guard: 0, ms: 400 }).await;
    assert_eq!(kitchen.status("/").await, 503);
    kitchen.nginx.finish().await;
    assert_eq!(kitchen.dev.reports().len(), 1, "a refused request is not reported");
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_grpc_calls_get_a_status_that_their_clients_understand() {
    let kitchen = start("Answer gRPC calls").await;
    for (fault, status) in [(Fault::ForceDeny, "8"), (Fault::Silent, "14")] {
        kitchen.dev.fault(fault).await;
        let mut connection = h2::Connection::connect(kitchen.nginx.port()).await.expect("connected");
        let call =
            http::Request::post("http://localhost/shop.Cart/Add").header("Content-Type", "application/grpc");
        let mut call = connection.start(call.body(()).expect("a request"), false).await.expect("sent");
        call.send(vec![0; 5].into(), true).await.expect("sent");
        let response = call.response().await.expect("a response");
        assert_eq!((response.status, response.header("grpc-status")), (200, Some(status)));
        assert_eq!(response.header("Content-Type"), Some("application/grpc"));
        assert!(response.body.is_empty());
    }
    kitchen.nginx.finish().await;
}
