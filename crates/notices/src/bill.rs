//! The bill of materials: CycloneDX 1.5 as JSON, each crate with its licence, its checksum in the registry and what it
//! depends on. It has no time and no serial number, so that two builds give the same bytes. Called by `main.rs`.

use crate::linked::{Crate, Linked};
use serde_json::{Value, json};

/// The whole file.
pub fn text(linked: &Linked) -> String {
    let all = std::iter::once(&linked.root).chain(&linked.crates);
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(&linked.root, "application") },
        "components": linked.crates.iter().map(|part| component(part, "library")).collect::<Vec<_>>(),
        "dependencies": all.map(dependencies).collect::<Vec<_>>(),
    });
    format!("{bill:#}\n")
}

fn component(part: &Crate, kind: &str) -> Value {
    let purl = purl(&part.name, &part.version);
    let mut component = json!({
        "type": kind,
        "bom-ref": purl,
        "name": part.name,
        "version": part.version,
        "licenses": [{ "expression": part.licence }],
    });
    if let Some(sum) = &part.checksum {
        component["purl"] = json!(purl);
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    component
}

fn dependencies(part: &Crate) -> Value {
    let needs: Vec<String> = part.needs.iter().map(|(name, version)| purl(name, version)).collect();
    json!({ "ref": purl(&part.name, &part.version), "dependsOn": needs })
}

fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_has_its_checksum_and_its_licence() {
        let linked = Linked::of("ngx_http_ratelimitly_module").expect("cargo answers");

        let bill: Value = serde_json::from_str(&text(&linked)).expect("JSON");

        let parts = bill["components"].as_array().expect("components");
        let ring = parts.iter().find(|part| part["name"] == "ring").expect("ring is linked");
        assert_eq!(ring["licenses"][0]["expression"], "Apache-2.0 AND ISC");
        assert_eq!(ring["hashes"][0]["content"].as_str().map(str::len), Some(64));
        let root = &bill["dependencies"][0];
        assert!(root["dependsOn"].as_array().is_some_and(|needs| needs.len() > 5), "{root}");
    }
}
