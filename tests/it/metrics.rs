//! `ratelimitly_metrics`: counters in shared memory that are exact, survive workers and reloads, and a page that Prometheus
//! reads.

mod counts;
mod page;
mod survival;

use ratelimitly_harness::Nginx;
use ratelimitly_harness::http;
use std::collections::BTreeMap;

/// The samples of a page: name with its labels, and value.
pub struct Samples(BTreeMap<String, f64>);

impl Samples {
    pub async fn of(nginx: &Nginx) -> Samples {
        let page = http::get(nginx.named_port("port_metrics"), "/metrics").await;
        assert_eq!(page.status, 200, "{}", page.text());
        Samples::parse(&page.text())
    }

    fn parse(text: &str) -> Samples {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            let name = name.strip_prefix("ratelimitly_").expect("the module's prefix");
            (name.to_owned(), value.parse().expect("a number"))
        };
        Samples(lines.map(sample).collect())
    }

    pub fn get(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no sample {name} among {:#?}", self.0))
    }

    /// Every counter of a family that is not 0.
    fn counted(&self, family: &str) -> Vec<(&str, f64)> {
        let of_family = self.0.iter().filter(|(name, value)| name.starts_with(family) && **value > 0.0);
        of_family.map(|(name, value)| (name.as_str(), *value)).collect()
    }
}
