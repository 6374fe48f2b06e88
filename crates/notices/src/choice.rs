//! Which licences of an SPDX expression this project takes a crate under. Where Apache-2.0 is offered it is taken, for
//! Debian holds its text once for all packages; else the first that is offered. Called by `copyright.rs`.

/// The licences that apply together.
///
/// The expressions of crates are a conjunction of alternatives; deny.toml admits no other licence texts.
pub fn taken(expression: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for alternatives in expression.split(" AND ") {
        let offered: Vec<&str> = alternatives
            .trim_matches(|symbol| symbol == '(' || symbol == ')')
            .split(" OR ")
            .map(str::trim)
            .collect();
        let one = offered.iter().find(|name| **name == "Apache-2.0").unwrap_or(&offered[0]);
        if !all.iter().any(|name| name == one) {
            all.push((*one).to_owned());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::taken;

    #[test]
    fn apache_is_taken_where_it_is_offered() {
        assert_eq!(taken("MIT OR Apache-2.0"), ["Apache-2.0"]);
        assert_eq!(taken("Zlib OR Apache-2.0 OR MIT"), ["Apache-2.0"]);
        assert_eq!(taken("MIT"), ["MIT"]);
    }

    #[test]
    fn licences_that_apply_together_are_all_taken() {
        assert_eq!(taken("Apache-2.0 AND ISC"), ["Apache-2.0", "ISC"]);
        assert_eq!(taken("(MIT OR Apache-2.0) AND Apache-2.0"), ["Apache-2.0"]);
        assert_eq!(taken("(MIT OR Apache-2.0) AND Unicode-3.0"), ["Apache-2.0", "Unicode-3.0"]);
    }
}
