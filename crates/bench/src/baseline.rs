//! `ci/bench --check`: instructions per admission, in the core alone and under nginx, against the figures kept in the
//! repository, one for each condition. Instructions and not seconds, because machines differ. Where a figure has grown,
//! `blame` counts the same conditions with a module that has its symbols, and names the functions that grew.

use crate::gate::{self, BARE, Counted, Scene};
use crate::surroundings::Servers;
use crate::{Error, counts, results};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// More than this share above the figure kept is a failure.
const TOLERANCE: f64 = 0.05;
/// So many instructions more are no failure: what a busy machine adds hardly depends on the condition, and some figures are small.
const SLACK: f64 = 50.0;
/// Stretches under nginx, of which the least counts. What a busy machine adds to a stretch (a second that begins, and fresh
/// random bytes with it, or one more turn of the event loop) only ever makes it dearer.
const TRIES: usize = 3;
/// Admissions of the core's shorter run.
const ADMISSIONS: u64 = 4000;
/// The core alone: start, seal, open, judge, and everything polled.
const CORE: &str = "core";
/// A function that a request spends fewer instructions in is not kept.
const LEAST: u64 = 20;
/// Functions that are named.
const NAMED: usize = 8;

/// Instructions of an admission by condition: what the module adds to a request for a static file, AES key.
type Figures = BTreeMap<String, u64>;
/// Instructions of a request in each function, by condition.
type Functions = BTreeMap<String, BTreeMap<String, u64>>;

/// Measures, and compares or keeps.
///
/// # Errors
/// A figure that is too high, or a measurement that failed.
pub fn check(arguments: &crate::Check) -> Result<(), Error> {
    let _ = fs::remove_file(&arguments.grown);
    let kept: Figures = if arguments.update { Figures::new() } else { read(&arguments.baseline)? };
    let now = measure(&kept)?;
    if arguments.update {
        now.iter().for_each(|(condition, count)| println!("{condition}: {count} (kept)"));
        return results::write(&arguments.baseline, &now);
    }
    if let Some(missing) = kept.keys().find(|name| !now.contains_key(*name)) {
        return Err(format!("the figure kept for \"{missing}\" belongs to no condition: {UPDATE}").into());
    }
    let grown: Vec<&String> =
        now.iter().filter(|(name, count)| !held(name, **count, &kept)).map(|(name, _)| name).collect();
    if grown.is_empty() {
        return Ok(());
    }
    results::write(&arguments.grown, &grown)?;
    let most = TOLERANCE * 100.0;
    Err(format!("{} of {} figures have grown by more than {most}%; {UPDATE}", grown.len(), now.len()).into())
}

const UPDATE: &str = "where the cost is meant: ci/bench --check --update, with the reason in the commit";

/// Prints a figure beside the one kept, and says whether it may be so.
fn held(condition: &str, now: u64, kept: &Figures) -> bool {
    let Some(kept) = kept.get(condition) else {
        println!("{condition}: {now}, and no figure is kept");
        return false;
    };
    let change = now as f64 / *kept as f64 - 1.0;
    let much_less = if change < -TOLERANCE { ", much less: keep it with --update" } else { "" };
    println!("{condition}: {now}, kept {kept} ({:+.1}%){much_less}", change * 100.0);
    now as f64 <= most(*kept)
}

