//! Writes the fuzzer's seeds below the folder that is named: keys, requests, reports and responses of the wire vectors, the
//! good and the bad ones, and some values of each directive. Run by `ci/fuzz` before the targets; the names of the files are
//! their places, so that running it again changes nothing.
#![forbid(unsafe_code)]

use ratelimitly_fuzz::{RAW, SEALED};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const VECTORS: &str = include_str!("../crates/core/vectors/ratelimitly-wire.json");
/// Bytes before the PDU of a datagram under a cookie, whose PDU is in clear.
const COOKIE_HEAD: usize = 40 + 36;
const COOKIE: &str = "rl-cookie";

const RATES: [&str; 9] =
    ["1r/s", "100r/m", "5r/10m", "4294967295r/4294967s", "1r/0s", "1r/1193h", "0r/s", "1r/1194h", "1 r/s"];
const DURATIONS: [&str; 10] =
    ["20ms", "5s", "1m30s", "1h", "1w2d3h4m5s6ms", "5", "4294967295ms", "0", "1s 30ms", "1s1m"];
const POLICIES: [&str; 8] = [
    "standard",
    "standard\nunit=20ms",
    "single_round\nunit=1s",
    "custom\nunit=10ms\nreplays=3\nreplay_gap=fixed:2\nfinal_wait_units=0\ncompletion_delivery=off",
    "custom\nunit=10ms\nreplays=5\nreplay_gap=linear:1:2:9\nfinal_wait_units=1\ncompletion_delivery=on",
    "custom\nunit=1ms\nreplays=65535\nreplay_gap=exponential:1:2:64\nfinal_wait_units=3\ncompletion_delivery=on",
    "custom\nunit=10ms",
    "standard\nreplays=1",
];

const RESOLV_CONFS: [&str; 4] = [
    "nameserver 10.0.0.1\nnameserver ::1\r\noptions ndots:2\n",
    "\u{feff}nameserver [fd00::2]:5353 # one\nNAMESERVER 10.0.0.2\n",
    "nameserver fe80::1%eth0\nnameserver dns.example\nnameserver\n",
    "search example.net\n",
];
const ADDRESSES: [&str; 6] = [
    "127.0.0.53\nvalid=30s\nipv6=off",
    "[::1]:5353\nlocalhost:54\nipv4=on",
    "::1",
    "rl.example.com.",
    "127.0.0.1:65536",
    "_ratelimitly._udp.a",
];
const ARGUMENTS: [&str; 4] = [
    "bucket=$host\nrate=1r/s",
    "rate=\"1r/s\"\nbucket=a=b",
    "zone=a\nservice='b'\noldest_preference=on",
    "a",
];
/// The first byte is the longest label.
const TEXTS: [&str; 5] = [
    "\u{5}$uri:${host}$binary_remote_addr",
    " rl-aes1qyqsqqq",
    "\u{6}\u{20ac}\u{1f980}\u{e9}",
    "~/etc/nginx/key",
    "~bucket=\u{201c}YOUR_KEY\u{201d}",
];
const LOG_LINES: [&str; 3] = ["a\r\nb\0\u{7f}", "\u{9b}0m\u{1b}[0m\u{1f980}", "plain text ..."];

const CONTROLS: [&str; 12] = [
    "429",
    "499",
    "65535",
    "65536",
    "off",
    "00",
    "warn",
    "0.001, 0.123 : 0.050",
    "-, 0.020",
    "\u{feff} rl-aes1qyqsqqq\r\n",
    "rl-aes1a\nrl-aes1b",
    "ratelimitly_auth_key rl-aes1a;",
];
/// Two numbers of four bytes, then names.
const FIELDS: [&str; 2] = ["\u{5}\0\0\0`\u{6a}\0\0per_client\0a \"b\" \\c \u{e9}", "12345678\n"];
const ACCESS_LOGS: [&str; 3] = [
    "\n1790000000.123 200 \"GET /a?b HTTP/1.1\" 192.0.2.1 127.0.0.1:80 200 0.010 0.011 - allow - 0.001 \"-\"\n\
     1790000009.000 504 \"GET /a HTTP/1.1\" 192.0.2.2 127.0.0.1:80 504 - 5.000 PASSED deny - 0.001 \"zone:a, guard:b\"\n\0\
     1790000000.120 /a 0.009\n",
    "$remote_addr [$time_local] \"$request\" $status $upstream_header_time\n\
     ::1 [01/Dec/2026:12:00:00 +0000] \"POST /\\x22 HTTP/2.0\" 499 0.001, 0.002 : -\n",
    "$time_iso8601 $status $uri $request_time\n2026-12-01T12:00:00+01:00 200 / 0.5\n",
];
const NGINX_DUMPS: [&str; 3] = [
    "# configuration file /etc/nginx/nginx.conf:\nevents {}\nhttp { include a/*.conf; upstream u { server a; keepalive 8; } }\n\
     # configuration file /etc/nginx/a/b.conf:\nserver { location / { ratelimitly zone=z; return 200; try_files $uri @x; } }\n",
    "http { ratelimitly_tracker t \"service=a\" ttl=20ms; ratelimitly_guard g tracker=t threshold=1s;\n\
     server { ratelimitly guard=g; add_header Retry-After 1; proxy_read_timeout 1h; } }",
    "http { a 'b\\' c' \"${d}\" # comment\n; map $x $y { ~^\\d{2}$ 1; } }",
];

