//! Tells the module's source how new the nginx is that it is built against, as the cfg value `nginx1_23_1` ("this version or
//! a newer one"). nginx-sys has read the version from nginx's headers; cargo hands it to direct dependents only.

use std::env;

/// nginx 1.23.1: the resolver's `ipv4` field.
const RESOLVER_HAS_IPV4: u64 = 1_023_001;

/// The oldest nginx that the module is built for, 1.22.0.
const OLDEST: u64 = 1_022_000;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(nginx1_23_1)");
    let number = env::var("DEP_NGINX_VERSION_NUMBER").ok().and_then(|number| number.parse().ok());
    let Some(built_against): Option<u64> = number else {
        println!(
            "cargo::error=nginx's version is unknown: build with ci/build-module, which looks at nginx's source first"
        );
        return;
    };
    if built_against < OLDEST {
        println!("cargo::error=this nginx is too old: the module needs nginx 1.22.0 or newer");
        return;
    }
    if built_against >= RESOLVER_HAS_IPV4 {
        println!("cargo::rustc-cfg=nginx1_23_1");
    }
}
