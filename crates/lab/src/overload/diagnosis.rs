//! What `ci/lab diagnose` says of an experiment's two logs, without knowing what was changed: the same reading and the same
//! judgement that an operator gets. Called by `run.rs`, shown by `report.rs`.

use crate::error::Error;
use ratelimitly_lab::diagnose::{Diagnosis, Judgement, Logs, Text, View};

/// The format `lab` of `remedy.rs`, and that of the application in `upstream.rs`.
const ACCESS: &str = "$msec $status $uri $http_x_key $upstream_addr $upstream_header_time $request_time \
                          $ratelimitly_verdict";
const APP: &str = "$msec $uri $app_time $fate";

/// What the logs say of one run.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// A few words.
    pub words: &'static str,
    /// The usual.
    pub usual: Shown,
    /// Once requests wait; the usual where none do.
    pub then: Shown,
}

/// Figures of a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// Wait in the accept queue, seconds.
    pub wait: f64,
    /// The application's time for a light request, seconds.
    pub processing: f64,
    /// Share of requests to the heavy endpoint, 0 to 1.
    pub heavy: f64,
    /// Requests per second.
    pub per_second: f64,
    /// Keys in a second.
    pub keys: f64,
}

/// Reads both logs and judges.
///
/// # Errors
/// A log cannot be read.
pub fn said(access: &str, app: &str) -> Result<Said, Error> {
    let (access, app) = (Text { text: access, format: ACCESS }, Text { text: app, format: APP });
    let logs = Logs::read(access, "http_x_key", app)?;
    let diagnosis = logs.diagnose();
    let shown = |view: &View| Shown {
        wait: view.wait.unwrap_or(0.0),
        processing: logs.path("/light").and_then(|path| view.processing(path)).unwrap_or(0.0),
        heavy: logs.path("/heavy").map_or(0.0, |path| view.share(path)),
        per_second: view.per_second,
        keys: view.clients,
    };
    let usual = shown(&diagnosis.usual);
    let then = diagnosis.then.as_ref().map_or(usual, shown);
    Ok(Said { words: words(&diagnosis), usual, then })
}

fn words(diagnosis: &Diagnosis) -> &'static str {
    match &diagnosis.judgement {
        Judgement::NothingWaits => "nothing waits",
        Judgement::Found(cause) => cause.title(),
        Judgement::CannotTell(why) => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn the_labs_own_formats_are_read() {
        let (mut access, mut app) = (String::new(), String::new());
        for nth in 0..2000 {
            let at = 1000.0 + f64::from(nth) / 200.0;
            let _ = writeln!(access, "{at:.3} 200 /light key-{} 127.0.0.1:9 0.051 0.052 -", nth % 10);
            let _ = writeln!(app, "{at:.3} /light 0.0501 served");
        }
        let said = said(&access, &app).expect("both are read");
        assert_eq!(said.words, "nothing waits");
        assert_eq!(said.usual.per_second, 200.0);
        assert!((said.usual.processing - 0.0501).abs() < 1e-9, "{}", said.usual.processing);
    }
}
