//! Which room of `src/` uses which other one, read from its `crate::` paths. docs/architecture.md draws these arrows.

use crate::packaging::files_below;
use ratelimitly_harness::environment::repository;
use regex::Regex;
use std::collections::BTreeSet;

/// A room and the rooms that it may use. `lib.rs` may use them all, and no room may use `lib.rs`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("nginx", &[]),
    ("logging", &["nginx"]),
    ("fault", &[]),
    ("settings", &["nginx", "fault"]),
    ("shared", &["nginx"]),
    ("conf", &["nginx", "settings", "shared"]),
    ("render", &["nginx", "settings", "conf"]),
    ("discovery", &["nginx", "fault"]),
    ("driver", &["nginx", "logging", "fault", "settings", "shared", "discovery", "context"]),
    ("context", &["nginx", "settings", "shared", "conf", "driver"]),
    ("worker", &["nginx", "settings", "shared", "driver"]),
    ("cycle_conf", &["nginx", "settings", "conf", "render", "worker"]),
    ("variable", &["nginx", "context", "cycle_conf"]),
    ("pages", &["nginx", "shared", "conf", "cycle_conf"]),
    ("warm_up", &["nginx", "cycle_conf"]),
    ("handler", &["nginx", "fault", "conf", "render", "driver", "context", "cycle_conf"]),
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
    let allowed =
        |room: &str, used: &str| ALLOWED.iter().any(|(name, below)| *name == room && below.contains(&used));
    let back: Vec<_> = arrows.iter().filter(|(room, used)| !allowed(room, used)).collect();

    assert!(back.is_empty(), "these rooms of src/ use others that they must not: {back:?}");
    assert!(arrows.len() >= 15, "too few arrows to be all of them: {arrows:?}");
}

#[test]
fn only_driver_and_context_use_each_other() {
    let mut left: Vec<(&str, &[&str])> = ALLOWED.to_vec();
    // Rooms that use nothing that is left go first; what remains is part of a circle or uses one.
    loop {
        let before = left.len();
        let names: Vec<&str> = left.iter().map(|(name, _)| *name).collect();
        let in_pair = |name: &str, used: &str| {
            [name, used] == ["driver", "context"] || [name, used] == ["context", "driver"]
        };
        left.retain(|(name, below)| below.iter().any(|used| names.contains(used) && !in_pair(name, used)));
        if left.len() == before {
            break;
        }
    }
    assert!(left.is_empty(), "these rooms use each other in a circle: {left:?}");
}
