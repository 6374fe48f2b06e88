//! The places that are asked for: their configuration, how often, and what the ledger demands of a line of each. Used by
//! `site.rs`, `traffic.rs` and `ledger.rs`.

/// What the places share, in the http block.
pub(crate) const SHARED: &str = r"
        map $request_method $weight { default 1; HEAD 2; DELETE 0; }
        map $arg_client $limited { default 1; ~[02468]$ 0; }
";

/// What each server has.
pub(crate) const LOCATIONS: &str = r#"
            access_log {prefix}/soak.log soak;
            ratelimitly_label $request_id;
            root {prefix}/html;

            location = /plenty { ratelimitly zone=plenty; empty_gif; }
            location = /group { ratelimitly group=both; empty_gif; }
            location = /scarce { ratelimitly zone=scarce; error_page 429 /refused.html; empty_gif; }
            location = /named { ratelimitly zone=scarce; error_page 429 = @refused; empty_gif; }
            location @refused { ratelimitly zone=plenty; return 429 "named\n"; }
            location = /guarded {
                ratelimitly zone=plenty guard=quick;
                ratelimitly_report backend;
                proxy_pass http://127.0.0.1:{port_upstream};
            }
            location = /upload { ratelimitly zone=plenty; proxy_pass http://127.0.0.1:{port_upstream}; }
            location = /unbuffered {
                ratelimitly zone=client;
                proxy_request_buffering off;
                proxy_pass http://127.0.0.1:{port_upstream};
            }
            location /index/ { ratelimitly zone=plenty; index __page; }
            location = /tried { ratelimitly zone=plenty; try_files /nothing /also/nothing @tried; }
            location @tried { ratelimitly zone=scarce; proxy_pass http://127.0.0.1:{port_upstream}; }
            location = /asked { ratelimitly zone=plenty; auth_request /permission; empty_gif; }
            location = /permission { internal; ratelimitly zone=scarce; proxy_pass http://127.0.0.1:{port_upstream}; }
            location = /mirrored { ratelimitly zone=plenty; mirror /copy; empty_gif; }
            location = /copy { internal; proxy_pass http://127.0.0.1:{port_upstream}; }
            location = /included { ratelimitly zone=plenty; ssi on; ssi_types *; try_files /ssi.html =404; }
            location = /free { empty_gif; }
            location = /reported { ratelimitly_report backend; empty_gif; }

            location = /dry { ratelimitly_dry_run on; ratelimitly zone=scarce; ratelimitly_report backend; empty_gif; }
            location = /weighed { ratelimitly zone=scarce tokens=$weight; empty_gif; }
            location = /chosen { ratelimitly zone=client if=$limited; empty_gif; }
            location = /opened { ratelimitly_fail open; ratelimitly zone=client; empty_gif; }
            location = /closed {
                ratelimitly_fail        close;
                ratelimitly_fail_status 403;
                ratelimitly_deny_status 410;
                ratelimitly             zone=client;
                empty_gif;
            }
            location = /off { ratelimitly off; empty_gif; }
"#;

/// The paths of the configuration and how often each is asked for.
pub(crate) const PATHS: [(&str, u32); 21] = [
    ("/plenty", 20),
    ("/group", 12),
    ("/scarce", 10),
    ("/named", 6),
    ("/guarded", 10),
    ("/upload", 8),
    ("/unbuffered", 6),
    ("/index/", 6),
    ("/tried", 6),
    ("/asked", 6),
    ("/mirrored", 4),
    ("/included", 4),
    ("/free", 3),
    ("/reported", 3),
    ("/nowhere", 1),
    ("/dry", 8),
    ("/weighed", 8),
    ("/chosen", 8),
    ("/opened", 6),
    ("/closed", 6),
    ("/off", 2),
];

/// What a failure means in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// What the http block says, which changes with the reloads.
    Either,
    Open,
    Close,
}

/// What has to be true of the lines of a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Whether a rule may ask there.
    pub asks: bool,
    /// Tokens of each zone; 0: no line of the place applies, so nothing is asked.
    pub tokens: u16,
    pub failure: Failure,
    pub dry_run: bool,
    pub deny_status: u16,
    pub fail_status: u16,
}

/// Where nothing is said otherwise.
const PLAIN: Demand = Demand {
    asks: true,
    tokens: 1,
    failure: Failure::Either,
    dry_run: false,
    deny_status: 429,
    fail_status: 429,
};

/// Of a request by its method and its target.
pub(crate) fn demand(method: &str, target: &str) -> Demand {
    let (path, client) = target.split_once("?client=").unwrap_or((target, ""));
    match path {
        "/dry" => Demand { dry_run: true, ..PLAIN },
        "/weighed" => Demand { tokens: weight(method), ..PLAIN },
        "/chosen" => {
            let even = client.ends_with(['0', '2', '4', '6', '8']);
            Demand { tokens: u16::from(!even), ..PLAIN }
        }
        "/opened" => Demand { failure: Failure::Open, ..PLAIN },
        "/closed" => Demand { failure: Failure::Close, deny_status: 410, fail_status: 403, ..PLAIN },
        "/off" | "/free" | "/reported" | "/nowhere" => Demand { asks: false, ..PLAIN },
        _ => PLAIN,
    }
}

fn weight(method: &str) -> u16 {
    match method {
        "HEAD" => 2,
        "DELETE" => 0,
        _ => 1,
    }
}
