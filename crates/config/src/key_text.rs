//! What stands in the place of an API key by mistake: a placeholder, a path, the key of another product.
//!
//! Called for a text that is no key, so that the message says what it is. Nothing here shows the text.

/// What a text that is no API key looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// What documentation shows in the place of a key.
    #[error("this is a placeholder: put your own API key here")]
    Placeholder,
    /// The name of a file.
    #[error(
        "this is a path, and the directive takes the key itself: keep the line \"ratelimitly_auth_key rl-aes1...;\" in \
         that file and \"include\" it here"
    )]
    Path,
    /// A text that begins otherwise than a key.
    #[error("this does not begin with \"rl-aes1\" or \"rl-cookie1\", so it is not an API key of RateLimitly")]
    Foreign,
}

/// How the keys begin that the module takes, and the two kinds whose own message says more.
const BEGINNINGS: [&[u8]; 4] = [b"rl-aes1", b"rl-cookie1", b"rl-secret1", b"rl-none1"];

/// Words of placeholders. None can be in a key, whose letters after its beginning lack `b`, `i` and `o`.
const PLACEHOLDER_WORDS: [&[u8]; 5] = [b"your", b"placeholder", b"key_here", b"<", b"{"];

/// What kind of mistake the text is, if it is one of these.
pub fn mistake(text: &[u8]) -> Option<Mistake> {
    let lower = text.to_ascii_lowercase();
    let holds = |part: &[u8]| lower.windows(part.len()).any(|window| window == part);
    let begins = BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning));
    if holds(b"/") {
        Some(Mistake::Path)
    } else if holds(b"..") || holds("\u{2026}".as_bytes()) || PLACEHOLDER_WORDS.iter().any(|word| holds(word))
    {
        Some(Mistake::Placeholder)
    } else if begins {
        None
    } else {
        Some(Mistake::Foreign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_is_called_by_its_name() {
        for (text, expected) in [
            ("rl-aes1...", Some(Mistake::Placeholder)),
            ("RL-COOKIE1\u{2026}", Some(Mistake::Placeholder)),
            ("YOUR_KEY", Some(Mistake::Placeholder)),
            ("<key>", Some(Mistake::Placeholder)),
            ("rl-aes1{key}", Some(Mistake::Placeholder)),
            ("/etc/nginx/key", Some(Mistake::Path)),
            ("../key.txt", Some(Mistake::Path)),
            ("file:///etc/key", Some(Mistake::Path)),
            ("sk_live_0123456789", Some(Mistake::Foreign)),
            ("rl-aes", Some(Mistake::Foreign)),
            ("rl-aes1nonsense", None),
            ("RL-AES1QYQSQQQ", None),
            ("rl-secret1qqq", None),
        ] {
            assert_eq!(mistake(text.as_bytes()), expected, "{text}");
        }
    }
}
