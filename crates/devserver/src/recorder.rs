//! Takes events in, numbers them, keeps them in memory for tests and writes them to the events file. Called by
//! `server.rs` for every datagram understood, before its answer leaves.

use crate::event::Event;
use crate::server::lock;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

#[derive(Debug)]
pub(crate) struct Recorder {
    state: Mutex<State>,
    changed: Notify,
    keeps: bool,
}

#[derive(Debug)]
struct State {
    next_seq: u64,
    events: Vec<Event>,
    /// `None` where no file is wanted, and after a write has failed.
    file: Option<File>,
}

impl Recorder {
    /// Keeps events in memory if `keeps`, and writes them to `file` if one is named.
    pub fn new(keeps: bool, file: Option<&Path>) -> io::Result<Recorder> {
        let file = file.map(create).transpose()?;
        Ok(Recorder {
            state: Mutex::new(State { next_seq: 1, events: Vec::new(), file }),
            changed: Notify::new(),
            keeps,
        })
    }

    /// Records what `event` makes of its sequence number. It is not called where nobody would see the event.
    pub fn record(&self, event: impl FnOnce(u64) -> Event) {
        let mut state = lock(&self.state);
        let seq = state.next_seq;
        state.next_seq += 1;
        if !self.keeps && state.file.is_none() {
            return;
        }
        let event = event(seq);
        if let Some(file) = &mut state.file
            && let Err(error) = write_line(file, &event)
        {
            tracing::error!(%error, "events file cannot be written, no more events go there");
            state.file = None;
        }
        if self.keeps {
            state.events.push(event);
            drop(state);
            self.changed.notify_waiters();
        }
    }

    pub fn events(&self) -> Vec<Event> {
        lock(&self.state).events.clone()
    }

    pub fn clear(&self) {
        lock(&self.state).events.clear();
    }

    /// The events once they fulfil the predicate, or as `Err` what there is when the time is over.
    pub async fn wait(
        &self,
        timeout: Duration,
        mut predicate: impl FnMut(&[Event]) -> bool,
    ) -> Result<Vec<Event>, Vec<Event>> {
        let deadline = Instant::now() + timeout;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that no event can slip in between.
            changed.as_mut().enable();
            if let Some(events) = self.fulfilling(&mut predicate) {
                return Ok(events);
            }
            if timeout_at(deadline, changed).await.is_err() {
                return self.fulfilling(&mut predicate).ok_or_else(|| self.events());
            }
        }
    }

    fn fulfilling(&self, predicate: &mut impl FnMut(&[Event]) -> bool) -> Option<Vec<Event>> {
        let state = lock(&self.state);
        predicate(&state.events).then(|| state.events.clone())
    }
}

fn create(path: &Path) -> io::Result<File> {
    File::create(path)
        .map_err(|error| io::Error::new(error.kind(), format!("events file {}: {error}", path.display())))
}

/// One write a line, unbuffered: whoever follows the file sees whole lines at once.
fn write_line(file: &mut File, event: &Event) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    file.write_all(&line)
}
