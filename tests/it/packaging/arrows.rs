//! Which room of `src/` uses which other one, read from its `crate::` paths. docs/architecture.md draws these arrows.

use crate::packaging::files_below;
use ratelimitly_harness::environment::repository;
use regex::Regex;
use std::collections::BTreeSet;

/// A room and the rooms that it may use. `lib.rs` may use them all, and no room may use `lib.rs`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("nginx", &[]),
    ("settings", &["nginx"]),
    ("conf", &["nginx", "settings"]),
    ("render", &["nginx", "settings", "conf"]),
    ("logging", &["nginx"]),
    ("discovery", &["nginx", "settings", "logging"]),
    ("driver", &["nginx", "settings", "logging", "discovery", "context"]),
    ("context", &["nginx", "settings", "driver"]),
    ("worker", &["nginx", "settings", "logging", "driver", "context"]),
    ("variable", &["nginx", "settings", "context"]),
    ("handler", &["nginx", "settings", "logging", "conf", "render", "driver", "context", "worker"]),
];

/// Arrows that point back today. Remove each one that is gone, here and in docs/architecture.md. Add none.
const KNOWN: &[(&str, &str)] = &[
    ("conf", "worker"),
    ("context", "conf"),
    ("discovery", "conf"),
    ("driver", "conf"),
    ("driver", "worker"),
    ("worker", "conf"),
    ("worker", "render"),
];

/// Each arrow of the source, from the room that uses to the room that is used.
fn arrows() -> BTreeSet<(String, String)> {
    let path = Regex::new(r"\bcrate::(?:(\w+)|\{([^}]*)\})").expect("a constant pattern");
    let mut arrows = BTreeSet::new();
    for file in files_below("src") {
        let inner = file.strip_prefix(repository().join("src")).expect("a file of src");
        let first = inner.components().next().expect("a file has a name");
        let room = first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        let text = std::fs::read_to_string(&file).expect("a source file");
        for found in path.captures_iter(&text) {
            let used = found.get(1).or(found.get(2)).map_or("", |names| names.as_str());
            let used = used.split(',').map(|name| name.trim().split("::").next().unwrap_or(""));
            let other = used.filter(|name| !name.is_empty() && *name != room);
            arrows.extend(other.map(|name| (room.clone(), name.to_owned())));
        }
    }
    arrows.retain(|(room, _)| room != "lib");
    arrows
}

#[test]
fn rooms_of_the_source_use_only_the_rooms_below_them() {
    let arrows = arrows();
    let allowed = |room: &str, used: &str| {
        ALLOWED.iter().any(|(name, below)| *name == room && below.contains(&used))
            || KNOWN.contains(&(room, used))
    };
    let back: Vec<_> = arrows.iter().filter(|(room, used)| !allowed(room, used)).collect();

    assert!(back.is_empty(), "these rooms of src/ use others that they must not: {back:?}");
    assert!(arrows.len() >= 15, "too few arrows to be all of them: {arrows:?}");
}

#[test]
fn every_known_arrow_that_points_back_still_exists() {
    let arrows = arrows();
    let gone = |(room, used): &&(&str, &str)| !arrows.contains(&((*room).to_owned(), (*used).to_owned()));
    let gone: Vec<_> = KNOWN.iter().filter(gone).collect();

    assert!(gone.is_empty(), "take these arrows out of KNOWN and of docs/architecture.md: {gone:?}");
}
