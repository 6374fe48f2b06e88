//! Moments as nginx logs them: `$msec`, `$time_iso8601` and `$time_local`, in seconds since 1970. Called by `entry.rs`.

/// Later moments are no moments of a log: the year 2999.
const MAX: f64 = 32_503_680_000.0;

/// A moment of `$msec`.
pub fn msec(text: &str) -> Option<f64> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..MAX).contains(&seconds).then_some(seconds)
}

/// A moment of `$time_iso8601`, `2026-12-01T05:46:04+00:00`.
pub fn iso8601(text: &str) -> Option<f64> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.split('-');
    let (year, month, day) = (number(date.next()?)?, number(date.next()?)?, number(date.next()?)?);
    let zone = time.find(['+', '-', 'Z'])?;
    seconds([year, month, day], &time[..zone], &time[zone..])
}

/// A moment of `$time_local`, `01/Dec/2026:05:46:04 +0000`.
pub fn local(text: &str) -> Option<f64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (date, time) = text.split_once(':')?;
    let mut date = date.split('/');
    let (day, month, year) = (number(date.next()?)?, date.next()?, number(date.next()?)?);
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let (time, zone) = time.split_once(' ')?;
    seconds([year, month, day], time, zone)
}

fn seconds([year, month, day]: [i64; 3], time: &str, zone: &str) -> Option<f64> {
    let mut parts = time.split(':');
    let (hour, minute, second) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    let fits = (1970..3000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let fits = fits && (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    let local = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    fits.then_some((local - offset(zone)?).max(0) as f64)
}

/// Days since 1970 in the Gregorian calendar. Years begin in March here, so that a leap day is the last day of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// Seconds east of Greenwich: `+0100`, `+01:00` or `Z`.
fn offset(zone: &str) -> Option<i64> {
    let sign = match zone.chars().next()? {
        'Z' => return Some(0),
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let digits: String = zone[1..].chars().filter(|c| *c != ':').collect();
    let number = number(&digits).filter(|_| digits.len() == 4)?;
    Some(sign * (number / 100 * 3600 + number % 100 * 60))
}

/// Up to four digits.
fn number(text: &str) -> Option<i64> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_forms_name_the_same_moment() {
        assert_eq!(msec("1796103964.250"), Some(1_796_103_964.25));
        assert_eq!(iso8601("2026-12-01T05:46:04+00:00"), Some(1_796_103_964.0));
        assert_eq!(local("01/Dec/2026:07:46:04 +0200"), Some(1_796_103_964.0));
        assert_eq!(iso8601("2024-02-29T00:00:00-01:30"), Some(1_709_164_800.0 + 5400.0));
    }

    #[test]
    fn anything_else_is_no_moment() {
        for bad in ["", "-", "x", "nan", "-1", "1e30", "inf"] {
            assert_eq!(msec(bad), None, "{bad}");
        }
        for bad in ["", "2026-13-01T00:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T00:00:00", "é-1-1Té"] {
            assert_eq!((iso8601(bad), local(bad)), (None, None), "{bad}");
        }
    }
}