struct Corpus(PathBuf);

impl Corpus {
    fn add(&self, target: &str, parts: [&[u8]; 2]) -> io::Result<()> {
        let folder = self.0.join(target);
        fs::create_dir_all(&folder)?;
        let place = (0..).map(|n| folder.join(format!("seed-{n}"))).find(|path| !path.exists());
        fs::write(place.expect("there are more numbers than seeds"), parts.concat())
    }

    fn response(&self, kind: &str, packet: &[u8]) -> io::Result<()> {
        let target = if kind.starts_with(COOKIE) { "response_cookie" } else { "response_aes" };
        self.add(target, [&[RAW], packet])?;
        if kind.starts_with(COOKIE)
            && let Some(pdu) = packet.get(COOKIE_HEAD..)
        {
            self.add("response_aes", [&[SEALED], pdu])?;
            self.add("response_cookie", [&[SEALED], pdu])?;
        }
        Ok(())
    }

    fn request(&self, entry: &Value) -> io::Result<()> {
        for key_bit in [0, 2] {
            self.add("request", [&[SEALED | key_bit], &hex(&entry["pdu"])])?;
        }
        for (key, packet) in entry["packets"].as_object().expect("packets by key") {
            // What does not fit a datagram has a remark in its place.
            if text(packet).starts_with("error") {
                continue;
            }
            let key_bit = if key.starts_with(COOKIE) { 2 } else { 0 };
            self.add("request", [&[RAW | key_bit], &hex(packet)])?;
        }
        Ok(())
    }
}

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).expect("usage: seeds <folder of the corpora>");
    let corpus = Corpus(PathBuf::from(folder));
    let vectors: Value = serde_json::from_str(VECTORS)?;
    let all = |name: &str| vectors[name].as_array().expect("a list of the vectors").iter();

    remove_seeds(&corpus.0)?;
    for key in all("api_keys_valid").chain(all("api_keys_invalid")) {
        corpus.add("api_key", [&[RAW], text(&key["encoded"]).as_bytes()])?;
    }
    for payload in all("api_keys_valid").map(payload) {
        corpus.add("api_key", [&[SEALED], &payload])?;
        corpus.add("api_key", [&[SEALED | 2], &payload])?;
    }
    for response in all("responses_valid").chain(all("responses_invalid")) {
        corpus.response(text(&response["key"]), &hex(&response["packet"]))?;
    }
    for request in all("rate_requests").chain(all("latency_reports")) {
        corpus.request(request)?;
    }
    for (target, values) in [
        ("rate", &RATES[..]),
        ("duration", &DURATIONS),
        ("policy", &POLICIES),
        ("resolv_conf", &RESOLV_CONFS),
        ("address", &ADDRESSES),
        ("arguments", &ARGUMENTS),
        ("texts", &TEXTS),
        ("log_line", &LOG_LINES),
        ("controls", &CONTROLS),
        ("fields", &FIELDS),
        ("access_log", &ACCESS_LOGS),
        ("nginx_dump", &NGINX_DUMPS),
    ] {
        for value in values {
            corpus.add(target, [value.as_bytes(), b""])?;
        }
    }
    Ok(())
}

/// Seeds of an earlier version of the vectors; what the fuzzer found stays.
fn remove_seeds(corpora: &Path) -> io::Result<()> {
    let Ok(targets) = fs::read_dir(corpora) else { return Ok(()) };
    for target in targets {
        for file in fs::read_dir(target?.path())? {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with("seed-") {
                fs::remove_file(file.path())?;
            }
        }
    }
    Ok(())
}

/// Version, key id and secret as in the vectors, and a quota word of zeros, which is a valid one or nearly so.
fn payload(key: &Value) -> Vec<u8> {
    let mut payload = vec![1];
    payload.extend(key["key_id"].as_u64().expect("a number").to_le_bytes());
    payload.extend(hex(&key["secret"]));
    payload.extend([0; 4]);
    payload
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text of the vectors")
}

fn hex(value: &Value) -> Vec<u8> {
    let text = text(value);
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("two hexadecimal digits");
    (0..text.len()).step_by(2).map(byte).collect()
}
