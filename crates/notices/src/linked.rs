//! What a package links: the crates of its normal dependencies on this system, without macros and build scripts, whose code
//! does not reach the file. Asked of cargo. Called by `main.rs`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why cargo's answer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// cargo could not be run.
    #[error("cargo cannot be run: {0}")]
    Run(#[from] std::io::Error),
    /// cargo refused.
    #[error("cargo {command} failed: {said}")]
    Failed { command: String, said: String },
    /// cargo's metadata has another form than this program knows.
    #[error("cargo's metadata cannot be read: {0}")]
    Metadata(#[from] serde_json::Error),
    /// A crate of the tree is absent from the metadata.
    #[error("cargo metadata does not list {0}")]
    Unlisted(String),
}

/// One crate.
#[derive(Clone, Debug)]
pub struct Crate {
    pub name: String,
    pub version: String,
    /// SPDX expression; the older form `MIT/Apache-2.0` is written with OR.
    pub licence: String,
    pub authors: Vec<String>,
    /// The folder of its source.
    pub folder: PathBuf,
    /// SHA-256 of the crate's file in the registry; absent for crates of this workspace.
    pub checksum: Option<String>,
    /// Names and versions of the crates in the set that it depends on.
    pub needs: BTreeSet<(String, String)>,
}

/// A package with what it links.
#[derive(Debug)]
pub struct Linked {
    pub root: Crate,
    /// Crates of this workspace and from the registry, by name and version.
    pub crates: Vec<Crate>,
}

impl Linked {
    /// Asks cargo about a package of this workspace.
    ///
    /// # Errors
    /// cargo fails, or answers in an unknown form.
    pub fn of(package: &str) -> Result<Linked, Error> {
        let metadata: Value =
            serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--all-features"])?)?;
        let tree = tree(package)?;
        let root = Path::new(metadata["workspace_root"].as_str().unwrap_or("."));
        let sums = checksums(&std::fs::read_to_string(root.join("Cargo.lock"))?);
        let mut found = BTreeMap::new();
        for listed in metadata["packages"].as_array().into_iter().flatten() {
            let named = named(listed);
            if tree.contains(&named) {
                let id = listed["id"].as_str().unwrap_or_default();
                let needs = needs(&metadata, id).filter(|need| tree.contains(need)).collect();
                found.insert(named.clone(), read(listed, sums.get(&named).cloned(), needs));
            }
        }
        if let Some((name, version)) = tree.iter().find(|named| !found.contains_key(*named)) {
            return Err(Error::Unlisted(format!("{name} {version}")));
        }
        let (mut root, crates): (Vec<_>, Vec<_>) = found.into_values().partition(|it| it.name == package);
        Ok(Linked { root: root.pop().ok_or_else(|| Error::Unlisted(package.to_owned()))?, crates })
    }
}

/// The name and version of each crate in the tree.
fn tree(package: &str) -> Result<BTreeSet<(String, String)>, Error> {
    let edges = "normal,no-proc-macro";
    let format = ["--prefix", "none", "--format", "{p}"];
    // Without its features the module links no bindings to nginx.
    let said =
        cargo(&[&["tree", "--package", package, "--all-features", "--edges", edges], &format[..]].concat())?;
    let crates = said.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.trim_start_matches('v').to_owned()))
    });
    Ok(crates.collect())
}

fn cargo(arguments: &[&str]) -> Result<String, Error> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program).args(arguments).arg("--locked").output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Failed { command: arguments[0].to_owned(), said });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn named(listed: &Value) -> (String, String) {
    (text(&listed["name"]), text(&listed["version"]))
}

fn read(listed: &Value, checksum: Option<String>, needs: BTreeSet<(String, String)>) -> Crate {
    let manifest = PathBuf::from(text(&listed["manifest_path"]));
    Crate {
        name: text(&listed["name"]),
        version: text(&listed["version"]),
        licence: text(&listed["license"]).replace('/', " OR "),
        authors: listed["authors"].as_array().into_iter().flatten().map(text).collect(),
        folder: manifest.parent().unwrap_or(Path::new(".")).to_owned(),
        checksum,
        needs,
    }
}

/// What a crate's resolved node depends on.
fn needs<'a>(metadata: &'a Value, id: &str) -> impl Iterator<Item = (String, String)> + use<'a> {
    let nodes = metadata["resolve"]["nodes"].as_array();
    let node = nodes.into_iter().flatten().find(|node| node["id"] == id);
    let ids = node.and_then(|node| node["dependencies"].as_array()).into_iter().flatten();
    let packages = metadata["packages"].as_array();
    ids.filter_map(move |id| packages?.iter().find(|listed| listed["id"] == *id)).map(named)
}

/// The checksums of a lock file, whose entries have their members in this order: name, version, source, checksum.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut sums = BTreeMap::new();
    for entry in lock.split("[[package]]") {
        let member = |name: &str| {
            let start = format!("{name} = \"");
            entry.lines().find_map(|line| line.strip_prefix(&start)?.strip_suffix('"')).map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(sum)) =
            (member("name"), member("version"), member("checksum"))
        {
            sums.insert((name, version), sum);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_gives_the_checksums_of_registry_crates_only() {
        let lock = "version = 4\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"far\"\n\
                    version = \"1.2.3\"\nsource = \"registry\"\nchecksum = \"abc\"\n";

        let sums = checksums(lock);

        assert_eq!(sums.into_iter().collect::<Vec<_>>(), [(("far".into(), "1.2.3".into()), "abc".into())]);
    }

    #[test]
    fn the_module_links_its_crates_and_no_macro() {
        let linked = Linked::of("ngx_http_ratelimitly_module").expect("cargo answers");

        let names: Vec<&str> = linked.crates.iter().map(|it| it.name.as_str()).collect();
        assert!(names.contains(&"hickory-resolver") && names.contains(&"ngx"), "{names:?}");
        assert!(
            !names.contains(&"syn") && !names.contains(&"bindgen") && !names.contains(&"tokio"),
            "{names:?}"
        );
        assert_eq!(linked.root.name, "ngx_http_ratelimitly_module");
    }
}
