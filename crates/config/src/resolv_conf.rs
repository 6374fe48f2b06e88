//! `nameserver` lines of a resolv.conf, read once while nginx loads.
//!
//! Other keywords have no meaning here: discovery asks absolute names only, so `search` and `options` are ignored. What an
//! operator would take for a nameserver and is not used is reported to the caller.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::address::{DNS_PORT, parse_resolver};
use crate::text::Excerpt;

/// Most nameservers taken from one file.
pub const MAX_SERVERS: usize = 16;
/// The nameserver of a system that names none.
pub const LOCAL_SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DNS_PORT);

const KEYWORD: &[u8] = b"nameserver";
/// Most warnings about lines.
const MAX_WARNINGS: usize = 16;
/// What some editors put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What a resolv.conf offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvConf {
    /// Usable nameservers in the file's order, at most [`MAX_SERVERS`]; never empty: [`LOCAL_SERVER`] where none is usable.
    pub servers: Vec<SocketAddr>,
    /// What was left out, as far as a few lines can tell.
    pub warnings: Vec<Warning>,
}

/// What an operator should know of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A line that was left out.
    Line {
        /// Its number, from 1.
        line: usize,
        /// Why.
        reason: Reason,
    },
    /// No nameserver can be used.
    NoServer,
}

/// Why a line was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No address follows the keyword.
    Missing,
    /// The address belongs to one interface (`fe80::1%eth0`).
    Scoped(Excerpt),
    /// Not an IP address.
    Unusable(Excerpt),
    /// One more than [`MAX_SERVERS`].
    TooMany,
    /// The keyword in other letters, which the system's own resolver does not know either.
    Keyword(Excerpt),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning::Line { line, reason } = self else {
            return write!(f, "no usable nameserver, 127.0.0.1 is used");
        };
        write!(f, "line {line}: ")?;
        match reason {
            Reason::Missing => write!(f, "nameserver without an address"),
            Reason::Scoped(text) => write!(f, "nameserver \"{text}\" is bound to an interface"),
            Reason::Unusable(text) => write!(f, "nameserver \"{text}\" is not an IP address"),
            Reason::TooMany => write!(f, "only the first {MAX_SERVERS} nameservers are used"),
            Reason::Keyword(text) => {
                write!(f, "\"{text}\" is ignored, expected \"nameserver\" in lower case")
            }
        }
    }
}

impl ResolvConf {
    /// Reads a file's content. Lines may end in CR LF, `#` and `;` start comments, a byte-order mark is skipped.
    pub fn parse(content: &[u8]) -> ResolvConf {
        let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
        let mut servers = Vec::new();
        let mut warnings = Vec::new();
        for (index, line) in content.split(|&b| b == b'\n').enumerate() {
            let outcome = match nameserver(line) {
                None => continue,
                Some(Ok(_)) if servers.len() == MAX_SERVERS => Err(Reason::TooMany),
                Some(outcome) => outcome,
            };
            match outcome {
                Ok(server) => servers.push(server),
                Err(reason) if warnings.len() < MAX_WARNINGS => {
                    warnings.push(Warning::Line { line: index + 1, reason });
                }
                Err(_) => {}
            }
        }
        if servers.is_empty() {
            servers.push(LOCAL_SERVER);
            warnings.push(Warning::NoServer);
        }
        ResolvConf { servers, warnings }
    }
}

/// A nameserver line's address; `None` where the line is another one.
fn nameserver(line: &[u8]) -> Option<Result<SocketAddr, Reason>> {
    let code = line.split(|&b| b == b'#' || b == b';').next()?;
    let mut words = code.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    match words.next()? {
        KEYWORD => Some(parse_nameserver(words.next().unwrap_or_default())),
        word if word.eq_ignore_ascii_case(KEYWORD) => Some(Err(Reason::Keyword(Excerpt::new(word)))),
        _ => None,
    }
}

