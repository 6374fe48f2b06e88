//! Which nginx and which module the tests run with, and what that nginx can do. `ci/test` names the files in environment
//! variables; without them they are what `ci/build-module 1.28.3` left below target/. nginx itself says its version and its
//! modules. Read by the builder, by the checks and by tests whose configuration depends on it; never changed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The nginx whose files are taken where no variable names others.
const PINNED: &str = "1.28.3";

/// What `nginx -V` says.
static BUILD: LazyLock<String> = LazyLock::new(|| {
    let output = Command::new(nginx_binary()).arg("-V").output().expect("nginx can be run");
    String::from_utf8_lossy(&output.stderr).into_owned()
});

/// The version of the nginx under test.
///
/// # Panics
/// nginx does not tell it.
pub fn nginx_version() -> [u32; 3] {
    version_in(&BUILD).unwrap_or_else(|| panic!("nginx -V tells no version: {}", *BUILD))
}

/// A version as in `nginx version: nginx/1.22.1 (Debian)`.
fn version_in(build: &str) -> Option<[u32; 3]> {
    let (_, rest) = build.split_once("nginx/")?;
    let numbers =
        rest.split(|symbol: char| !symbol.is_ascii_digit()).take(3).map(|number| number.parse().ok());
    numbers.collect::<Option<Vec<u32>>>()?.try_into().ok()
}

/// Whether the nginx under test speaks HTTP/3.
pub fn has_http3() -> bool {
    BUILD.contains("--with-http_v3_module")
}

/// Whether nginx was built with this event method, which is not the one that it prefers on Linux.
pub fn has_event_method(name: &str) -> bool {
    BUILD.contains(&format!("--with-{name}_module"))
}

/// Whether HTTP/2 is switched on by a directive of its own, as from 1.25.1 on, and not by a parameter of `listen`.
pub fn has_http2_directive() -> bool {
    nginx_version() >= [1, 25, 1]
}

/// The folder of the nginx under test below target/nginx and target/module (`RATELIMITLY_NGINX_KIND`).
fn kind() -> String {
    env::var("RATELIMITLY_NGINX_KIND").unwrap_or_else(|_| PINNED.to_owned())
}

/// The nginx binary (`RATELIMITLY_NGINX`).
pub fn nginx_binary() -> PathBuf {
    let default = match kind().as_str() {
        "debian" => PathBuf::from("/usr/sbin/nginx"),
        kind => target().join("nginx").join(kind).join("objs/nginx"),
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
    let kind = kind();
    let home = target().join("nginx").join(&kind);
    let source = if kind == "debian" { PathBuf::from("/usr/share/nginx/src") } else { home.join("src") };
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
    let folder = target().join("module").join(kind()).join(flavour);
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

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn versions_are_read_from_what_nginx_says() {
        assert_eq!(version_in("nginx version: nginx/1.22.1 (Debian)\nbuilt with"), Some([1, 22, 1]));
        assert_eq!(version_in("nginx version: nginx/1.28.3\n"), Some([1, 28, 3]));
        assert_eq!(version_in("no such file"), None);
    }
}
