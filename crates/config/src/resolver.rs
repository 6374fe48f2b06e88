//! The arguments of `ratelimitly_dns_resolver`: nameservers, and the parameters of nginx's own `resolver`.
//!
//! Pure text: a host name is returned as such, and the caller resolves it.

use crate::address::{AddressError, DNS_PORT, parse_port, parse_resolver};
use crate::duration::{DurationError, parse_ms};
use crate::text::Excerpt;
use std::net::SocketAddr;

/// Longest host name.
const HOST_MAX: usize = 253;
const LABEL_MAX: usize = 63;
const MS_PER_S: u32 = 1000;

/// What the directive says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// The nameservers in order, at least one.
    pub servers: Vec<Server>,
    /// The parameters.
    pub options: Options,
}

/// The parameters; `None` where one is not given. Of one that is given twice the last holds, as in nginx.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `valid=`, whole seconds; 0 means the records' own times to live.
    pub valid_s: Option<u32>,
    /// `ipv4=`.
    pub ipv4: Option<bool>,
    /// `ipv6=`.
    pub ipv6: Option<bool>,
}

/// One nameserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// An address with its port.
    Address(SocketAddr),
    /// A name that the system is to resolve, and the port.
    Host {
        /// The name.
        name: String,
        /// The port.
        port: u16,
    },
}

/// Why the arguments are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolverError {
    /// Neither an address nor a host name.
    #[error(
        "\"{0}\" is not a nameserver, expected address[:port] or host[:port], with an IPv6 address in brackets"
    )]
    Server(Excerpt),
    /// An address with something wrong in it.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// An argument with a `=` that is none of the parameters.
    #[error("unknown parameter \"{0}\", expected valid=<time>, ipv4=on|off or ipv6=on|off")]
    Parameter(Excerpt),
    /// No time.
    #[error("the value of \"valid=\" {0}")]
    Valid(DurationError),
    /// A part of a second.
    #[error("\"{0}\" is not a whole number of seconds, expected a time such as valid=30s")]
    Fraction(Excerpt),
    /// Neither on nor off.
    #[error("\"{0}\" is neither on nor off, expected ipv4=on|off or ipv6=on|off")]
    Switch(Excerpt),
    /// Both families are off.
    #[error("\"ipv4=off\" and \"ipv6=off\" leave nothing to ask for, expected one of them at most")]
    NoFamily,
    /// Parameters alone.
    #[error("there is no nameserver, expected at least one address[:port] or host[:port]")]
    NoServer,
}

/// Reads all arguments.
///
/// # Errors
/// [`ResolverError`] for the first argument that is wrong.
pub fn parse(arguments: &[&[u8]]) -> Result<Resolver, ResolverError> {
    let mut servers = Vec::new();
    let mut options = Options::default();
    for argument in arguments {
        match argument.iter().position(|&byte| byte == b'=') {
            Some(at) => options.set(argument, &argument[..at], &argument[at + 1..])?,
            None => servers.push(server(argument)?),
        }
    }
    match (servers.is_empty(), options) {
        (true, _) => Err(ResolverError::NoServer),
        (_, Options { ipv4: Some(false), ipv6: Some(false), .. }) => Err(ResolverError::NoFamily),
        _ => Ok(Resolver { servers, options }),
    }
}

impl Options {
    fn set(&mut self, argument: &[u8], name: &[u8], value: &[u8]) -> Result<(), ResolverError> {
        match name {
            b"valid" => self.valid_s = Some(seconds(argument, value)?),
            b"ipv4" => self.ipv4 = Some(switch(argument, value)?),
            b"ipv6" => self.ipv6 = Some(switch(argument, value)?),
            _ => return Err(ResolverError::Parameter(Excerpt::new(argument))),
        }
        Ok(())
    }
}

fn seconds(argument: &[u8], value: &[u8]) -> Result<u32, ResolverError> {
    match parse_ms(value) {
        Ok(ms) if ms % MS_PER_S == 0 => Ok(ms / MS_PER_S),
        Ok(_) => Err(ResolverError::Fraction(Excerpt::new(argument))),
        Err(DurationError::Zero) => Ok(0),
        Err(error) => Err(ResolverError::Valid(error)),
    }
}

fn switch(argument: &[u8], value: &[u8]) -> Result<bool, ResolverError> {
    match value {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(ResolverError::Switch(Excerpt::new(argument))),
    }
}