fn parse_nameserver(word: &[u8]) -> Result<SocketAddr, Reason> {
    if word.is_empty() {
        return Err(Reason::Missing);
    }
    if word.contains(&b'%') {
        return Err(Reason::Scoped(Excerpt::new(word)));
    }
    let bare = std::str::from_utf8(word).ok().and_then(|text| text.parse::<IpAddr>().ok());
    let address = match bare {
        Some(ip) => SocketAddr::new(ip, DNS_PORT),
        None if word[0] == b'[' => parse_resolver(word).map_err(|_| Reason::Unusable(Excerpt::new(word)))?,
        None => return Err(Reason::Unusable(Excerpt::new(word))),
    };
    // A mapped address is an IPv4 server: as such it is reachable where there is no IPv6 as well.
    Ok(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NO_SERVER: &str = "no usable nameserver, 127.0.0.1 is used";

    fn servers(content: &str) -> Vec<String> {
        ResolvConf::parse(content.as_bytes()).servers.iter().map(SocketAddr::to_string).collect()
    }

    fn warnings(content: &str) -> Vec<String> {
        ResolvConf::parse(content.as_bytes()).warnings.iter().map(Warning::to_string).collect()
    }

    #[test]
    fn d18_bare_ipv6() {
        let content = "nameserver fd7a:115c:a1e0::53\nnameserver ::1\n";
        assert_eq!(servers(content), ["[fd7a:115c:a1e0::53]:53", "[::1]:53"]);
    }

    #[test]
    fn d19_mapped_ipv4_with_crlf() {
        assert_eq!(
            servers("nameserver ::ffff:10.0.0.1\r\nnameserver 10.0.0.2\r\n"),
            ["10.0.0.1:53", "10.0.0.2:53"]
        );
    }

    #[test]
    fn d20_tabs_and_comments_are_stripped() {
        let content = "nameserver\t10.0.0.1\t# first\nnameserver 10.0.0.2; second\n\tnameserver 10.0.0.3#x\n";
        assert_eq!(servers(content), ["10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"]);
        assert_eq!(warnings(content), [""; 0]);
    }

    #[test]
    fn d21_bracketed_ipv6() {
        assert_eq!(servers("nameserver [::1]\nnameserver [fd00::2]:5353\n"), ["[::1]:53", "[fd00::2]:5353"]);
    }

    #[test]
    fn d22_commented_address_is_nothing_and_a_host_name_unusable() {
        let content = "nameserver 10.0.0.1\n#nameserver 10.0.0.2\nnameserver dns.example\n";
        assert_eq!(servers(content), ["10.0.0.1:53"]);
        assert_eq!(warnings(content), ["line 3: nameserver \"dns.example\" is not an IP address"]);
    }

    #[test]
    fn d23_other_lines_are_no_nameservers() {
        let content = "\nsearch example.net\noptions ndots:2\n; nameserver 10.0.0.9\nnameservers 10.0.0.1\n";
        assert_eq!(warnings(content), [NO_SERVER]);
        assert_eq!(servers(content), ["127.0.0.1:53"]);
    }

    #[test]
    fn a_keyword_in_other_letters_is_ignored_with_a_warning() {
        let content = "NAMESERVER 10.0.0.2\nnameserver 10.0.0.1\n";
        assert_eq!(servers(content), ["10.0.0.1:53"]);
        let ignored = "line 1: \"NAMESERVER\" is ignored, expected \"nameserver\" in lower case";
        assert_eq!(warnings(content), [ignored]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert_eq!(servers("\u{feff}nameserver 10.0.0.1\n"), ["10.0.0.1:53"]);
        assert_eq!(warnings("\u{feff}nameserver 10.0.0.1\n"), [""; 0]);
    }

    #[test]
    fn a_file_without_end_warns_of_some_lines_only() {
        assert_eq!(warnings(&"nameserver x\n".repeat(1000)).len(), MAX_WARNINGS + 1);
    }

    #[test]
    fn d24_unusable_entries_are_reported_and_never_passed_on() {
        let content =
            "nameserver fe80::1%eth0\nnameserver [::1\nnameserver\nnameserver   \nnameserver [fe80::2%1]\n";
        assert_eq!(servers(content), ["127.0.0.1:53"]);
        let warnings = warnings(content);
        assert_eq!(warnings.len(), 6);
        assert_eq!(warnings[5], NO_SERVER);
        assert_eq!(warnings[0], "line 1: nameserver \"fe80::1%eth0\" is bound to an interface");
        assert_eq!(warnings[1], "line 2: nameserver \"[::1\" is not an IP address");
        assert_eq!(warnings[2], "line 3: nameserver without an address");
    }

    #[test]
    fn d27_whole_file_of_a_vpn() {
        let content = "# made by a VPN client\n\nnameserver 100.100.100.100\nnameserver fd7a:115c:a1e0::53\n\
                       nameserver fe80::1%utun3\nsearch example.ts.net\noptions timeout:2\n";
        assert_eq!(servers(content), ["100.100.100.100:53", "[fd7a:115c:a1e0::53]:53"]);
        assert_eq!(warnings(content).len(), 1);
    }

    #[test]
    fn d28_sixteen_are_enough() {
        let content: String = (1..=18).map(|n| format!("nameserver 10.0.0.{n}\n")).collect();
        assert_eq!(servers(&content).len(), 16);
        assert_eq!(servers(&content)[15], "10.0.0.16:53");
        let only = "only the first 16 nameservers are used";
        assert_eq!(warnings(&content), [format!("line 17: {only}"), format!("line 18: {only}")]);
    }

    #[test]
    fn d28_none_usable_means_the_local_host() {
        assert_eq!(servers(""), ["127.0.0.1:53"]);
        assert_eq!(warnings(""), [NO_SERVER]);
        assert_eq!(servers("nameserver fe80::1%eth0\nnameserver dns.example\n"), ["127.0.0.1:53"]);
        assert_eq!(warnings("nameserver fe80::1%eth0\nnameserver dns.example\n").len(), 3);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_give_a_bounded_list(content: Vec<u8>) {
            let conf = ResolvConf::parse(&content);
            prop_assert!((1..=MAX_SERVERS).contains(&conf.servers.len()));
            prop_assert!(conf.warnings.len() <= MAX_WARNINGS + 1);
        }

        #[test]
        fn near_files_give_a_bounded_list(lines in proptest::collection::vec("(nameserver)?[ \t]?[0-9a-f:.%\\[\\]#;]{0,20}\r?", 0..40)) {
            let conf = ResolvConf::parse(lines.join("\n").as_bytes());
            prop_assert!((1..=MAX_SERVERS).contains(&conf.servers.len()));
            prop_assert!(conf.warnings.len() <= MAX_WARNINGS + 1);
        }
    }
}
