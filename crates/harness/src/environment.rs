//! Which nginx and which module the tests run with. `ci/test` says it by environment variables; without them it is
//! what `ci/build-module 1.28.3` left below target/. Read by the builder, by the checks and by tests whose
//! configuration differs between the kinds; never changed.

use std::env;
use std::path::{Path, PathBuf};

/// A supported nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx 1.28.3, built from the crate `nginx-src`: all of HTTP/1.1, 2 and 3.
    Pinned,
    /// Debian 12's own nginx 1.22.1: no HTTP/3, no `http2` directive.
    Debian,
}

/// The nginx that this run tests (`RATELIMITLY_NGINX_KIND`: `1.28.3` or `debian`).
///
/// # Panics
/// The variable names another nginx.
pub fn kind() -> Kind {
    match env::var("RATELIMITLY_NGINX_KIND").as_deref() {
        Err(_) | Ok("1.28.3") => Kind::Pinned,
        Ok("debian") => Kind::Debian,
        Ok(other) => panic!("RATELIMITLY_NGINX_KIND={other}: it must be 1.28.3 or debian"),
    }
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Kind::Pinned => "1.28.3",
            Kind::Debian => "debian",
        }
    }
}

/// The nginx binary (`RATELIMITLY_NGINX`).
pub fn nginx_binary() -> PathBuf {
    let default = match kind() {
        Kind::Pinned => target().join("nginx/1.28.3/objs/nginx"),
        Kind::Debian => PathBuf::from("/usr/sbin/nginx"),
    };
    existing("RATELIMITLY_NGINX", default)
}

/// The module as it ships (`RATELIMITLY_MODULE`).
pub fn module() -> PathBuf {
    built("RATELIMITLY_MODULE", "release")
}

/// The module with the feature `fault-injection` (`RATELIMITLY_FAULT_MODULE`).
pub fn fault_module() -> PathBuf {
    built("RATELIMITLY_FAULT_MODULE", "debug-fault-injection")
}

/// The folders of this nginx's source and of its configured build (`NGINX_SOURCE_DIR`, `NGINX_BUILD_DIR`), for tests that
/// compile a module of their own.
///
/// # Panics
/// One of them is not there.
pub fn nginx_headers() -> (PathBuf, PathBuf) {
    let home = target().join("nginx").join(kind().folder());
    let source = match kind() {
        Kind::Pinned => home.join("src"),
        Kind::Debian => PathBuf::from("/usr/share/nginx/src"),
    };
    let folder = |variable: &str, default: PathBuf| {
        let path = env::var_os(variable).map_or(default, PathBuf::from);
        assert!(path.is_dir(), "{} is no folder: run ci/build-nginx, or set {variable}", path.display());
        path
    };
    (folder("NGINX_SOURCE_DIR", source), folder("NGINX_BUILD_DIR", home.join("objs")))
}

/// The root of the repository, for tests that read documents, sources and example configurations.
pub fn repository() -> &'static Path {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above.nth(2).expect("the package lies in crates/")
}

fn target() -> PathBuf {
    repository().join("target")
}

fn built(variable: &str, flavour: &str) -> PathBuf {
    let folder = target().join("module").join(kind().folder()).join(flavour);
    existing(variable, folder.join("ngx_http_ratelimitly_module.so"))
}

fn existing(variable: &str, default: PathBuf) -> PathBuf {
    let path = env::var_os(variable).map_or(default, PathBuf::from);
    assert!(
        path.is_file(),
        "{} does not exist: run ci/test, or ci/build-module, or set {variable}",
        path.display()
    );
    path
}

/// Whether the tests run as root: nginx then needs a `user` line to read its own prefix.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
