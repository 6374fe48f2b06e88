//! `ci/bench --check`: instructions per admission, in the core alone and under nginx, against the figures kept in the
//! repository. Instructions and not seconds, because machines differ.

use crate::conditions::{self, bare};
use crate::counts::{self, Instructions, Load};
use crate::surroundings::Servers;
use crate::{Error, results};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// More than this share above the figure kept is a failure.
const TOLERANCE: f64 = 0.05;
/// Requests of the longer run.
const REQUESTS: u64 = 1000;
/// Tries under nginx, of which the least counts are taken.
const TRIES: usize = 3;
/// Admissions of the core's shorter run.
const ADMISSIONS: u64 = 4000;

/// The figures kept: instructions per admission.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    /// The core alone: start, seal, open, judge, and everything polled.
    core: u64,
    /// What the module adds to a request for a static file, one server, AES key.
    nginx: u64,
}

/// Measures, and compares or keeps.
///
/// # Errors
/// A figure that is too high, or a measurement that failed.
pub fn check(arguments: &crate::Check) -> Result<(), Error> {
    if arguments.update {
        let now = measure(0)?;
        println!("instructions per admission: core {}, under nginx {} (kept)", now.core, now.nginx);
        return results::write(&arguments.baseline, &now);
    }
    let kept = read(&arguments.baseline)?;
    let now = measure(most(kept.nginx))?;
    let core = compare("in the core", now.core, kept.core);
    let nginx = compare("under nginx", now.nginx, kept.nginx);
    core.and(nginx)
}

fn read(path: &Path) -> Result<Figures, Error> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

fn compare(what: &str, now: u64, kept: u64) -> Result<(), Error> {
    let change = now as f64 / kept as f64 - 1.0;
    let percent = change * 100.0;
    println!("instructions per admission, {what}: {now}, kept {kept} ({percent:+.1}%)");
    if change > TOLERANCE {
        let most = TOLERANCE * 100.0;
        return Err(format!(
            "an admission costs {percent:.1}% more instructions {what} than the figure kept; at most {most}% are \
             allowed. Where the cost is meant: ci/bench --check --update, with the reason in the commit"
        )
        .into());
    }
    if change < -TOLERANCE {
        println!("that is much less: keep the new figure with ci/bench --check --update");
    }
    Ok(())
}

/// The highest figure that is no failure.
fn most(kept: u64) -> u64 {
    (kept as f64 * (1.0 + TOLERANCE)) as u64
}

/// Measures. Under nginx the least counts of several tries make the figure; one of at most `enough` ends the tries.
fn measure(enough: u64) -> Result<Figures, Error> {
    let core = counts::program(&core_program()?, ADMISSIONS)?;
    let servers = Servers::start()?;
    let module = conditions::module(&servers.one, &servers.aes, conditions::SINGLE_ROUND)?;
    let load = Load::closed(1, REQUESTS);
    let count = || -> Result<_, Error> {
        Ok((Instructions::count(&module, load)?, Instructions::count(&bare().parts, load)?))
    };
    let (mut with, mut without) = count()?;
    let added = |with: Instructions, without: Instructions| with.per_request() - without.per_request();
    for _ in 1..TRIES {
        if added(with, without) <= enough as f64 {
            break;
        }
        println!("under nginx {:.0}: once more, for a busy machine adds to a count", added(with, without));
        let again = count()?;
        (with, without) = (with.least(again.0), without.least(again.1));
    }
    let nginx = added(with, without);
    Ok(Figures { core: core.round() as u64, nginx: nginx.round() as u64 })
}

/// The program that `ci/bench` builds beside this one.
fn core_program() -> Result<PathBuf, Error> {
    let path = std::env::var_os("RATELIMITLY_BENCH_CORE")
        .ok_or("RATELIMITLY_BENCH_CORE is not set: use ci/bench")?;
    Ok(PathBuf::from(path))
}
