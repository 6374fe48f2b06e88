//! resolv.conf: any file gives a nameserver, and not too many of them nor of warnings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_config::resolv_conf::{MAX_SERVERS, ResolvConf};

fuzz_target!(|content: &[u8]| {
    let read = ResolvConf::parse(content);
    assert!((1..=MAX_SERVERS).contains(&read.servers.len()));
    assert!(read.warnings.len() <= 17);
    for warning in &read.warnings {
        assert!(warning.to_string().len() < 400);
    }
    let lines: String = read
        .servers
        .iter()
        .map(|server| format!("nameserver [{}]:{}\n", v6(*server), server.port()))
        .collect();
    assert_eq!(
        ResolvConf::parse(lines.as_bytes()).servers,
        read.servers,
        "what was read can be written and read"
    );
});

fn v6(server: std::net::SocketAddr) -> std::net::Ipv6Addr {
    match server.ip() {
        std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        std::net::IpAddr::V6(v6) => v6,
    }
}
