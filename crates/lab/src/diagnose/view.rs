//! What the logs show in a stretch of slots, and how two stretches compare. Made by `cause.rs`, shown by `report.rs`.

use super::cause::{waited, weighted};
use super::log::timeline::{Cost, Slot};
use ratelimitly_harness::figures::median;

/// A stretch of time.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Requests to paths that an upstream serves, per second: the median slot's.
    pub per_second: f64,
    /// Different clients in a slot, the median slot's.
    pub clients: f64,
    /// Mean over the paths of the median wait in the application's queue, seconds.
    pub wait: Option<f64>,
    /// The same of `$upstream_header_time`, seconds.
    pub response: Option<f64>,
    /// Requests that the application works on at a time.
    pub busy: Option<f64>,
    /// Answers of upstreams per second.
    pub answers_per_second: f64,
    /// 504s.
    pub timeouts: u64,
    /// Requests in nginx's log.
    pub requests: u64,
    /// By the path's number.
    pub costs: Vec<Cost>,
}

impl View {
    /// Of slots, each so many seconds wide.
    pub fn of<'a>(slots: impl Iterator<Item = &'a Slot> + Clone, width: f64) -> View {
        let mut all = Slot::default();
        slots.clone().for_each(|slot| all.merge(slot));
        let seconds = (slots.clone().count() as f64 * width).max(1.0);
        let sum = |figure: fn(&Cost) -> f64| all.costs.iter().map(figure).sum::<f64>();
        let worked = sum(|cost| cost.app.sum());
        View {
            per_second: median(slots.clone().map(|slot| served(slot, &all) / width)).unwrap_or(0.0),
            clients: median(slots.map(|slot| slot.clients.estimate())).unwrap_or(0.0),
            wait: weighted(&all, waited),
            response: weighted(&all, |cost| cost.header.median()),
            busy: (worked > 0.0).then(|| worked / seconds),
            answers_per_second: sum(|cost| cost.header.count() as f64) / seconds,
            timeouts: all.timeouts,
            requests: all.costs.iter().map(|cost| cost.requests).sum(),
            costs: all.costs,
        }
    }

    /// The share of a path among the requests that an upstream serves.
    pub fn share(&self, path: usize) -> f64 {
        let served = |cost: &Cost| if is_served(cost) { cost.requests as f64 } else { 0.0 };
        let all: f64 = self.costs.iter().map(served).sum();
        if all == 0.0 { 0.0 } else { self.costs.get(path).map_or(0.0, served) / all }
    }

    /// The application's median time for a path, seconds.
    pub fn processing(&self, path: usize) -> Option<f64> {
        self.costs.get(path)?.app.median()
    }

    /// How much longer the application takes for the same paths, as a factor. `None` without its log.
    pub fn pace(&self, usual: &View) -> Option<f64> {
        self.ratio(usual, |path| {
            let (now, then) = (self.processing(path)?, usual.processing(path)?);
            Some((self.share(path) * now, self.share(path) * then))
        })
    }

    /// How much dearer the mixture of paths has become at usual prices, as a factor.
    pub fn mix(&self, usual: &View) -> Option<f64> {
        self.ratio(usual, |path| {
            let price = usual.price(path, 0.5).or_else(|| self.price(path, 0.1))?;
            Some((self.share(path) * price, usual.share(path) * price))
        })
    }

    /// Seconds of a request to a path: the application's own time, or without its log this quantile of nginx's. For a new
    /// path nginx's low quantile is taken, because its times contain the wait in the queue.
    fn price(&self, path: usize, quantile: f64) -> Option<f64> {
        self.processing(path).or_else(|| self.costs.get(path)?.header.quantile(quantile))
    }

    fn ratio(&self, usual: &View, of: impl Fn(usize) -> Option<(f64, f64)>) -> Option<f64> {
        let pairs = (0..self.costs.len().max(usual.costs.len())).filter_map(of);
        let (now, usual) = pairs.fold((0.0, 0.0), |(a, b), (now, usual)| (a + now, b + usual));
        (usual > 0.0).then(|| now / usual)
    }
}

fn is_served(cost: &Cost) -> bool {
    cost.header.count() > 0 || cost.app.count() > 0
}

/// Requests of a slot to paths that an upstream serves in the whole stretch.
fn served(slot: &Slot, all: &Slot) -> f64 {
    let pairs = slot.costs.iter().zip(&all.costs);
    pairs.filter(|(_, all)| is_served(all)).map(|(cost, _)| cost.requests as f64).sum()
}
