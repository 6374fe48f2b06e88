//! A client that asks again and again while a package is changed, one connection after the other, and notes each request
//! that had another end than 200. Used by the steps.

use ratelimitly_harness::eventually;
use ratelimitly_harness::http::{PATIENCE, try_get};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Between two requests.
const PAUSE: Duration = Duration::from_millis(5);
/// Requests after what was watched.
const MORE: usize = 20;

/// The running client.
pub struct Watch {
    stop: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
    client: JoinHandle<Vec<String>>,
}

impl Watch {
    /// Begins to ask for a page.
    pub fn start(port: u16, page: &'static str) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let served = Arc::new(AtomicUsize::new(0));
        let client = tokio::spawn(ask(port, page, stop.clone(), served.clone()));
        Watch { stop, served, client }
    }

    /// Waits for some more requests and ends it; gives how many had 200.
    ///
    /// # Panics
    /// One had another end, or too few came.
    pub async fn none_failed(self) -> usize {
        let enough = self.served.load(Ordering::Relaxed) + MORE;
        eventually(PATIENCE, "more requests", || {
            self.client.is_finished() || self.served.load(Ordering::Relaxed) >= enough
        })
        .await;
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.client.await.expect("the client does not panic");
        let served = self.served.load(Ordering::Relaxed);
        assert!(failed.is_empty(), "{served} requests had 200, these had not: {failed:?}");
        served
    }
}

async fn ask(port: u16, page: &str, stop: Arc<AtomicBool>, served: Arc<AtomicUsize>) -> Vec<String> {
    let mut failed = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match try_get(port, page).await {
            Ok(response) if response.status == 200 => drop(served.fetch_add(1, Ordering::Relaxed)),
            Ok(response) => failed.push(format!("status {}", response.status)),
            Err(error) => failed.push(error.to_string()),
        }
        tokio::time::sleep(PAUSE).await; // the rate of the client, nothing is awaited with it
    }
    failed
}
