//! One hand-written configuration for each finding, and beside it the same one put right.

use super::finding::{Known, Version};
use super::*;

/// The checks that find something, with their lines.
fn found(http: &str, known: &Known) -> Vec<(&'static str, u32)> {
    let conf = Conf::read("nginx.conf", format!("http {{\n{http}\n}}\n").as_bytes());
    assert_eq!(conf.faults(), Vec::<String>::new());
    conf.findings(known).into_iter().map(|finding| (finding.check, finding.line)).collect()
}

fn old() -> Known {
    Known { nginx: Some(Version([1, 28, 3])), ..Known::default() }
}

#[test]
fn kept_connections_without_a_timeout_below_the_applications() {
    let upstream = |timeout: &str| format!("upstream app {{\nserver a;\nkeepalive 32;\n{timeout}\n}}");
    let app = Known { app_keepalive_ms: Some(5000), ..old() };
    assert_eq!(found(&upstream(""), &old()), [("keepalive-timeout", 4)]);
    assert_eq!(found(&upstream("keepalive_timeout 10s;"), &app), [("keepalive-timeout", 5)]);
    assert_eq!(found(&upstream("keepalive_timeout 4s;"), &app), []);
    assert_eq!(found("upstream app { server a; keepalive 0; }", &app), []);
}

#[test]
fn connections_that_are_kept_by_default() {
    let known = |nginx| Known { nginx, app_keepalive_ms: Some(5000), ..Known::default() };
    let upstream = "upstream app { server a max_conns=20; }";
    assert_eq!(found(upstream, &known(Some(Version([1, 30, 0])))), [("keepalive-default", 2)]);
    assert_eq!(found(upstream, &known(None)), [("keepalive-default", 2)]);
    assert_eq!(found(upstream, &known(Some(Version([1, 29, 6])))), []);
    assert_eq!(found("upstream app { server a; keepalive_timeout 4s; }", &known(None)), []);
}

#[test]
fn retries_of_what_is_not_idempotent() {
    let server =
        |next: &str| format!("server {{\nlocation / {{\nproxy_next_upstream error timeout{next};\n}}\n}}");
    assert_eq!(found(&server(" non_idempotent"), &old()), [("non-idempotent", 4)]);
    assert_eq!(found(&server(""), &old()), []);
}

#[test]
fn try_files_into_a_fallback_without_a_rule() {
    let server = |rule: &str| {
        format!(
            "server {{\nlocation / {{\nratelimitly zone=a;\ntry_files $uri @app;\n}}\nlocation @app {{ {rule} \
             proxy_pass http://a; }}\n}}"
        )
    };
    assert_eq!(found(&server(""), &old()), [("try-files", 5)]);
    assert_eq!(found(&server("ratelimitly off;"), &old()), [("try-files", 5)]);
    assert_eq!(found(&server("ratelimitly zone=a;"), &old()), []);
    let inherited = "server {\nratelimitly zone=a;\nlocation / { try_files $uri /index.php?$args; }\n\
                     location ~ \\.php$ { fastcgi_pass a; }\n}";
    assert_eq!(found(inherited, &old()), []);
}

#[test]
fn rules_beside_return() {
    let location = |rule: &str| format!("server {{\nlocation / {{\n{rule}\nreturn 301 /x;\n}}\n}}");
    assert_eq!(found(&location("ratelimitly zone=a;"), &old()), [("return", 4)]);
    assert_eq!(found(&location("limit_req zone=a;"), &old()), [("return", 4)]);
    assert_eq!(found(&location("ratelimitly off;"), &old()), []);
    assert_eq!(
        found(&location("if ($a) { return 403; }").replace("return 301 /x;", "limit_req zone=a;"), &old()),
        []
    );
}

#[test]
fn retry_after_without_always() {
    let server = |end: &str| format!("server {{ add_header retry-after $ratelimitly_retry_after{end}; }}");
    assert_eq!(found(&server(""), &old()), [("retry-after", 2)]);
    assert_eq!(found(&server(" always"), &old()), []);
}

#[test]
fn limits_by_a_proxys_address() {
    let zone = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;";
    let proxy = format!("{zone}\nserver {{ listen 80 proxy_protocol; }}");
    assert_eq!(found(&proxy, &old()), [("proxy-address", 2)]);
    assert_eq!(found(&format!("{proxy}\nset_real_ip_from 10.0.0.0/8;"), &old()), []);
    let log = |private| Known { private: Some((private, 100)), ..old() };
    assert_eq!(found(zone, &log(95)), [("proxy-address", 2)]);
    assert_eq!(found(zone, &log(50)), []);
    assert_eq!(found("limit_req_zone $http_x_key zone=a:1m rate=1r/s;", &log(95)), []);
    assert_eq!(
        found("ratelimitly_zone a \"bucket=$remote_addr\" rate=1r/s;", &log(95)),
        [("proxy-address", 2)]
    );
}

#[test]
fn timeouts_longer_than_clients_wait() {
    let server = |line: &str| format!("server {{\n{line}\nlocation / {{\nproxy_pass http://a;\n}}\n}}");
    let known = Known { clients_wait: Some((10_000, "--clients-wait".into())), ..old() };
    assert_eq!(found(&server(""), &known), [("read-timeout", 5)]);
    assert_eq!(found(&server("proxy_read_timeout 11s;"), &known), [("read-timeout", 3)]);
    assert_eq!(found(&server("proxy_read_timeout 10s;"), &known), []);
    assert_eq!(found(&server(""), &old()), []);
}

/// A guard with these settings of its tracker, its threshold, and what its location holds besides.
fn guard(tracker: &str, threshold: &str, location: &str) -> String {
    format!(
        "ratelimitly_tracker t \"service=a\" {tracker};\nratelimitly_guard g tracker=t threshold={threshold};\n\
         server {{\nlocation / {{\nratelimitly guard=g;\n{location}\nproxy_pass http://a;\nproxy_read_timeout 1s;\n}}\n}}"
    )
}

#[test]
fn guards_whose_settings_cannot_work() {
    let good = ("ttl=20ms min_sample_threshold=0", "350ms", "ratelimitly_report t;");
    let with = |tracker, threshold, location| found(&guard(tracker, threshold, location), &old());
    assert_eq!(with(good.0, good.1, good.2), []);
    assert_eq!(with(good.0, good.1, ""), [("guard", 3)], "no report");
    assert_eq!(with("ttl=20ms max_samples=4 min_sample_threshold=5", good.1, good.2), [("guard", 2)]);
    assert_eq!(with("min_sample_threshold=0", good.1, good.2), [("guard", 2)]);
    assert_eq!(with(good.0, "1s", good.2), [("guard", 3)], "not below proxy_read_timeout");
    let known = Known { answers_per_second: Some(133.0), ..old() };
    let few = guard("ttl=20ms min_sample_threshold=4", good.1, good.2);
    assert_eq!(found(&few, &known), [("guard", 2)], "2.7 samples in 20 ms");
    assert_eq!(found(&few, &old()), [], "without a log the rate of answers is unknown");
}

#[test]
fn a_log_format_is_found_by_its_name() {
    let conf = Conf::read("-", b"http { log_format a escape=json '{$status' ' $uri}'; }");
    assert_eq!(conf.log_format("a").as_deref(), Some("{$status $uri}"));
    assert_eq!(conf.log_format("b"), None);
}
