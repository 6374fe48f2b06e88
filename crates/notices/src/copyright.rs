//! debian/copyright: who holds what is linked, and under which licence each is taken. Apache-2.0 is named by the place where
//! Debian keeps its text; every other licence stands here in full, with the crate's own copyright lines. Called by `main.rs`.

use crate::choice::taken;
use crate::linked::{Crate, Linked};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

const APACHE: &str = "Apache-2.0";
const HEAD: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ngx_http_ratelimitly_module
Comment: The paragraphs below \"registry/\" are the crates that the file links. ratelimitly-notices made them
 from cargo's metadata and the crates' own licence files. Where a crate offers Apache-2.0, it is taken under
 that licence.

Files: *
Copyright: the authors of ngx_http_ratelimitly_module
License: Apache-2.0

Files: registry/rust-std/*
Copyright: the Rust Project contributors
License: Apache-2.0
Comment: Rust's standard library. It is offered under MIT or Apache-2.0.
";
const APACHE_TEXT: &str = "
License: Apache-2.0
 On Debian systems the full text of the Apache License 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
";

/// The licence's text for a crate that names it and forgot the file.
const MIT: &str = "\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the \"Software\"), to deal in the Software without restriction, including without
limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the
Software, and to permit persons to whom the Software is furnished to do so, subject to the following
conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions
of the Software.

THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED
TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL
THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER
DEALINGS IN THE SOFTWARE.
";

/// Why there are no notices.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A crate cannot be read.
    #[error("{0}")]
    Read(#[from] std::io::Error),
    /// A licence wants its text beside the program, and the crate has none.
    #[error("{name} {version} is under {licence} and has no licence file: write its text down by hand")]
    NoText { name: String, version: String, licence: String },
}

/// The whole file.
///
/// # Errors
/// A crate's files cannot be read, or a text that has to be there is missing.
pub fn text(linked: &Linked) -> Result<String, Error> {
    let mut paragraphs = HEAD.to_owned();
    let mut texts = BTreeMap::new();
    for part in linked.crates.iter().filter(|part| part.checksum.is_some()) {
        paragraphs.push_str(&paragraph(part, &mut texts)?);
    }
    paragraphs.push_str(APACHE_TEXT);
    for (body, name) in texts {
        let _ = write!(paragraphs, "\nLicense: {name}\n{body}");
    }
    Ok(paragraphs)
}

/// A crate's paragraph. `texts` gets the licence texts that it needs, each under the name of the first crate that has it.
fn paragraph(part: &Crate, texts: &mut BTreeMap<String, String>) -> Result<String, Error> {
    let licences = taken(&part.licence);
    let files = licence_files(part)?;
    let mut holders: Vec<String> = files.iter().flat_map(|text| holders(text)).collect();
    holders.dedup();
    if holders.is_empty() {
        let authors = if part.authors.is_empty() {
            format!("the authors of {}", part.name)
        } else {
            part.authors.join(", ")
        };
        holders.push(authors);
    }
    let mut names = vec![];
    if licences.iter().any(|name| name == APACHE) {
        names.push(APACHE.to_owned());
    }
    let others: Vec<&str> = licences.iter().map(String::as_str).filter(|name| *name != APACHE).collect();
    if !others.is_empty() {
        let body = body(part, &files, &others.join(" AND "))?;
        names.push(texts.entry(body).or_insert(format!("{}-{}", others.join("-and-"), part.name)).clone());
    }
    let Crate { name, version, .. } = part;
    let held = holders.join("\n ");
    Ok(format!("\nFiles: registry/{name}-{version}/*\nCopyright: {held}\nLicense: {}\n", names.join(" and ")))
}

/// The text that a crate's licence wants beside the program, as the body of a field.
fn body(part: &Crate, files: &[String], licence: &str) -> Result<String, Error> {
    let own: Vec<String> = files.iter().filter(|text| !is_apache(text)).map(|text| indented(text)).collect();
    if !own.is_empty() {
        return Ok(own.join(" .\n"));
    }
    if licence == "MIT" {
        return Ok(indented(MIT));
    }
    let (name, version) = (part.name.clone(), part.version.clone());
    Err(Error::NoText { name, version, licence: licence.to_owned() })
}

/// The texts of a crate's licence and notice files, in the order of their names.
fn licence_files(part: &Crate) -> Result<Vec<String>, Error> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&part.folder)?.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file()
            && ["LICEN", "COPYING", "COPYRIGHT", "NOTICE"].iter().any(|start| name.starts_with(start))
    });
    paths.sort();
    Ok(paths
        .iter()
        .map(std::fs::read)
        .map(|read| Ok(String::from_utf8_lossy(&read?).into_owned()))
        .collect::<Result<_, std::io::Error>>()?)
}

fn is_apache(text: &str) -> bool {
    text.contains("Apache License") && text.contains("TERMS AND CONDITIONS FOR USE")
}

/// The lines that name a copyright holder. Apache's text has such a line for others to fill in.
fn holders(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let named =
        lines.filter(|line| line.to_lowercase().starts_with("copyright") && line.contains(char::is_numeric));
    named.filter(|line| !line.contains("[yyyy]") && !line.contains("{yyyy}")).map(str::to_owned).collect()
}

/// A text as the body of a field: every line begins with a space, an empty one holds a full stop.
fn indented(text: &str) -> String {
    let line = |line: &str| {
        if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {}\n", line.trim_end()) }
    };
    text.trim().lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(licence: &str, folder: &std::path::Path) -> Crate {
        Crate {
            name: "far".into(),
            version: "1.0.0".into(),
            licence: licence.into(),
            authors: vec!["A. Author".into()],
            folder: folder.to_owned(),
            checksum: Some("abc".into()),
            needs: Default::default(),
        }
    }

    #[test]
    fn a_licence_other_than_apache_stands_in_full() {
        let folder = std::env::temp_dir().join(format!("ratelimitly-notices-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("LICENSE-MIT"), "Copyright 2020 Somebody\n\nPermission is granted\n")
            .expect("a file");
        let mut texts = BTreeMap::new();

        let own = paragraph(&part("MIT", &folder), &mut texts);

        std::fs::remove_dir_all(&folder).expect("the folder goes");
        assert_eq!(
            own.expect("a paragraph"),
            "\nFiles: registry/far-1.0.0/*\nCopyright: Copyright 2020 Somebody\nLicense: MIT-far\n"
        );
        let (body, _) = texts.first_key_value().expect("a text");
        assert_eq!(body, " Copyright 2020 Somebody\n .\n Permission is granted\n");
    }

    #[test]
    fn a_crate_without_the_text_that_its_licence_wants_is_an_error() {
        let missing = paragraph(&part("ISC", std::path::Path::new("src")), &mut BTreeMap::new());

        let said = missing.expect_err("no notices").to_string();
        assert_eq!(said, "far 1.0.0 is under ISC and has no licence file: write its text down by hand");
    }

    #[test]
    fn apache_needs_no_text_and_the_author_is_named() {
        let own = paragraph(&part("MIT OR Apache-2.0", std::path::Path::new("src")), &mut BTreeMap::new());

        assert!(own.expect("a paragraph").contains("Copyright: A. Author\nLicense: Apache-2.0\n"));
    }
}
