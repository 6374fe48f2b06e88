//! Answers on their way out of one server, each at its time. Filled by `server.rs`, drained by that server's loop.
//! Answers of equal time leave in the order in which they were put.

use crate::server::lock;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A sealed answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub datagram: Vec<u8>,
    pub destination: SocketAddr,
    /// How often it is sent.
    pub copies: u32,
}

/// An answer that `hold` keeps back.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub server: u64,
    pub outgoing: Outgoing,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: BinaryHeap<Reverse<Waiting>>,
    puts: u64,
}

#[derive(Debug)]
struct Waiting {
    due: Instant,
    put: u64,
    outgoing: Outgoing,
}

impl Outbox {
    pub fn put(&self, outgoing: Outgoing, delay: Duration) {
        let now = Instant::now();
        // A delay beyond what the clock can express never ends within this process's life.
        let Some(due) = now.checked_add(delay) else { return };
        let mut queue = lock(&self.queue);
        queue.puts += 1;
        let put = queue.puts;
        queue.waiting.push(Reverse(Waiting { due, put, outgoing }));
        drop(queue);
        self.changed.notify_one();
    }

    pub fn clear(&self) {
        lock(&self.queue).waiting.clear();
    }

    /// Waits for the next answer whose time has come, and takes it. Nothing is lost when this is cancelled.
    pub async fn due(&self) -> Outgoing {
        loop {
            let (outgoing, next) = self.take(Instant::now());
            if let Some(outgoing) = outgoing {
                return outgoing;
            }
            match next {
                Some(due) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    fn take(&self, now: Instant) -> (Option<Outgoing>, Option<Instant>) {
        let mut queue = lock(&self.queue);
        match queue.waiting.peek() {
            Some(Reverse(first)) if first.due <= now => {
                (queue.waiting.pop().map(|Reverse(first)| first.outgoing), None)
            }
            first => (None, first.map(|Reverse(first)| first.due)),
        }
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        (self.due, self.put).cmp(&(other.due, other.put))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(mark: u8) -> Outgoing {
        Outgoing { datagram: vec![mark], destination: SocketAddr::from(([127, 0, 0, 1], 1)), copies: 1 }
    }

    #[test]
    fn answers_leave_by_time_and_then_by_age() {
        let outbox = Outbox::default();
        outbox.put(outgoing(1), Duration::from_millis(500));
        outbox.put(outgoing(2), Duration::ZERO);
        outbox.put(outgoing(3), Duration::ZERO);
        let later = Instant::now() + Duration::from_secs(1);
        let order: Vec<u8> =
            std::iter::from_fn(|| outbox.take(later).0).map(|outgoing| outgoing.datagram[0]).collect();
        assert_eq!(order, [2, 3, 1]);
    }

    #[test]
    fn nothing_leaves_before_its_time() {
        let outbox = Outbox::default();
        outbox.put(outgoing(1), Duration::from_secs(3600));
        let (outgoing, next) = outbox.take(Instant::now());
        assert_eq!(outgoing, None);
        assert!(next.is_some_and(|due| due > Instant::now()));
    }
}
