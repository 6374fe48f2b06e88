//! Checks of this module's rules and of nginx's own limits: places where they are never asked, fields that refused clients
//! never see, keys that are a proxy's.

use super::finding::{Finding, Known};
use super::place::Place;
use super::tree::Directive;

/// `try_files` from a place with a rule into one without.
pub fn fallbacks(places: &[Place<'_>], _: &Known) -> Vec<Finding> {
    let mut findings = Vec::new();
    for place in places.iter().filter(|place| !place.rules().is_empty()) {
        for line in place.own("try_files") {
            let target = line.args.last().map_or("", String::as_str);
            let Some(fallback) = place.fallback(target).filter(|fallback| fallback.rules().is_empty()) else {
                continue;
            };
            let block = fallback.block();
            let text = format!(
                "try_files sends requests for missing files to \"{target}\", where location {} (line {}) has no rule. The rule of this \
                 place limits only files that exist. Put the rule into the fallback too, or into the server",
                block.args.join(" "),
                block.line
            );
            findings.push(Finding::at(line, "try-files", text));
        }
    }
    findings
}

/// Rules beside `return`, which answers before any of them is asked.
pub fn returns(places: &[Place<'_>], _: &Known) -> Vec<Finding> {
    let mut findings = Vec::new();
    for place in places {
        let Some(answer) = place.own("return").next() else { continue };
        let rules = place.block().inside().iter().filter(|directive| asks(directive));
        findings.extend(rules.map(|rule| {
            let text = format!(
                "\"{}\" is never asked here: return in line {} answers before it. Move return into a location of its own \
                 that the rule's location leads to, or take the rule out",
                rule.name, answer.line
            );
            Finding::at(rule, "return", text)
        }));
    }
    findings
}

fn asks(directive: &Directive) -> bool {
    match directive.name.as_str() {
        "ratelimitly" => directive.first() != "off",
        name => matches!(name, "limit_req" | "limit_conn"),
    }
}

/// `Retry-After` that refused clients do not get.
pub fn retry_after(places: &[Place<'_>], _: &Known) -> Vec<Finding> {
    let lines = places.iter().flat_map(|place| place.own("add_header"));
    let meant = lines.filter(|line| {
        let value = line.args.get(1).map_or("", String::as_str);
        line.first().eq_ignore_ascii_case("Retry-After") || value.contains("ratelimitly_retry_after")
    });
    let bad = meant.filter(|line| line.args.last().is_none_or(|last| last != "always"));
    let text = "without always, add_header leaves this field out of a 429 and a 503, the answers that it is for. Write \
                always at its end";
    bad.map(|line| Finding::at(line, "retry-after", text)).collect()
}

/// Limits by the address of the connection where that is a proxy's.
pub fn proxy_address(places: &[Place<'_>], known: &Known) -> Vec<Finding> {
    let real = places.iter().any(|place| place.own("set_real_ip_from").next().is_some());
    let Some(why) = behind_proxy(places, known).filter(|_| !real) else { return Vec::new() };
    let zones =
        places.iter().flat_map(|place| place.block().inside()).filter(|directive| by_address(directive));
    let text = |zone: &Directive| {
        format!(
            "{} counts by the address of the connection, and {why}: all clients of a proxy share one limit. Name the \
             proxies with set_real_ip_from and their field with real_ip_header",
            zone.name
        )
    };
    zones.map(|zone| Finding::at(zone, "proxy-address", text(zone))).collect()
}

fn by_address(directive: &Directive) -> bool {
    let zone = matches!(directive.name.as_str(), "limit_req_zone" | "limit_conn_zone" | "ratelimitly_zone");
    let address = |arg: &String| {
        ["$binary_remote_addr", "$remote_addr", "${binary_remote_addr}", "${remote_addr}"]
            .iter()
            .any(|name| arg.contains(name))
    };
    zone && directive.args.iter().any(address)
}

fn behind_proxy(places: &[Place<'_>], known: &Known) -> Option<String> {
    let protocol = |listen: &Directive| listen.args.iter().any(|arg| arg == "proxy_protocol");
    if places.iter().flat_map(|place| place.own("listen")).any(protocol) {
        return Some("a proxy stands before this nginx (listen ... proxy_protocol)".to_owned());
    }
    let (private, all) = known.private.filter(|(private, all)| *all > 0 && private * 10 >= all * 9)?;
    Some(format!(
        "{private} of {all} requests in the access log come from private addresses, as a proxy's do"
    ))
}
