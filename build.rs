//! Tells the module's source how new the nginx is that it is built against, as the cfg value `nginx1_23_1` ("this version or
//! a newer one"). nginx-sys has read the version from nginx's headers; cargo hands it to direct dependents only.

use std::env;

/// nginx 1.23.1: the resolver's `ipv4` field.
const RESOLVER_HAS_IPV4: u64 = 1_023_001;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(nginx1_23_1)");
    let number = env::var("DEP_NGINX_VERSION_NUMBER")
        .expect("nginx-sys tells nginx's version to packages that depend on it directly, as this one must");
    let built_against: u64 = number.parse().expect("nginx-sys gives nginx_version as a decimal number");
    if built_against >= RESOLVER_HAS_IPV4 {
        println!("cargo::rustc-cfg=nginx1_23_1");
    }
}
