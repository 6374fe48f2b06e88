//! Lines that older versions of the C module, or its first draft, accepted and that are errors today.
//!
//! Called for a directive that was refused, so that the message says what the line is and where its successor is found.
//! Only arguments are recognised: nginx itself refuses a directive that no module has.

/// The page that has a row for each of these lines.
pub const PAGE: &str = "see \"Coming from the C module\" in docs/configuration.md";

/// A line of an older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Older {
    /// `oldest_preference=` of `custom`.
    #[error(
        "\"{0}=\" is an argument of versions before 0.1.0: leave it out, the oldest server is always preferred in the \
         first round; {PAGE}"
    )]
    Preference(&'static str),
    /// `zone=` in a definition.
    #[error(
        "\"zone=\" named a definition in the first draft: now the name stands alone, ratelimitly_zone <name>; {PAGE}"
    )]
    ZoneName,
    /// `service=` in a guard.
    #[error(
        "\"service=\" in a guard is of versions before 0.1.0: define a ratelimitly_tracker with it, and name that one in \
         \"tracker=\"; {PAGE}"
    )]
    GuardService,
}

/// The older form that a refused directive's arguments have, if it is one of these.
pub fn form(directive: &str, arguments: &[&[u8]]) -> Option<Older> {
    let has = |name: &str| {
        let named = |argument: &&[u8]| {
            argument.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
        };
        arguments.iter().any(named)
    };
    match directive {
        "ratelimitly_policy" => {
            let names = ["oldest_preference", "final_oldest_preference_units"];
            names.into_iter().find(|name| has(name)).map(Older::Preference)
        }
        "ratelimitly_zone" => has("zone").then_some(Older::ZoneName),
        "ratelimitly_guard" => has("service").then_some(Older::GuardService),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formed(line: &str) -> Option<Older> {
        let (directive, arguments) = line.split_once(' ').expect("a directive with arguments");
        form(directive, &arguments.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    #[test]
    fn older_lines_are_recognised() {
        for (line, older) in [
            ("ratelimitly_policy custom oldest_preference=on", Older::Preference("oldest_preference")),
            (
                "ratelimitly_policy custom unit=1s final_oldest_preference_units=2",
                Older::Preference("final_oldest_preference_units"),
            ),
            ("ratelimitly_zone zone=a bucket=b rate=1r/s", Older::ZoneName),
            ("ratelimitly_zone bucket=b zone=a", Older::ZoneName),
            ("ratelimitly_guard g service=shop ttl=1s threshold=1s", Older::GuardService),
        ] {
            assert_eq!(formed(line), Some(older), "{line}");
            assert!(older.to_string().ends_with(PAGE));
        }
    }

    #[test]
    fn lines_of_today_are_not() {
        for line in [
            "ratelimitly zone=a",
            "ratelimitly_group zone=a zone=b",
            "ratelimitly_zone zone bucket=zone=a rate=fast",
            "ratelimitly_tracker t service=shop",
            "ratelimitly_policy custom oldest_preferences=1",
        ] {
            assert_eq!(formed(line), None, "{line}");
        }
    }
}
