//! `nameserver` lines of a resolv.conf, read once while nginx loads.
//!
//! Other keywords are nobody's business here: discovery asks absolute names only. An entry that cannot be used is
//! reported to the caller and never passed on.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::address::{DNS_PORT, parse_resolver};
use crate::text::Excerpt;

/// Most nameservers taken from one file.
pub const MAX_SERVERS: usize = 16;

/// What a resolv.conf offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvConf {
    /// Usable nameservers in the file's order, at most [`MAX_SERVERS`]; never empty: 127.0.0.1 where none is usable.
    pub servers: Vec<SocketAddr>,
    /// Entries that were left out.
    pub skipped: Vec<Skipped>,
}

/// A nameserver entry that was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Line number, from 1.
    pub line: usize,
    /// Why.
    pub reason: SkipReason,
}

/// Why an entry was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// No address follows the keyword.
    Missing,
    /// The address belongs to one interface (`fe80::1%eth0`).
    Scoped(Excerpt),
    /// Not an IP address.
    Unusable(Excerpt),
    /// One more than [`MAX_SERVERS`].
    TooMany,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.reason {
            SkipReason::Missing => write!(f, "nameserver without an address"),
            SkipReason::Scoped(text) => write!(f, "nameserver \"{text}\" is bound to an interface"),
            SkipReason::Unusable(text) => write!(f, "nameserver \"{text}\" is not an IP address"),
            SkipReason::TooMany => write!(f, "only the first {MAX_SERVERS} nameservers are used"),
        }
    }
}

impl ResolvConf {
    /// Reads a file's content. Lines may end in CR LF, `#` and `;` start comments.
    pub fn parse(content: &[u8]) -> ResolvConf {
        let mut servers = Vec::new();
        let mut skipped = Vec::new();
        for (index, line) in content.split(|&b| b == b'\n').enumerate() {
            let outcome = match nameserver_value(line).map(parse_nameserver) {
                None => continue,
                Some(Ok(_)) if servers.len() == MAX_SERVERS => Err(SkipReason::TooMany),
                Some(outcome) => outcome,
            };
            match outcome {
                Ok(server) => servers.push(server),
                Err(reason) => skipped.push(Skipped { line: index + 1, reason }),
            }
        }
        if servers.is_empty() {
            servers.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DNS_PORT));
        }
        ResolvConf { servers, skipped }
    }
}

/// The first word after the keyword, perhaps empty; `None` where the line is no nameserver line.
fn nameserver_value(line: &[u8]) -> Option<&[u8]> {
    let code = line.split(|&b| b == b'#' || b == b';').next()?;
    let mut words = code.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    (words.next()? == b"nameserver").then(|| words.next().unwrap_or_default())
}

fn parse_nameserver(word: &[u8]) -> Result<SocketAddr, SkipReason> {
    if word.is_empty() {
        return Err(SkipReason::Missing);
    }
    if word.contains(&b'%') {
        return Err(SkipReason::Scoped(Excerpt::new(word)));
    }
    let bare = std::str::from_utf8(word).ok().and_then(|text| text.parse::<IpAddr>().ok());
    let address = match bare {
        Some(ip) => SocketAddr::new(ip, DNS_PORT),
        None if word[0] == b'[' => {
            parse_resolver(word).map_err(|_| SkipReason::Unusable(Excerpt::new(word)))?
        }
        None => return Err(SkipReason::Unusable(Excerpt::new(word))),
    };
    // A mapped address is an IPv4 server: as such it is reachable where there is no IPv6 as well.
    Ok(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn servers(content: &str) -> Vec<String> {
        ResolvConf::parse(content.as_bytes()).servers.iter().map(SocketAddr::to_string).collect()
    }

    fn warnings(content: &str) -> Vec<String> {
        ResolvConf::parse(content.as_bytes()).skipped.iter().map(Skipped::to_string).collect()
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
        let content = "\nsearch example.net\noptions ndots:2\n; nameserver 10.0.0.9\nnameservers 10.0.0.1\nNAMESERVER 10.0.0.2\n";
        assert_eq!(ResolvConf::parse(content.as_bytes()).skipped, []);
        assert_eq!(servers(content), ["127.0.0.1:53"]);
    }

    #[test]
    fn d24_unusable_entries_are_reported_and_never_passed_on() {
        let content =
            "nameserver fe80::1%eth0\nnameserver [::1\nnameserver\nnameserver   \nnameserver [fe80::2%1]\n";
        assert_eq!(servers(content), ["127.0.0.1:53"]);
        let warnings = warnings(content);
        assert_eq!(warnings.len(), 5);
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
        assert_eq!(servers("nameserver fe80::1%eth0\nnameserver dns.example\n"), ["127.0.0.1:53"]);
        assert_eq!(warnings("nameserver fe80::1%eth0\nnameserver dns.example\n").len(), 2);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_give_a_bounded_list(content: Vec<u8>) {
            let conf = ResolvConf::parse(&content);
            prop_assert!((1..=MAX_SERVERS).contains(&conf.servers.len()));
        }

        #[test]
        fn near_files_give_a_bounded_list(lines in proptest::collection::vec("(nameserver)?[ \t]?[0-9a-f:.%\\[\\]#;]{0,20}\r?", 0..40)) {
            let conf = ResolvConf::parse(lines.join("\n").as_bytes());
            prop_assert!((1..=MAX_SERVERS).contains(&conf.servers.len()));
        }
    }
}
