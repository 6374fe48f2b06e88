//! `ratelimitly-notices copyright|sbom PACKAGE`: prints debian/copyright or a CycloneDX bill of materials for a package of
//! this workspace and the crates that it links. Called by `ci/debian/rules`. Needs cargo and the crates in its registry
//! folder. The same lock file always gives the same text.
#![forbid(unsafe_code)]

mod bill;
mod choice;
mod copyright;
mod linked;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match notices(&arguments) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ratelimitly-notices: {error}");
            ExitCode::FAILURE
        }
    }
}

fn notices(arguments: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let [kind, package] = arguments else {
        return Err("usage: ratelimitly-notices copyright|sbom PACKAGE".into());
    };
    let linked = linked::Linked::of(package)?;
    match kind.as_str() {
        "copyright" => Ok(copyright::text(&linked)?),
        "sbom" => Ok(bill::text(&linked)),
        other => Err(format!("unknown argument '{other}': it must be copyright or sbom").into()),
    }
}
