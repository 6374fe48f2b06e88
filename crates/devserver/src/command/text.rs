//! Commands as JSON text: reads one, and shows the right form where the text is close to one. Called by the control
//! socket and by `serve --apply`. Pure.

use super::{Command, CommandError};
use serde_json::Value;

const EXAMPLE: &str = r#"{"command":"fault","fault":{"delay":{"ms":200}}}"#;

/// Faults that have parameters. A DNS fault of the same name has the same form.
const FORMS: [(&str, &str); 12] = [
    ("drop", r#"{"drop":{"probability":0.3}}"#),
    ("delay", r#"{"delay":{"ms":200}}"#),
    ("jitter", r#"{"jitter":{"ms":50}}"#),
    ("duplicate", r#"{"duplicate":{"extra":1}}"#),
    ("truncated", r#"{"truncated":{"bytes":50}}"#),
    ("wrong_server_id", r#"{"wrong_server_id":{"id":5}}"#),
    ("latency", r#"{"latency":{"guard":0,"ms":500}}"#),
    ("deficit", r#"{"deficit":{"resource":0,"tokens":1}}"#),
    ("no_address", r#"{"no_address":{"servers":[1015809]}}"#),
    ("no_target", r#"{"no_target":{"servers":[1015809]}}"#),
    ("bad_target", r#"{"bad_target":{"servers":[1015809]}}"#),
    ("extra_addresses", r#"{"extra_addresses":{"server":1015809,"addresses":["100::1"]}}"#),
];

impl Command {
    /// Reads a command from its JSON text.
    ///
    /// # Errors
    /// [`CommandError::Syntax`], with the right form where the text is close to one.
    pub fn from_json(text: &[u8]) -> Result<Command, CommandError> {
        serde_json::from_slice(text).map_err(|error| CommandError::Syntax { hint: hint(text), error })
    }
}

fn hint(text: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return String::new() };
    if value.get("command").is_none() {
        return format!("; a command is an object with a member \"command\", like {EXAMPLE}");
    }
    let named = match value.get("fault") {
        Some(Value::String(name)) => Some(name),
        Some(Value::Object(fault)) => fault.keys().next(),
        _ => None,
    };
    let form = named.and_then(|name| FORMS.iter().find(|(known, _)| known == name));
    form.map_or(String::new(), |(name, form)| format!("; the fault \"{name}\" has the form {form}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{DnsFault, Fault};

    #[test]
    fn each_form_shown_is_a_fault() {
        for (name, form) in FORMS {
            let of_server = serde_json::from_str::<Fault>(form).is_ok();
            assert!(of_server || serde_json::from_str::<DnsFault>(form).is_ok(), "{form}");
            assert!(form.starts_with(&format!("{{\"{name}\":")), "{form}");
        }
        Command::from_json(EXAMPLE.as_bytes()).unwrap();
    }

    #[test]
    fn a_command_that_is_nearly_right_is_shown_its_form() {
        for (text, part) in [
            (r#"{"delay":200}"#, EXAMPLE),
            (r#"{"command":"fault","fault":{"delay":200}}"#, r#"has the form {"delay":{"ms":200}}"#),
            (r#"{"command":"fault","fault":"jitter"}"#, r#"has the form {"jitter":{"ms":50}}"#),
            (r#"{"command":"dns","fault":{"delay":200}}"#, r#"has the form {"delay":{"ms":200}}"#),
            ("200", EXAMPLE),
        ] {
            let error = Command::from_json(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn text_that_is_no_json_gets_no_guess() {
        let error = Command::from_json(b"{").unwrap_err().to_string();
        assert!(error.starts_with("not a command: EOF while parsing"), "{error}");
    }
}