fn server(text: &[u8]) -> Result<Server, ResolverError> {
    match parse_resolver(text) {
        Ok(address) => Ok(Server::Address(address)),
        Err(AddressError::Resolver(shown)) => host(text).ok_or(ResolverError::Server(shown))?,
        Err(error) => Err(error.into()),
    }
}

/// A host name and perhaps a port; `None` where it is no host name.
fn host(text: &[u8]) -> Option<Result<Server, ResolverError>> {
    let (name, port) = match text.iter().position(|&byte| byte == b':') {
        // A URL is no host with a port.
        Some(at) if !text.contains(&b'/') => (&text[..at], Some(&text[at + 1..])),
        _ => (text, None),
    };
    let name = std::str::from_utf8(name).ok().filter(|name| is_host(name))?.to_owned();
    match port.map(parse_port) {
        None => Some(Ok(Server::Host { name, port: DNS_PORT })),
        Some(Some(port)) => Some(Ok(Server::Host { name, port })),
        Some(None) => Some(Err(AddressError::Port(Excerpt::new(text)).into())),
    }
}

/// Whether a text is a host name; what ends in a number is an address that went wrong.
fn is_host(name: &str) -> bool {
    let whole = name.strip_suffix('.').unwrap_or(name);
    let label = |label: &str| {
        (1..=LABEL_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    whole.len() <= HOST_MAX && whole.split('.').all(label) && !whole.rsplit('.').next().is_none_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(line: &str) -> Result<Resolver, ResolverError> {
        parse(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    fn address(text: &str) -> Server {
        Server::Address(text.parse().unwrap())
    }

    #[test]
    fn addresses_and_hosts_keep_their_order() {
        let resolver = parsed("127.0.0.53 [::1]:5353 localhost dns.example.:54").unwrap();
        let host = |name: &str, port| Server::Host { name: name.to_owned(), port };
        assert_eq!(
            resolver.servers,
            [
                address("127.0.0.53:53"),
                address("[::1]:5353"),
                host("localhost", 53),
                host("dns.example.", 54)
            ]
        );
        assert_eq!(resolver.options, Options::default());
    }

    #[test]
    fn parameters_may_be_anywhere() {
        let resolver = parsed("valid=30s 127.0.0.53 ipv6=off ipv4=on").unwrap();
        assert_eq!(resolver.servers, [address("127.0.0.53:53")]);
        let options = Options { valid_s: Some(30), ipv4: Some(true), ipv6: Some(false) };
        assert_eq!(resolver.options, options);
        assert_eq!(parsed("127.0.0.1 valid=5m").unwrap().options.valid_s, Some(300));
        assert_eq!(parsed("127.0.0.1 valid=0").unwrap().options.valid_s, Some(0));
        assert_eq!(parsed("127.0.0.1 valid=1s valid=2s").unwrap().options.valid_s, Some(2));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, message) in [
            ("valid=30s", "there is no nameserver, expected at least one address[:port] or host[:port]"),
            ("127.0.0.1 vaild=30s", "unknown parameter \"vaild=30s\", expected valid=<time>"),
            ("127.0.0.1 valid=", "the value of \"valid=\" is not a duration"),
            ("127.0.0.1 valid=1500ms", "\"valid=1500ms\" is not a whole number of seconds"),
            ("127.0.0.1 ipv6=no", "\"ipv6=no\" is neither on nor off"),
            ("127.0.0.1 ipv6=off ipv4=off", "\"ipv4=off\" and \"ipv6=off\" leave nothing to ask for"),
            ("::1", "\"::1\" needs brackets"),
            ("127.0.0.256", "\"127.0.0.256\" is not a nameserver"),
            ("1.2.3:5", "\"1.2.3:5\" is not a nameserver"),
            ("https://dns.example", "\"https://dns.example\" is not a nameserver"),
            ("dns.example:0", "\"dns.example:0\" has an invalid port"),
            ("dns..example", "\"dns..example\" is not a nameserver"),
            ("[::1]x", "\"[::1]x\" is not a nameserver"),
        ] {
            let said = parsed(line).unwrap_err().to_string();
            assert!(said.starts_with(message), "{line}: {said}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_arguments_never_panic(arguments: Vec<Vec<u8>>) {
            let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
            if let Ok(resolver) = parse(&arguments) {
                prop_assert!((1..=arguments.len()).contains(&resolver.servers.len()));
            }
        }
    }
}
