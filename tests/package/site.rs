//! What the operator of the check has: a configuration with two rules, and the development server that answers for them.
//! Called by the steps.

use crate::chroot::Chroot;
use std::io::{BufRead, BufReader};
use std::process::Child;

/// Where the configuration lies, as Debian's nginx includes it.
pub const CONFIGURATION: &str = "/etc/nginx/conf.d/site.conf";
/// nginx's port.
pub const PORT: u16 = 8080;
/// A page under a rule that every request of the check keeps to.
pub const WIDE: &str = "/wide/page";
/// A page whose rule has two tokens.
pub const NARROW: &str = "/narrow/page";

const TEXT: &str = r#"
ratelimitly_auth_key     {key};
ratelimitly_dns_srv      dev.test;
ratelimitly_dns_resolver 127.0.0.1:5300;
ratelimitly_zone         narrow "bucket=narrow" rate=2r/10m;
ratelimitly_zone         wide   "bucket=wide"   rate=1000000r/m;
log_format admission '$request $status verdict=$ratelimitly_verdict';

server {
    listen 8080;
    root /srv/site;
    access_log /var/log/nginx/admission.log admission;
    location /narrow/ { ratelimitly zone=narrow; }
    location /wide/   { ratelimitly zone=wide; }
}
"#;

/// The development server; it ends when this is dropped.
pub struct Site(Child);

impl Site {
    /// Makes a key, starts the development server, and writes the pages and the configuration.
    ///
    /// # Panics
    /// A program of the packages fails.
    pub fn set_up(chroot: &Chroot) -> Site {
        let key = chroot.run(&["ratelimitly-devserver", "keygen", "--kind", "aes", "--key-id", "42"]);
        let mut server = chroot.start(&["ratelimitly-devserver", "serve", "--key", key.trim()]);
        let mut first = String::new();
        let said = server.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut first).expect("the development server says that it is ready");
        assert!(first.contains(r#""event":"ready""#), "{first}");
        for page in [NARROW, WIDE] {
            let path = chroot.path(&format!("/srv/site{page}"));
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
            std::fs::write(path, "content\n").expect("the page can be written");
        }
        std::fs::write(chroot.path(CONFIGURATION), TEXT.replace("{key}", key.trim()))
            .expect("it can be written");
        Site(server)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
