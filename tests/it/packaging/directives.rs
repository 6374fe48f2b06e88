//! The directives of the source and those of the reference, `docs/configuration.md`; and the pages' links.

use crate::packaging::{pages, text};
use ratelimitly_harness::environment::repository;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

fn captures(pattern_text: &str, text: &str) -> Vec<String> {
    pattern(pattern_text).captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// Name and contexts of each directive in the table that nginx reads.
fn in_source() -> BTreeMap<String, &'static str> {
    let table = text("src/conf/commands.rs");
    let entry = pattern(r#"(?m)^ *(http|anywhere|place|page)\(c"(\w+)", [\w:<>]+\),$"#);
    let contexts = |kind: &str| match kind {
        "http" => "http",
        "anywhere" => "http, server, location",
        "page" => "location",
        _ => "server, location",
    };
    entry.captures_iter(&table).map(|found| (found[2].to_owned(), contexts(&found[1]))).collect()
}

#[test]
fn m05_the_reference_has_a_section_for_each_directive_and_for_nothing_else() {
    let source: BTreeSet<String> = in_source().into_keys().collect();
    let reference: BTreeSet<String> =
        captures(r"(?m)^### (ratelimitly\w*)$", &text("docs/configuration.md")).into_iter().collect();

    assert_eq!(source, reference);
    assert!(source.len() >= 15, "{source:?}");
}

#[test]
fn the_reference_has_a_section_for_each_variable_and_for_nothing_else() {
    let source = captures(r#"\bb"(ratelimitly_\w+)","#, &text("src/variable.rs"));
    let reference = captures(r"(?m)^### \$(\w+)$", &text("docs/configuration.md"));

    assert_eq!(source, reference);
    assert!(source.contains(&"ratelimitly_verdict".to_owned()), "{source:?}");
}

/// `ratelimitly_fault` is not in the table: no release build has it.
#[test]
fn m05_the_reference_tells_the_contexts_of_each_directive() {
    let mut source = in_source();
    assert_eq!(source.remove("ratelimitly_fault"), Some("http"));
    let page = text("docs/configuration.md");
    let mut reference = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| [`ratelimitly")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for name in captures(r"\[`(\w+)`\]", cells[1]) {
            reference.insert(name, cells[2]);
        }
    }
    assert_eq!(source, reference);
}

#[test]
fn every_directive_is_in_an_example() {
    let examples = text("nginx-conf/full.conf") + &text("docs/configuration.md");
    for (name, _) in in_source() {
        let used = pattern(&format!(r"(?m)^ *{name}( .*;?|;)$"));
        assert!(used.is_match(&examples) || name == "ratelimitly_resolver", "{name} is shown nowhere");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let anchor = |page: &str, wanted: &str| {
        let headings = captures(r"(?m)^#+ (.+)$", page).into_iter();
        let mut slugs = headings.map(|heading| {
            let kept = heading.to_lowercase().replace(' ', "-");
            kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect::<String>()
        });
        slugs.any(|slug| slug == wanted)
    };
    let mut dead = Vec::new();
    for page in pages() {
        let here = text(&page);
        for link in captures(r"\]\(([^)\s]+)\)", &here) {
            if link.contains("://") {
                continue;
            }
            let (file, place) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            let target = if file.starts_with("docs/") { repository().join(file) } else { target };
            if !target.exists() || (!place.is_empty() && !anchor(&text(&target), place)) {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}
