//! The places of a configuration in which a request can be handled, and what is in effect there: nginx hands a directive
//! down from `http` to `server` to `location` unless the inner place has its own. Used by the checks.

use super::tree::Directive;
use regex::Regex;

/// A block with the blocks around it, outermost first.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// From `http` to the place itself.
    chain: Vec<&'a Directive>,
}

impl<'a> Place<'a> {
    /// The place itself.
    pub fn block(&self) -> &'a Directive {
        self.chain[self.chain.len() - 1]
    }

    /// Directives of this name in the place itself.
    pub fn own(&self, name: &'a str) -> impl Iterator<Item = &'a Directive> {
        self.block().own(name)
    }

    /// Directives of this name in the innermost block that has any.
    pub fn effective(&self, name: &str) -> Vec<&'a Directive> {
        let found = |block: &&'a Directive| -> Vec<&'a Directive> {
            block.inside().iter().filter(|directive| directive.name == name).collect()
        };
        self.chain.iter().rev().map(found).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The rules of this module that are in effect: none behind `ratelimitly off`.
    pub fn rules(&self) -> Vec<&'a Directive> {
        let rules = self.effective("ratelimitly");
        if rules.iter().any(|rule| rule.first() == "off") { Vec::new() } else { rules }
    }

    /// The server around it, with the server's own chain.
    fn server(&self) -> Option<Place<'a>> {
        let end = self.chain.iter().position(|block| block.name == "server")?;
        Some(Place { chain: self.chain[..=end].to_vec() })
    }

    /// Where `try_files` of this place sends a request for which no file exists. `None`: a status, a name made of
    /// variables, or a location that cannot be told.
    pub fn fallback(&self, target: &str) -> Option<Place<'a>> {
        let server = self.server()?;
        if target.starts_with('@') {
            let named = server.block().own("location").find(|location| location.first() == target)?;
            return Some(server.with(named));
        }
        let uri = target.split('?').next().unwrap_or_default();
        (uri.starts_with('/') && !uri.contains('$')).then(|| server.serving(uri)).flatten()
    }

    /// The location of this server that serves a URI, as nginx chooses: exact, else the longest prefix unless a regular
    /// expression fits and the prefix is no `^~`.
    fn serving(&self, uri: &str) -> Option<Place<'a>> {
        let locations: Vec<&'a Directive> = self.block().own("location").collect();
        let exact = locations.iter().find(|location| location.args[..] == ["=", uri]);
        if let Some(exact) = exact {
            return Some(self.with(exact));
        }
        let longest = locations.iter().filter_map(|location| Some((prefix(location, uri)?, *location)));
        let longest = longest.max_by_key(|(length, _)| *length).map(|(_, location)| location);
        let regex = match longest {
            Some(location) if location.first() == "^~" => None,
            _ => locations.iter().find(|location| fits(location, uri)).copied(),
        };
        match regex.or(longest) {
            Some(location) => self.with(location).serving(uri).or_else(|| Some(self.with(location))),
            None => None,
        }
    }

    fn with(&self, inner: &'a Directive) -> Place<'a> {
        let mut chain = self.chain.clone();
        chain.push(inner);
        Place { chain }
    }
}

/// The length of a prefix location that fits.
fn prefix(location: &Directive, uri: &str) -> Option<usize> {
    let prefix = match &location.args[..] {
        [prefix] if prefix.starts_with('/') => prefix,
        [modifier, prefix] if modifier == "^~" => prefix,
        _ => return None,
    };
    uri.starts_with(prefix.as_str()).then_some(prefix.len())
}

/// Whether a location with a regular expression fits. One that this program cannot read fits nothing.
fn fits(location: &Directive, uri: &str) -> bool {
    let pattern = match &location.args[..] {
        [modifier, pattern] if modifier == "~" => pattern.clone(),
        [modifier, pattern] if modifier == "~*" => format!("(?i){pattern}"),
        _ => return false,
    };
    Regex::new(&pattern).is_ok_and(|pattern| pattern.is_match(uri))
}

/// Every http, server and location block.
pub fn places(directives: &[Directive]) -> Vec<Place<'_>> {
    let mut all = Vec::new();
    for http in directives.iter().filter(|directive| directive.name == "http") {
        collect(Place { chain: vec![http] }, &mut all);
    }
    all
}

fn collect<'a>(place: Place<'a>, all: &mut Vec<Place<'a>>) {
    let inner =
        place.block().inside().iter().filter(|block| matches!(block.name.as_str(), "server" | "location"));
    let inner: Vec<_> = inner.map(|block| place.with(block)).collect();
    all.push(place);
    inner.into_iter().for_each(|place| collect(place, all));
}

#[cfg(test)]
mod tests {
    use super::super::dump;
    use super::*;

    const SITE: &str = "http { server { a 1;
        location / { b 2; }
        location /static/ { c 3; }
        location ^~ /fixed/ { }
        location = /exact { }
        location ~ \\.php$ { d 4; }
        location @app { e 5; }
    } }";

    fn site(test: impl FnOnce(&[Place<'_>])) {
        let dump = dump::read("site", SITE.as_bytes());
        assert_eq!(dump.faults, Vec::<String>::new());
        test(&places(&dump.directives));
    }

    #[test]
    fn the_fallback_is_the_location_that_nginx_would_choose() {
        site(|places| {
            let of = |target| places[2].fallback(target).map(|place| place.block().args.join(" "));
            assert_eq!(of("@app").as_deref(), Some("@app"));
            assert_eq!(of("/index.php?$args").as_deref(), Some("~ \\.php$"));
            assert_eq!(of("/static/x").as_deref(), Some("/static/"));
            assert_eq!(of("/fixed/x.php").as_deref(), Some("^~ /fixed/"));
            assert_eq!(of("/exact").as_deref(), Some("= /exact"));
            assert_eq!(of("=404"), None);
            assert_eq!(of("/$host/index.html"), None);
        });
    }

    #[test]
    fn what_an_outer_block_says_is_in_effect_inside() {
        site(|places| {
            assert_eq!(places[2].effective("a")[0].first(), "1");
            assert_eq!(places[2].effective("b")[0].first(), "2");
            assert!(places[3].effective("b").is_empty());
        });
    }
}