/// The highest figure that is no failure.
fn most(kept: u64) -> f64 {
    kept as f64 + SLACK.max(kept as f64 * TOLERANCE)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Measures every condition. A figure that is no failure ends the tries of its condition.
fn measure(kept: &Figures) -> Result<Figures, Error> {
    let mut figures =
        Figures::from([(CORE.into(), counts::program(&core_program()?, ADMISSIONS)?.round() as u64)]);
    let servers = Servers::start()?;
    let mut bare = f64::INFINITY;
    for scene in gate::scenes(&servers)? {
        let enough = |name: &str| kept.get(name).map_or(0.0, |kept| most(*kept) + bare);
        for (name, least) in least(&scene, &servers, enough)? {
            match name.as_str() {
                BARE => bare = least.each,
                _ => drop(figures.insert(name, (least.each - bare).round().max(0.0) as u64)),
            }
        }
    }
    Ok(figures)
}

/// The least count of each condition of a scene; one of at most `enough` ends its tries.
fn least(
    scene: &Scene,
    servers: &Servers,
    enough: impl Fn(&str) -> f64,
) -> Result<BTreeMap<String, Counted>, Error> {
    let mut least: BTreeMap<String, Counted> = BTreeMap::new();
    let mut tries: BTreeMap<String, usize> = BTreeMap::new();
    scene.count(servers, |name, counted| {
        let tried = tries.entry(name.to_owned()).or_default();
        *tried += 1;
        let done = *tried == TRIES || counted.each <= enough(name);
        match least.get(name) {
            Some(before) if before.each <= counted.each => {}
            _ => drop(least.insert(name.to_owned(), counted)),
        }
        !done
    })?;
    Ok(least)
}

/// Counts with the module that has its symbols: all conditions to keep their functions, or those that have grown to name
/// the functions that did.
///
/// # Errors
/// A measurement failed, or a file cannot be read or written.
pub fn blame(arguments: &crate::Blame) -> Result<(), Error> {
    let servers = Servers::start()?;
    let grown: Option<BTreeSet<String>> = if arguments.update { None } else { Some(read(&arguments.grown)?) };
    let wanted = |name: &String| name != BARE && grown.as_ref().is_none_or(|grown| grown.contains(name));
    let mut functions = Functions::new();
    for scene in gate::scenes(&servers)?.iter().filter(|scene| scene.conditions().any(|name| wanted(&name))) {
        let counted = least(scene, &servers, |_| 0.0)?.into_iter().filter(|(name, _)| wanted(name));
        functions.extend(counted.map(|(name, counted)| (name, rounded(&counted))));
    }
    if arguments.update {
        return results::write(&arguments.functions, &functions);
    }
    let kept: Functions = read(&arguments.functions)?;
    let none = BTreeMap::new();
    for (condition, now) in &functions {
        println!("\n{condition}: functions that grew, instructions of a request");
        growth(now, kept.get(condition).unwrap_or(&none)).iter().for_each(|line| println!("  {line}"));
    }
    Ok(())
}

fn rounded(counted: &Counted) -> BTreeMap<String, u64> {
    let rounded = counted.functions.iter().map(|(name, count)| (name.clone(), count.round() as u64));
    rounded.filter(|(_, count)| *count >= LEAST).collect()
}

/// The functions that grew most, the worst first.
fn growth(now: &BTreeMap<String, u64>, kept: &BTreeMap<String, u64>) -> Vec<String> {
    let before = |name: &String| kept.get(name).copied().unwrap_or(0);
    let mut grown: Vec<_> =
        now.iter().map(|(name, count)| (count.saturating_sub(before(name)), name)).collect();
    grown.retain(|(more, _)| *more > 0);
    grown.sort_by_key(|(more, _)| std::cmp::Reverse(*more));
    let line =
        |(more, name): &(u64, &String)| format!("{more:+6}  {name} ({} -> {})", before(name), now[*name]);
    grown.iter().take(NAMED).map(line).collect()
}

/// The program that `ci/bench` builds beside this one.
fn core_program() -> Result<PathBuf, Error> {
    let path = std::env::var_os("RATELIMITLY_BENCH_CORE")
        .ok_or("RATELIMITLY_BENCH_CORE is not set: use ci/bench")?;
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_that_grew_most_are_named_first() {
        let of = |counts: &[(&str, u64)]| {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let kept = of(&[("seal", 900), ("open", 800), ("judge", 50)]);
        let now = of(&[("seal", 1000), ("open", 790), ("judge", 350), ("new", 40)]);
        assert_eq!(
            growth(&now, &kept),
            ["  +300  judge (50 -> 350)", "  +100  seal (900 -> 1000)", "   +40  new (0 -> 40)"]
        );
    }

    #[test]
    fn a_figure_without_one_kept_fails_and_so_does_one_above_the_tolerance() {
        let kept = Figures::from([("a".into(), 2000), ("small".into(), 200)]);
        assert!(held("a", 2100, &kept) && held("a", 500, &kept) && held("small", 250, &kept));
        assert!(!held("a", 2101, &kept) && !held("small", 251, &kept) && !held("b", 1, &kept));
    }
}
