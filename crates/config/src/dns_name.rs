//! The domain name that SRV discovery asks for.

use crate::text::{self, Excerpt};

/// What stands before the name in the SRV query.
pub const SERVICE: &str = "_ratelimitly._udp.";
/// Longest domain name in text form without its last dot.
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// Why a text is no domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnsNameError {
    /// Nothing, or only a dot.
    #[error("name is empty, expected a domain name such as rl.example.com")]
    Empty,
    /// An empty or too long label.
    #[error("\"{0}\" has a label that is empty or longer than {LABEL_MAX} bytes, expected a domain name")]
    Label(Excerpt),
    /// Something else than letters, digits, `-` and `_`.
    #[error("\"{0}\" has a character that is not a letter, digit, \"-\" or \"_\", expected a domain name")]
    Character(Excerpt),
    /// The whole SRV name.
    #[error("\"{0}\" begins with \"{SERVICE}\", which is put before the name: leave it out")]
    Service(Excerpt),
    /// A URL.
    #[error("\"{0}\" is a URL, expected only the domain name in it, without scheme, port and path")]
    Url(Excerpt),
    /// An API key.
    #[error("\"{0}\" is an API key, expected a domain name; the key belongs to ratelimitly_auth_key")]
    Key(Excerpt),
    /// Too long together with the service's labels.
    #[error("\"{name}\" has {len} bytes, at most {max} are allowed", max = NAME_MAX - SERVICE.len())]
    Length {
        /// The name's start.
        name: Excerpt,
        /// Its length.
        len: usize,
    },
}

/// The SRV name `_ratelimitly._udp.<name>` without a last dot; one last dot of `name` is accepted.
///
/// # Errors
/// [`DnsNameError`] for anything that cannot be a domain name.
pub fn srv_name(name: &[u8]) -> Result<String, DnsNameError> {
    let shown = Excerpt::new(name);
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() {
        return Err(DnsNameError::Empty);
    }
    if text::begins_with_key(name) {
        return Err(DnsNameError::Key(shown));
    }
    if name.get(..SERVICE.len()).is_some_and(|start| start.eq_ignore_ascii_case(SERVICE.as_bytes())) {
        return Err(DnsNameError::Service(shown));
    }
    if name.windows(3).any(|part| part == b"://") {
        return Err(DnsNameError::Url(shown));
    }
    for label in name.split(|&b| b == b'.') {
        if label.is_empty() || label.len() > LABEL_MAX {
            return Err(DnsNameError::Label(shown));
        }
        if !label.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
            return Err(DnsNameError::Character(shown));
        }
    }
    if SERVICE.len() + name.len() > NAME_MAX {
        return Err(DnsNameError::Length { name: shown, len: name.len() });
    }
    Ok(SERVICE.chars().chain(name.iter().copied().map(char::from)).collect())
}

/// The SRV name of a key whose configuration names no domain.
pub fn default_srv_name(key_id: u64) -> String {
    format!("{SERVICE}c-{key_id}.p0.ratelimitly.com")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_url_is_called_one() {
        assert!(matches!(srv_name(b"https://rl.example.com/"), Err(DnsNameError::Url(_))));
        assert!(matches!(srv_name(b"rl.example.com:53"), Err(DnsNameError::Character(_))));
    }

    #[test]
    fn the_service_is_put_before_the_name() {
        assert_eq!(srv_name(b"rl.example.com").unwrap(), "_ratelimitly._udp.rl.example.com");
        assert_eq!(srv_name(b"rl.example.com.").unwrap(), "_ratelimitly._udp.rl.example.com");
        assert_eq!(default_srv_name(4242), "_ratelimitly._udp.c-4242.p0.ratelimitly.com");
    }

    #[test]
    fn names_that_are_none_are_refused() {
        assert_eq!(srv_name(b""), Err(DnsNameError::Empty));
        assert_eq!(srv_name(b"."), Err(DnsNameError::Empty));
        assert!(matches!(srv_name(b"_Ratelimitly._udp.a"), Err(DnsNameError::Service(_))));
        assert!(matches!(srv_name(b"rl-secret1qqq"), Err(DnsNameError::Key(_))));
        assert!(matches!(srv_name(b"a..b"), Err(DnsNameError::Label(_))));
        assert!(matches!(srv_name(&[b'a'; 64]), Err(DnsNameError::Label(_))));
        assert!(matches!(srv_name(b"a b"), Err(DnsNameError::Character(_))));
        assert!(matches!(srv_name(b"$host"), Err(DnsNameError::Character(_))));
    }

    #[test]
    fn the_whole_query_name_fits_dns() {
        let name = vec!["a".repeat(47); 5].join(".");
        assert!(matches!(srv_name(name.as_bytes()), Err(DnsNameError::Length { len: 239, .. })));
        assert_eq!(srv_name(&name.as_bytes()[..235]).unwrap().len(), 253);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(name: Vec<u8>) {
            let _ = srv_name(&name);
        }
    }
}
