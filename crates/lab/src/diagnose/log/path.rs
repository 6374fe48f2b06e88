//! Groups of paths: an application's cost is that of its kinds of requests, and `/user/17` and `/user/18` are of one kind.
//! Called by `entry.rs`.

/// Segments that make a group, and bytes of its name.
const SEGMENTS: usize = 3;
const LENGTH: usize = 80;

/// The group of a path: without arguments, three segments at most, and `*` for those with a digit.
pub fn group(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut name = String::new();
    for (nth, segment) in path.split('/').skip_while(|segment| segment.is_empty()).enumerate() {
        name.push('/');
        if nth == SEGMENTS {
            name.push_str("...");
            break;
        }
        let number = segment.bytes().any(|byte| byte.is_ascii_digit());
        name.push_str(if number { "*" } else { segment });
    }
    name.truncate(name.floor_char_boundary(LENGTH));
    if name.is_empty() { "/".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_depth_make_no_groups() {
        for (path, expected) in [
            ("/", "/"),
            ("", "/"),
            ("/light?x=1", "/light"),
            ("/user/17/orders", "/user/*/orders"),
            ("/a/b/c/d/e", "/a/b/c/..."),
            ("-", "/-"),
        ] {
            assert_eq!(group(path), expected, "{path}");
        }
        assert!(group(&"/é".repeat(100)).len() <= LENGTH);
    }
}
