//! The variables of a template, and which of them a client chooses.
//!
//! Called while a configuration loads, for warnings only: nginx itself compiles and renders templates. What a `map` or a
//! capture makes of a client's value cannot be seen here, and is not judged.

/// Beginnings of the names of variables whose value is a part of the client's request.
const CHOSEN_FAMILIES: [&str; 3] = ["http_", "arg_", "cookie_"];

/// Variables that a client chooses. Each can be longer than a label, and all but the last also longer than a bucket.
const CHOSEN: [&str; 15] = [
    "args",
    "content_type",
    "document_uri",
    "host",
    "proxy_add_x_forwarded_for",
    "query_string",
    "request",
    "request_body",
    "request_filename",
    "request_method",
    "request_uri",
    "ssl_ciphers",
    "ssl_curves",
    "uri",
    "ssl_server_name",
];

/// Variables that have one value for all requests to a server block, or a few that the configuration allows.
const FIXED: [&str; 10] = [
    "hostname",
    "http2",
    "http3",
    "https",
    "nginx_version",
    "scheme",
    "server_addr",
    "server_name",
    "server_port",
    "server_protocol",
];

/// How the names of the module's own variables begin. All of them tell what came of the request's admission.
const OWN: &str = "ratelimitly_";

/// The names of a template's variables in order, as nginx reads them: `$name` and `${name}`.
pub fn names(template: &str) -> impl Iterator<Item = &str> {
    template.split('$').skip(1).filter_map(|rest| {
        let name = match rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?.0,
            None => rest,
        };
        let end = name.bytes().position(|byte| !is_part(byte)).unwrap_or(name.len());
        (end > 0).then_some(&name[..end])
    })
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The first variable of a template that a client chooses: it can make its value long, or leave it out.
pub fn chosen_by_client(template: &str) -> Option<&str> {
    names(template).find(|name| is_chosen(name))
}

/// The same, if no other variable of the template tells one client from another.
pub fn only_chosen_by_client(template: &str) -> Option<&str> {
    let alone = names(template).all(|name| is_chosen(name) || is_in(&FIXED, name));
    chosen_by_client(template).filter(|_| alone)
}

/// The first variable of a template that has no value before the request is asked about: the response's status and the
/// module's own variables.
pub fn unknown_before_decision(template: &str) -> Option<&str> {
    let is_own = |name: &str| name.get(..OWN.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN));
    names(template).find(|name| is_own(name) || name.eq_ignore_ascii_case("status"))
}

fn is_chosen(name: &str) -> bool {
    let begins =
        |family: &&str| name.get(..family.len()).is_some_and(|start| start.eq_ignore_ascii_case(family));
    CHOSEN_FAMILIES.iter().any(begins) || is_in(&CHOSEN, name)
}

fn is_in(list: &[&str], name: &str) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_with_and_without_braces() {
        let found: Vec<_> = names("a:$uri:${host}x$remote_addr-${}$$arg_a").collect();
        assert_eq!(found, ["uri", "host", "remote_addr", "arg_a"]);
        assert_eq!(names("no variable, 5 $").count(), 0);
        assert_eq!(names("${never closed").count(), 0);
    }

    #[test]
    fn parts_of_the_request_are_chosen_by_the_client() {
        for template in ["$http_x_user", "k:${arg_key}", "$cookie_id", "$args", "$URI", "$host", "$http_host"]
            .into_iter()
            // What a TLS client says that it supports; unknown numbers are kept, as hexadecimal digits.
            .chain(["$ssl_ciphers", "$ssl_curves"])
        {
            assert!(chosen_by_client(template).is_some(), "{template}");
        }
        for template in [
            "$binary_remote_addr",
            "$remote_user",
            "$server_name",
            "$ssl_client_fingerprint",
            "$https",
            "$http2",
            "$sent_http_x",
            "$plan_rate",
            "uri",
        ] {
            assert_eq!(chosen_by_client(template), None, "{template}");
        }
    }

    #[test]
    fn another_identity_beside_the_choice_is_one_that_the_client_does_not_choose() {
        assert_eq!(only_chosen_by_client("k:$server_name:$arg_key"), Some("arg_key"));
        assert_eq!(only_chosen_by_client("$binary_remote_addr:$uri"), None);
        assert_eq!(only_chosen_by_client("$of_a_map$uri"), None);
        assert_eq!(only_chosen_by_client("$server_name"), None);
    }
}
