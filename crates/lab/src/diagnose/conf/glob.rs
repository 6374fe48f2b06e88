//! The patterns of `include`: `*` and `?` within a folder, and `[a-z]`. Called by `dump.rs`.

/// Whether the whole path fits the pattern. The work is bounded by the product of both lengths.
pub fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path) = (pattern.as_bytes(), path.as_bytes());
    let (mut p, mut s) = (0, 0);
    // Behind the last `*`, and how far it reaches in the path so far.
    let mut star: Option<(usize, usize)> = None;
    while s < path.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, s));
            p += 1;
        } else if let Some(used) = one(&pattern[p..], path[s]) {
            (p, s) = (p + used, s + 1);
        } else {
            let Some((behind, reached)) = star.filter(|(_, reached)| path[*reached] != b'/') else {
                return false;
            };
            star = Some((behind, reached + 1));
            (p, s) = (behind, reached + 1);
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// How many bytes of the pattern stand for this byte of the path.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern.first()? {
        b'?' => (byte != b'/').then_some(1),
        b'[' => set(pattern, byte),
        literal => (*literal == byte).then_some(1),
    }
}

fn set(pattern: &[u8], byte: u8) -> Option<usize> {
    let end = pattern.iter().skip(2).position(|byte| *byte == b']')? + 2;
    let (negated, members) = match pattern.get(1)? {
        b'!' | b'^' => (true, &pattern[2..end]),
        _ => (false, &pattern[1..end]),
    };
    let range = members.windows(3).any(|of| of[1] == b'-' && (of[0]..=of[2]).contains(&byte));
    ((range || members.contains(&byte)) != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stay_in_their_folder() {
        for (pattern, path) in [
            ("/e/conf.d/*.conf", "/e/conf.d/a.conf"),
            ("/e/*/x", "/e/sites/x"),
            ("/e/a?c", "/e/abc"),
            ("/e/[0-9]*", "/e/10-app"),
            ("/e/[!0-9]*", "/e/app"),
            ("/e/x", "/e/x"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/e/*.conf", "/e/conf.d/a.conf"),
            ("/e/*.conf", "/e/a.conf.bak"),
            ("/e/[0-9]*", "/e/app"),
            ("/e/[", "/e/["),
            ("/e/x", "/e/xy"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }
}
