//! The demo's table: what a row should show, what it did show, and whether that agrees. Filled by `scenes`.

/// What came of a request.
#[derive(Debug)]
pub struct Row {
    pub request: String,
    pub status: u16,
    /// `$ratelimitly_verdict`; `-` where there is none.
    pub verdict: String,
    /// The server that answered; `-` where none did.
    pub server: String,
    /// Milliseconds that the admission took.
    pub waited: String,
}

/// What should have come of it.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    pub status: u16,
    pub verdict: &'static str,
    /// A server that must not have answered, for it is down.
    pub not_server: Option<u64>,
}

pub const ALLOW: Expected = Expected { status: 200, verdict: "allow", not_server: None };
pub const DENY: Expected = Expected { status: 429, verdict: "deny", not_server: None };
pub const FAIL_OPEN: Expected = Expected { status: 200, verdict: "-", not_server: None };
pub const FAIL_CLOSE: Expected = Expected { status: 429, verdict: "-", not_server: None };

impl Expected {
    /// With an answer of any server but this one.
    pub fn but_not(self, server: u64) -> Expected {
        Expected { not_server: Some(server), ..self }
    }

    /// Whether the row shows this. A verdict has a server that gave it, anything else has none.
    pub fn met_by(&self, row: &Row) -> bool {
        let answered = row.server.parse::<u64>().ok();
        row.status == self.status
            && row.verdict == self.verdict
            && answered.is_some() == (self.verdict != "-")
            && (self.not_server.is_none() || answered != self.not_server)
    }
}

/// Prints the rows as they come, a heading for each scene.
pub struct Table {
    pub all_right: bool,
}

impl Table {
    pub fn new() -> Table {
        println!(
            "{:<34} {:>6}  {:<7}  {:>18}  {:>9}",
            "request", "status", "verdict", "answering server", "admission"
        );
        Table { all_right: true }
    }

    pub fn scene(&mut self, heading: &str) {
        println!("-- {heading}");
    }

    pub fn row(&mut self, row: &Row, expected: Expected) {
        let Row { request, status, verdict, server, waited } = row;
        let right = expected.met_by(row);
        let mark = if right { String::new() } else { format!("   WRONG, should be {expected:?}") };
        println!("{request:<34} {status:>6}  {verdict:<7}  {server:>18}  {waited:>6} ms{mark}");
        self.all_right &= right;
    }
}
