//! Checks of what nginx keeps open to the application, repeats, and waits for.

use super::duration;
use super::finding::{Finding, Known, Version};
use super::place::Place;
use super::tree::Directive;
use std::collections::HashSet;

/// Keeps connections to `upstream` blocks without being told to.
const KEEPS_BY_DEFAULT: Version = Version([1, 29, 7]);
/// nginx's defaults, milliseconds.
const KEEPALIVE_TIMEOUT: u32 = 60_000;
const READ_TIMEOUT: u32 = 60_000;

/// Directives that pass a request on, with the beginning of the names of their settings.
const PASSES: [(&str, &str); 5] = [
    ("proxy_pass", "proxy"),
    ("fastcgi_pass", "fastcgi"),
    ("uwsgi_pass", "uwsgi"),
    ("scgi_pass", "scgi"),
    ("grpc_pass", "grpc"),
];

/// Idle connections that the application closes first, and connections that are kept unasked.
pub fn keepalive(places: &[Place<'_>], known: &Known) -> Vec<Finding> {
    let upstreams = places.iter().flat_map(|place| place.own("upstream"));
    upstreams.filter_map(|upstream| kept(upstream, known)).collect()
}

fn kept(upstream: &Directive, known: &Known) -> Option<Finding> {
    match upstream.own("keepalive").last() {
        Some(keepalive) if keepalive.first() == "0" => None,
        Some(keepalive) => closes_late(upstream, keepalive, known),
        None if known.nginx.is_some_and(|version| version < KEEPS_BY_DEFAULT) => None,
        None => by_default(upstream, known),
    }
}

/// nginx must be the first to close.
fn closes_late(upstream: &Directive, keepalive: &Directive, known: &Known) -> Option<Finding> {
    let own = upstream.own("keepalive_timeout").last();
    let ms = own.map_or(Some(KEEPALIVE_TIMEOUT), |own| duration(own.first()))?;
    let kept = match own {
        Some(_) => format!("keepalive_timeout {}", shown(ms)),
        None => "no keepalive_timeout, which means 60s".to_owned(),
    };
    let race = "nginx may send a request on a connection that the application is closing: a GET is repeated, a POST \
                becomes a 502";
    let text = match (known.app_keepalive_ms, own) {
        (Some(app), _) if ms < app => return None,
        (Some(app), _) => format!(
            "upstream {} has {kept}, and the application closes idle connections after {}; {race}. Set \
             keepalive_timeout below {}",
            upstream.first(),
            shown(app),
            shown(app)
        ),
        (None, Some(_)) => return None,
        (None, None) => format!(
            "upstream {} keeps connections and has {kept}. If the application closes idle connections sooner (many do \
             after 5s), {race}. Set keepalive_timeout below the application's idle time, and give that time with \
             --app-keepalive",
            upstream.first()
        ),
    };
    Some(Finding::at(own.unwrap_or(keepalive), "keepalive-timeout", text))
}

fn by_default(upstream: &Directive, known: &Known) -> Option<Finding> {
    let timeout = upstream.own("keepalive_timeout").last().and_then(|own| duration(own.first()));
    if known.app_keepalive_ms.zip(timeout).is_some_and(|(app, ms)| ms < app) {
        return None;
    }
    let since = match known.nginx {
        Some(Version([major, minor, patch])) => format!("nginx {major}.{minor}.{patch} keeps"),
        None => "nginx 1.29.7 and later keep".to_owned(),
    };
    let counted = upstream.own("server").any(|server| server.named("max_conns").is_some());
    let counted = if counted { " Idle connections count against max_conns too." } else { "" };
    let text = format!(
        "upstream {} has no keepalive line: {since} its connections open by default, for 60s unless keepalive_timeout \
         says otherwise.{counted} Set keepalive_timeout below the application's idle time, or \"keepalive 0\"",
        upstream.first()
    );
    Some(Finding::at(upstream, "keepalive-default", text))
}

/// Requests that are not idempotent and are sent again.
pub fn retries(places: &[Place<'_>], _: &Known) -> Vec<Finding> {
    let lines = places.iter().flat_map(|place| {
        PASSES.iter().flat_map(move |(_, prefix)| {
            let name = format!("{prefix}_next_upstream");
            place.block().inside().iter().filter(move |directive| directive.name == name)
        })
    });
    let text = "non_idempotent lets nginx send a POST to a second server after the first may have done the work. One \
                admission, and the work is done twice. Take non_idempotent out, and let nginx be the first to close \
                idle connections (keepalive_timeout)";
    let bad = lines.filter(|line| line.args.iter().any(|arg| arg == "non_idempotent"));
    bad.map(|line| Finding::at(line, "non-idempotent", text)).collect()
}

/// Timeouts that are longer than clients wait.
pub fn read_timeout(places: &[Place<'_>], known: &Known) -> Vec<Finding> {
    let Some((wait, how)) = &known.clients_wait else { return Vec::new() };
    let mut seen = HashSet::new();
    let mut findings = Vec::new();
    for (place, pass, prefix) in passing(places) {
        let name = format!("{prefix}_read_timeout");
        let own = place.effective(&name).last().copied();
        let ms = own.map_or(Some(READ_TIMEOUT), |own| duration(own.first()));
        let Some(ms) = ms.filter(|ms| ms > wait) else { continue };
        let at = own.unwrap_or(pass);
        if seen.insert((at.file.clone(), at.line)) {
            let default = if own.is_some() { "" } else { " (the default)" };
            let text = format!(
                "{name} is {}{default}, and clients wait {} ({how}). The application goes on working for clients that \
                 have left. Set {name} to what clients wait",
                shown(ms),
                shown(*wait)
            );
            findings.push(Finding::at(at, "read-timeout", text));
        }
    }
    findings
}

/// The places that pass requests on, with the directive that does it and the beginning of its settings' names.
pub fn passing<'a>(places: &[Place<'a>]) -> Vec<(Place<'a>, &'a Directive, &'static str)> {
    let pass = |place: &Place<'a>| {
        let (name, prefix) = PASSES.into_iter().find(|(name, _)| place.block().own(name).next().is_some())?;
        Some((place.clone(), place.block().own(name).next()?, prefix))
    };
    places.iter().filter_map(pass).collect()
}

/// The time after which a place gives up, milliseconds.
pub fn gives_up_after(place: &Place<'_>, prefix: &str) -> Option<u32> {
    let own = place.effective(&format!("{prefix}_read_timeout"));
    own.last().map_or(Some(READ_TIMEOUT), |own| duration(own.first()))
}

/// Milliseconds as nginx's configuration writes them.
pub fn shown(ms: u32) -> String {
    if ms.is_multiple_of(1000) { format!("{}s", ms / 1000) } else { format!("{ms}ms") }
}
