//! Tells the module's source what the nginx it is built against can do, as cfg values: `ngx_feature = "http_v3"`,
//! `ngx_os = "linux"` and `nginx1_23_1` ("this version or a newer one"). The facts come from nginx-sys, which read
//! them from the configured nginx; cargo hands them to direct dependents only.

use std::env;

/// Versions from which on something that the module uses exists.
///
/// 1.23.1: the resolver's `ipv4` field. 1.25.1: the `http2` directive and HTTP/2 as a property of the connection.
const VERSIONS: &[(u64, &str)] = &[(1_023_001, "nginx1_23_1"), (1_025_001, "nginx1_25_1")];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    one_of("ngx_feature", "DEP_NGINX_FEATURES", "DEP_NGINX_FEATURES_CHECK");
    one_of("ngx_os", "DEP_NGINX_OS", "DEP_NGINX_OS_CHECK");
    versions();
}

/// Emits `name = "value"` for each value of the comma-separated `variable`; `check` lists the values there can be.
fn one_of(name: &str, variable: &str, check: &str) {
    let allowed = env::var(check).unwrap_or_else(|_| "any()".to_owned());
    println!("cargo::rustc-check-cfg=cfg({name}, values({allowed}))");
    let values = env::var(variable).unwrap_or_default();
    for value in values.split(',').map(str::trim).filter(|value| !value.is_empty()) {
        println!("cargo::rustc-cfg={name}=\"{value}\"");
    }
}

fn versions() {
    let built_against: u64 = match env::var("DEP_NGINX_VERSION_NUMBER") {
        Ok(number) => number.parse().expect("nginx-sys gives nginx_version as a decimal number"),
        Err(_) => {
            panic!("nginx-sys told no version of nginx: it must be a direct dependency of this package")
        }
    };
    for (since, name) in VERSIONS {
        println!("cargo::rustc-check-cfg=cfg({name})");
        if built_against >= *since {
            println!("cargo::rustc-cfg={name}");
        }
    }
}
