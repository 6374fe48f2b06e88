//! Tells the module's source how new the nginx is that it is built against, as the cfg value `nginx1_23_1` ("this version or
//! a newer one"). nginx-sys has read the version from nginx's headers; cargo hands it to direct dependents only.

use std::env;

/// nginx 1.23.1: the resolver's `ipv4` field.
const RESOLVER_HAS_IPV4: u64 = 1_023_001;

/// The oldest nginx that the module is built for, 1.22.0.
const OLDEST: u64 = 1_022_000;

/// Said where cargo was started by itself, without an nginx to build for.
const HOW_TO_BUILD: &str = "the module is built for one nginx: run ci/build-module 1.28.3, or ci/build-module --source DIR \
                            --build DIR for an nginx of your own (docs/foreign-nginx.md); for cargo by hand see CONTRIBUTING.md";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(nginx1_23_1)");
    let number = env::var("DEP_NGINX_VERSION_NUMBER").ok().and_then(|number| number.parse().ok());
    let Some(built_against): Option<u64> = number else {
        println!("cargo::error={HOW_TO_BUILD}");
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
