//! IP addresses of directives: the socket's source address and the resolvers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::text::Excerpt;

/// The port of a resolver that names none.
pub const DNS_PORT: u16 = 53;

/// Why a text is no usable address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not an IP address.
    #[error("\"{0}\" is not an IP address, expected an IPv4 or IPv6 address without port and brackets")]
    Bind(Excerpt),
    /// Not a resolver's address.
    #[error(
        "\"{0}\" is not an address, expected address[:port] with an IPv4 address or an IPv6 address in brackets"
    )]
    Resolver(Excerpt),
    /// An IPv6 address without brackets.
    #[error("\"{0}\" needs brackets, expected [address] or [address]:port for IPv6")]
    Brackets(Excerpt),
    /// A port that is none.
    #[error("\"{0}\" has an invalid port, expected address[:port] with a port of 1..65535")]
    Port(Excerpt),
}

/// Reads the address of `ratelimitly_bind`.
///
/// # Errors
/// [`AddressError::Bind`] for anything but a bare IPv4 or IPv6 address (zones included: they name an interface).
pub fn parse_bind(text: &[u8]) -> Result<IpAddr, AddressError> {
    parse_literal(text).ok_or_else(|| AddressError::Bind(Excerpt::new(text)))
}

/// Reads `address[:port]`, IPv6 in brackets; port 53 where none is given.
///
/// # Errors
/// [`AddressError`] for host names, IPv6 without brackets, zones, and ports outside 1..=65535.
pub fn parse_resolver(text: &[u8]) -> Result<SocketAddr, AddressError> {
    let shown = Excerpt::new(text);
    let (address, port) = match text {
        [b'[', inner @ ..] => bracketed(inner).ok_or(AddressError::Resolver(shown))?,
        _ if parse_literal::<Ipv6Addr>(text).is_some() => return Err(AddressError::Brackets(shown)),
        _ => plain_v4(text).ok_or(AddressError::Resolver(shown))?,
    };
    let port = match port {
        None => DNS_PORT,
        Some(digits) => parse_port(digits).ok_or(AddressError::Port(shown))?,
    };
    Ok(SocketAddr::new(address, port))
}

fn parse_literal<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// What follows a `[`: an IPv6 address, `]`, and perhaps `:port`.
fn bracketed(inner: &[u8]) -> Option<(IpAddr, Option<&[u8]>)> {
    let end = inner.iter().position(|&b| b == b']')?;
    let address: Ipv6Addr = parse_literal(&inner[..end])?;
    match &inner[end + 1..] {
        [] => Some((address.into(), None)),
        [b':', port @ ..] => Some((address.into(), Some(port))),
        _ => None,
    }
}

fn plain_v4(text: &[u8]) -> Option<(IpAddr, Option<&[u8]>)> {
    let (address, port) = match text.iter().position(|&b| b == b':') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let address: Ipv4Addr = parse_literal(address)?;
    Some((address.into(), port))
}

pub(crate) fn parse_port(digits: &[u8]) -> Option<u16> {
    let port = crate::number::parse_u32(digits).ok()?;
    u16::try_from(port).ok().filter(|&port| port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bind_takes_bare_addresses() {
        assert_eq!(parse_bind(b"127.0.0.1"), Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert_eq!(parse_bind(b"::1"), Ok(IpAddr::V6(Ipv6Addr::LOCALHOST)));
    }

    #[test]
    fn bind_refuses_everything_else() {
        for text in ["", "localhost", "127.0.0.1:80", "[::1]", "fe80::1%eth0", "1.2.3", "unix:/tmp/x", "*"] {
            assert!(matches!(parse_bind(text.as_bytes()), Err(AddressError::Bind(_))), "{text}");
        }
    }

    #[test]
    fn resolvers_have_port_53_unless_they_name_one() {
        assert_eq!(parse_resolver(b"127.0.0.1"), Ok("127.0.0.1:53".parse().unwrap()));
        assert_eq!(parse_resolver(b"127.0.0.1:5353"), Ok("127.0.0.1:5353".parse().unwrap()));
        assert_eq!(parse_resolver(b"[::1]"), Ok("[::1]:53".parse().unwrap()));
        assert_eq!(parse_resolver(b"[::1]:65535"), Ok("[::1]:65535".parse().unwrap()));
    }

    #[test]
    fn an_ipv6_resolver_without_brackets_is_told_so() {
        let error = parse_resolver(b"::1").unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"::1\" needs brackets, expected [address] or [address]:port for IPv6"
        );
    }

    #[test]
    fn foreign_resolvers_are_refused() {
        for text in ["", "dns.example", "[::1", "[::1]x", "[127.0.0.1]", "[fe80::1%eth0]", "[]", "1.2.3:5"] {
            assert!(matches!(parse_resolver(text.as_bytes()), Err(AddressError::Resolver(_))), "{text}");
        }
        for text in ["127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:5x", "[::1]:", "[::1]:-1"] {
            assert!(matches!(parse_resolver(text.as_bytes()), Err(AddressError::Port(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn shown_addresses_come_back(ip: [u8; 16], v4: bool, port in 1..=u16::MAX) {
            let ip: IpAddr = if v4 { [ip[0], ip[1], ip[2], ip[3]].into() } else { ip.into() };
            let address = SocketAddr::new(ip, port);
            prop_assert_eq!(parse_resolver(address.to_string().as_bytes()), Ok(address));
            prop_assert_eq!(parse_bind(ip.to_string().as_bytes()), Ok(ip));
        }

        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = (parse_resolver(&text), parse_bind(&text));
        }
    }
}
