//! Addresses and names of directives: what is accepted can be written and read again, and messages stay short.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_config::address::{parse_bind, parse_resolver};
use ratelimitly_config::dns_name::{SERVICE, srv_name};
use ratelimitly_config::resolver::{self, Server};

fuzz_target!(|text: &[u8]| {
    if let Ok(address) = parse_bind(text) {
        assert_eq!(parse_bind(address.to_string().as_bytes()), Ok(address));
    }
    if let Ok(address) = parse_resolver(text) {
        assert_ne!(address.port(), 0);
        assert_eq!(parse_resolver(address.to_string().as_bytes()), Ok(address));
    }
    match srv_name(text) {
        Ok(name) => {
            assert!(name.starts_with(SERVICE) && name.len() <= 253 && name.is_ascii());
            assert_eq!(srv_name(&name.as_bytes()[SERVICE.len()..]), Ok(name.clone()));
        }
        Err(error) => assert!(error.to_string().len() < 500),
    }
    let arguments: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    match resolver::parse(&arguments) {
        Ok(resolver) => {
            assert!(!resolver.servers.is_empty() && resolver.servers.len() <= arguments.len());
            assert!(resolver.options.ipv4 != Some(false) || resolver.options.ipv6 != Some(false));
            for server in &resolver.servers {
                let Server::Host { name, port } = server else { continue };
                assert!(name.len() <= 254 && *port != 0);
            }
        }
        Err(error) => assert!(error.to_string().len() < 500),
    }
});
