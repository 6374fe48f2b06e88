//! The conditions that are compared: one static location, and who is asked before it is served. Each is only text for
//! nginx's configuration; how it is measured does not depend on it.

use crate::Error;
use crate::nginx::Parts;
use crate::process::require;
use crate::surroundings::{Peers, Servers, Zone};
use ratelimitly_core::key::ApiKey;
use ratelimitly_harness::environment;
use std::path::Path;

/// A condition.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Short name in tables and files.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Its part of the configuration.
    pub parts: Parts,
    /// The same where whoever is asked never answers; `None` where nobody is asked.
    pub waiting: Option<Parts>,
}

/// The bare location, to which everything is compared.
pub const BARE: &str = "bare";
/// `auth_request`.
pub const AUTH: &str = "auth_request";
/// Lua and Redis.
pub const LUA: &str = "lua-redis";
/// The module with one server under `single_round`.
pub const ONE: &str = "one-server";
/// The module with three servers under `single_round`.
pub const THREE: &str = "three-servers";
/// The module with one server under `standard`.
pub const ONE_STANDARD: &str = "one-server-standard";
/// The module with three servers under `standard`.
pub const THREE_STANDARD: &str = "three-servers-standard";

/// The policy of most conditions, longer than any answer takes: no run waits for a deadline.
pub const SINGLE_ROUND: &str = "single_round unit=1900ms";
/// The same for the other policy.
pub const STANDARD: &str = "standard unit=500ms";

/// All conditions, the bare one first.
pub fn all(servers: &Servers, peers: &Peers) -> Result<Vec<Condition>, Error> {
    let (aes, cookie) = (&servers.aes, &servers.cookie);
    let module = |name, title, zone, key, policy| -> Result<Condition, Error> {
        let parts = module(zone, key, policy)?;
        Ok(Condition { name, title, waiting: Some(parts.clone()), parts })
    };
    Ok(vec![
        bare(),
        limit_req(),
        Condition {
            name: AUTH,
            title: "`auth_request` to a local upstream that says yes",
            parts: auth_request(peers.yes),
            waiting: Some(auth_request(peers.silent)),
        },
        Condition {
            name: LUA,
            title: "Lua and a Redis counter over a keepalive pool",
            parts: lua(peers.redis)?,
            waiting: Some(lua(peers.silent)?),
        },
        module(ONE, "the module, one server", &servers.one, aes, SINGLE_ROUND)?,
        module(THREE, "the module, three servers", &servers.three, aes, SINGLE_ROUND)?,
        module(
            "one-server-cookie",
            "the module, one server, cookie key",
            &servers.one,
            cookie,
            SINGLE_ROUND,
        )?,
        module(ONE_STANDARD, "the module, one server, `standard`", &servers.one, aes, STANDARD)?,
        module(THREE_STANDARD, "the module, three servers, `standard`", &servers.three, aes, STANDARD)?,
    ])
}

/// Nobody is asked.
pub fn bare() -> Condition {
    Condition { name: BARE, title: "bare", parts: Parts::default(), waiting: None }
}

fn limit_req() -> Condition {
    let parts = Parts {
        http: "limit_req_zone $binary_remote_addr zone=bench:1m rate=1000000r/s;".into(),
        location: "limit_req zone=bench burst=1000000 nodelay;".into(),
        ..Parts::default()
    };
    Condition { name: "limit_req", title: "`limit_req`", parts, waiting: None }
}

fn auth_request(port: u16) -> Parts {
    Parts {
        http: format!(
            "upstream asked {{ server 127.0.0.1:{port}; keepalive 1024; keepalive_requests 1000000000; }}"
        ),
        location: "auth_request /ask;".into(),
        server: "location = /ask {
            internal;
            proxy_pass http://asked;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_set_header Content-Length \"\";
            proxy_pass_request_body off;
        }"
        .into(),
        ..Parts::default()
    }
}

/// A fixed window of one second: the first of a window sets its end.
fn lua(port: u16) -> Result<Parts, Error> {
    let folder = Path::new("/usr/lib/nginx/modules");
    let (ndk, lua) = (folder.join("ndk_http_module.so"), folder.join("ngx_http_lua_module.so"));
    require(&lua, "libnginx-mod-http-lua")?;
    Ok(Parts {
        main: format!("load_module {};\nload_module {};", ndk.display(), lua.display()),
        location: format!(
            r#"access_by_lua_block {{
                local redis = ngx.socket.tcp()
                redis:settimeout(10000)
                if not redis:connect("127.0.0.1", {port}, {{ pool_size = 1024 }}) then return ngx.exit(500) end
                redis:send("*2\r\n$4\r\nINCR\r\n$5\r\nbench\r\n")
                local line = redis:receive("*l")
                if not line then return ngx.exit(500) end
                local count = tonumber(string.sub(line, 2))
                if count == 1 then
                    redis:send("*3\r\n$6\r\nEXPIRE\r\n$5\r\nbench\r\n$1\r\n1\r\n")
                    redis:receive("*l")
                end
                redis:setkeepalive(60000, 1024)
                if count > 1000000 then return ngx.exit(429) end
            }}"#
        ),
        ..Parts::default()
    })
}

/// The module: a bucket that never runs out, and a policy. Without an answer it refuses, so that none goes unnoticed.
pub fn module(zone: &Zone, key: &ApiKey, policy: &str) -> Result<Parts, Error> {
    Ok(Parts {
        main: format!("load_module {};", environment::module().display()),
        http: format!(
            "ratelimitly_auth_key {};\nratelimitly_dns_srv {};\nratelimitly_dns_resolver {};\n\
             ratelimitly_policy {policy};\nratelimitly_fail close;\n\
             ratelimitly_zone bench \"bucket=bench\" rate=1000000r/s;",
            key.encode(),
            zone.name,
            zone.dns,
        ),
        location: "ratelimitly zone=bench;".into(),
        ..Parts::default()
    })
}
