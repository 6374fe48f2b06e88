//! What users of the application saw, from nginx's access log, and what has to hold of it on any machine. Pure.

use super::site::Spoiler;
use crate::error::Error;
use ratelimitly_harness::figures::median;

/// The head of the table.
pub const HEAD: &str = "| what reports too | `ratelimitly_report app` | `if=$worked` | `time=$backend_time` |\n|---|---:|---:|---:|";

/// Requests to the application, without what spoils the guard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Answered with 200, percent.
    success: f64,
    /// Refused by the guard, percent.
    denied: f64,
    /// 504, percent.
    late: f64,
    /// Median of `$upstream_header_time` of the successful ones, milliseconds.
    wait_ms: f64,
}

impl Figures {
    /// Of the lines between two moments of Unix time.
    ///
    /// # Errors
    /// A line of another format, or none in that time.
    pub fn of(log: &str, from: f64, to: f64) -> Result<Figures, Error> {
        let fault = |line: &str| Error::Line { file: "access.log", line: line.to_owned() };
        let (mut all, mut good, mut denied, mut late) = (0.0, Vec::new(), 0.0, 0.0);
        for line in log.lines() {
            let (at, path, status, time) = parse(line).ok_or_else(|| fault(line))?;
            if !(from..to).contains(&at) || !matches!(path, "/light" | "/large") {
                continue;
            }
            all += 1.0;
            match status {
                200 => good.extend(time),
                429 => denied += 1.0,
                504 => late += 1.0,
                _ => {}
            }
        }
        if all == 0.0 {
            return Err(Error::Load("no request was logged while it was judged".into()));
        }
        let percent = |count: f64| 100.0 * count / all;
        Ok(Figures {
            success: percent(good.len() as f64),
            denied: percent(denied),
            late: percent(late),
            wait_ms: median(good).unwrap_or(0.0) * 1000.0,
        })
    }

    fn cell(&self) -> String {
        let Figures { success, denied, late, wait_ms } = self;
        format!("{success:.0}% served in {wait_ms:.0} ms, {denied:.0}% denied, {late:.0}% 504")
    }
}

fn parse(line: &str) -> Option<(f64, &str, u16, Option<f64>)> {
    let mut fields = line.split(' ');
    let (at, path) = (fields.next()?.parse().ok()?, fields.next()?);
    Some((at, path, fields.next()?.parse().ok()?, fields.next()?.parse().ok()))
}

/// A row of the table.
pub fn row(title: &str, [plain, conditional, timed]: &[Figures; 3]) -> String {
    format!("| {title} | {} | {} | {} |", plain.cell(), conditional.cell(), timed.cell())
}

/// What does not hold and has to.
pub fn wrong(spoiler: Spoiler, [plain, conditional, timed]: &[Figures; 3]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut must = |held: bool, what: &str| {
        if !held {
            wrong.push(what.to_owned());
        }
    };
    match spoiler {
        Spoiler::CachedPage | Spoiler::Fast502 => {
            must(plain.success < 20.0, "the spoiled guard lets the application collapse: below 20%");
            must(
                conditional.success > 35.0 && conditional.late < 20.0,
                "if= prevents that: above 35%, few 504",
            );
            must(timed.success > 35.0 && timed.late < 20.0, "time= prevents that: above 35%, few 504");
        }
        Spoiler::MaxConns => {
            must(plain.denied < 0.5 * timed.denied, "the spoiled guard denies less than half as many");
            must(
                conditional.denied > 30.0 && timed.denied > 30.0,
                "with if= or time= the guard denies: above 30%",
            );
        }
        Spoiler::SlowClient => {
            must(
                plain.success < 70.0 && conditional.success < 70.0,
                "slow clients close the guard: below 70%",
            );
            must(timed.success > 95.0, "with time= they do not: above 95%");
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "10.000 /light 200 0.500\n11.000 /light 200 0.100\n11.500 /cached 200 -\n11.900 /light 429 -\n\
                       12.000 /light 504 -\n12.100 /light 200 0.300\n20.000 /light 429 -\n";

    #[test]
    fn requests_to_the_application_are_counted_in_their_time() {
        let Figures { success, denied, late, wait_ms } = Figures::of(LOG, 10.5, 20.0).expect("figures");
        assert_eq!((success, denied, late), (50.0, 25.0, 25.0));
        assert!((wait_ms - 300.0).abs() < 1.0 || (wait_ms - 100.0).abs() < 1.0, "{wait_ms}");
    }

    #[test]
    fn a_log_without_requests_or_of_another_format_is_an_error() {
        assert!(Figures::of(LOG, 30.0, 40.0).is_err());
        assert!(Figures::of("x", 0.0, 40.0).is_err());
    }

    #[test]
    fn a_direction_that_is_wrong_is_named() {
        let collapsed = Figures { success: 1.0, late: 99.0, ..Figures::default() };
        let kept = Figures { success: 50.0, denied: 50.0, ..Figures::default() };
        assert!(wrong(Spoiler::Fast502, &[collapsed, kept, kept]).is_empty());
        assert_eq!(wrong(Spoiler::Fast502, &[kept, kept, collapsed]).len(), 2);
    }
}
