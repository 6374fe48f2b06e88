//! The command line: `serve` runs a development server until it is told to end, `keygen` prints a key. Called by
//! `main.rs` only.

use crate::command::Command;
use crate::config::{Config, default_ids};
use crate::devserver::DevServer;
use crate::names::Name;
use crate::{NOTICE, keygen};
use clap::{Args, Parser, Subcommand, ValueEnum};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use serde::Serialize;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The port of DNS where an option names an address alone.
const DNS_PORT: u16 = 5300;

const KEYGEN_THEN_SERVE: &str = "\
Start:
  key=$(ratelimitly-devserver keygen --kind aes --key-id 1)
  ratelimitly-devserver serve --key \"$key\" --control /tmp/control";

const EXAMPLES: &str = "\
Examples, after key=$(ratelimitly-devserver keygen --kind aes --key-id 1):
  Three servers and DNS for the nginx of this machine
    ratelimitly-devserver serve --key \"$key\"
  For the nginx of a container or of another host, which reaches this one as 192.0.2.7
    ratelimitly-devserver serve --key \"$key\" --listen 0.0.0.0:40000 --dns 0.0.0.0 --advertise 192.0.2.7
  Deny every request of one label from the start
    ratelimitly-devserver serve --key \"$key\" \\
      --apply '{\"command\":\"fault\",\"fault\":{\"force_deny_of\":{\"label\":\"/login\"}}}'
  Break it and mend it while it runs
    ratelimitly-devserver serve --key \"$key\" --control /tmp/control &
    echo '{\"command\":\"fault\",\"fault\":\"silent\"}' | socat - UNIX-CONNECT:/tmp/control
    echo '{\"command\":\"clear\"}' | socat - UNIX-CONNECT:/tmp/control
  Count what was allowed and denied
    echo '{\"command\":\"status\"}' | socat - UNIX-CONNECT:/tmp/control";

#[derive(Debug, Parser)]
#[command(name = "ratelimitly-devserver", version, about = NOTICE, after_help = KEYGEN_THEN_SERVE)]
struct Cli {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Runs servers and their DNS zone until SIGINT or SIGTERM
    #[command(after_help = EXAMPLES)]
    Serve(Box<Serve>),
    /// Prints a new API key with a random secret
    Keygen(Keygen),
}

#[derive(Args, Debug)]
struct Serve {
    /// Number of servers
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    servers: u16,
    /// Ids of the servers, separated by commas, instead of a number of them
    #[arg(long, value_delimiter = ',', conflicts_with = "servers")]
    ids: Vec<u64>,
    /// Address of the servers; with a port other than 0 the second server takes the next one, and so on
    #[arg(long, default_value = "127.0.0.1:0", value_parser = |text: &str| parse_address(text, 0))]
    listen: SocketAddr,
    /// IP address under which other hosts or containers reach this one; DNS lists it, and the printed lines name it
    #[arg(long)]
    advertise: Option<IpAddr>,
    /// Address of DNS, UDP and TCP; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:5300", value_parser = |text: &str| parse_address(text, DNS_PORT))]
    dns: SocketAddr,
    /// DNS zone
    #[arg(long, default_value = "dev.test")]
    zone: String,
    /// Encoded API key to serve, a development key that `keygen` made; may be repeated
    #[arg(long, required = true, value_parser = parse_key)]
    key: Vec<ApiKey>,
    /// TTL of the DNS records, whole seconds
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    ttl: Duration,
    /// Unix socket that takes commands as JSON lines
    #[arg(long)]
    control: Option<PathBuf>,
    /// File that gets one JSON line for each request and report
    #[arg(long)]
    events: Option<PathBuf>,
    /// Name that events show beside an id: bucket=<rendered bucket>@<rate>, or service=<rendered service>@ttl=<time>,
    /// max_samples=<n>,min_sample_threshold=<n> (absent: the directive's defaults); may be repeated
    #[arg(long)]
    name: Vec<Name>,
    /// Command to apply at start, JSON as on the control socket; may be repeated
    #[arg(long, value_parser = parse_command)]
    apply: Vec<Command>,
    /// Seed of the random decisions of `drop` and `jitter`
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Drop requests whose time stamp is further off than this
    #[arg(long, value_parser = parse_duration)]
    max_clock_skew: Option<Duration>,
}

#[derive(Args, Debug)]
struct Keygen {
    /// How datagrams are authenticated
    #[arg(long)]
    kind: Kind,
    /// Key id
    #[arg(long)]
    key_id: u64,
    /// Longest deduplication TTL, 10ms to 2s in steps of 10ms
    #[arg(long, default_value = "300ms", value_parser = parse_millis)]
    dedup_ttl: u32,
    /// Longest rate window: a power of two in milliseconds (for example 65536ms), or `max`
    #[arg(long, default_value = "max", value_parser = parse_window)]
    rate_window_max: u32,
    /// Most buckets, a power of two
    #[arg(long, default_value_t = keygen::default_quotas().rate_buckets_max)]
    rate_buckets_max: u32,
    /// Most latency services, a power of two
    #[arg(long, default_value_t = keygen::default_quotas().latency_services_max)]
    latency_services_max: u32,
    /// Most metrics labels, a power of two
    #[arg(long, default_value_t = keygen::default_quotas().metrics_labels_max)]
    metrics_labels_max: u32,
    /// Most samples of a tracker, a power of two
    #[arg(long, default_value_t = keygen::default_quotas().latency_buffer_size_max)]
    latency_buffer_size_max: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// AES-256-GCM
    Aes,
    /// A cookie; datagrams are in clear
    Cookie,
}

/// Reads the command line and does what it says.
///
/// # Errors
/// Whatever keeps the server from starting, or the key from being made, as a text for people.
pub async fn run() -> Result<(), String> {
    match Cli::parse().action {
        Action::Serve(serve) => serve.run().await.map_err(|error| error.to_string()),
        Action::Keygen(keygen) => keygen.run(),
    }
}

impl Serve {
    async fn run(self) -> io::Result<()> {
        // Caught before anyone can know that the server is ready.
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        eprintln!("{NOTICE}");
        let control = self.control.clone();
        let advertise = self.advertise.filter(|_| self.dns.ip().is_unspecified());
        let server = DevServer::start(self.config()).await.map_err(explain)?;
        if let Some(path) = &control {
            server.open_control(path)?;
        }
        let dns = SocketAddr::new(advertise.unwrap_or(server.dns_addr().ip()), server.dns_addr().port());
        eprint!("{}", nginx_lines(&server, dns));
        print_ready(&server, dns)?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        server.shutdown().await;
        Ok(())
    }

    fn config(self) -> Config {
        let server_ids = if self.ids.is_empty() { default_ids(usize::from(self.servers)) } else { self.ids };
        Config {
            server_ids,
            listen: self.listen,
            advertise: self.advertise,
            dns: self.dns,
            zone: self.zone,
            keys: self.key,
            ttl: self.ttl,
            seed: self.seed,
            max_clock_skew: self.max_clock_skew,
            commands: self.apply,
            events: self.events,
            names: self.name,
            record: false,
        }
    }
}

/// Adds what to do to the error of a port that another process has.
fn explain(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::AddrInUse {
        return error;
    }
    let text = format!("{error}; choose another port with --dns or --listen, port 0 takes a free one");
    io::Error::new(error.kind(), text)
}

/// What nginx needs to ask this server. The key is not repeated: a log that holds these lines must not hold a key.
fn nginx_lines(server: &DevServer, dns: SocketAddr) -> String {
    format!(
        "In nginx's http block:\n    \
         ratelimitly_auth_key     rl-...;  # the text after --key\n    \
         ratelimitly_dns_srv      {};\n    \
         ratelimitly_dns_resolver {dns};\n",
        server.zone(),
    )
}

/// The line that says where everything listens; scripts wait for it.
fn print_ready(server: &DevServer, dns: SocketAddr) -> io::Result<()> {
    #[derive(Serialize)]
    struct Ready<'a> {
        event: &'static str,
        dns: SocketAddr,
        zone: &'a str,
        servers: Vec<Listening>,
    }
    #[derive(Serialize)]
    struct Listening {
        id: u64,
        address: SocketAddr,
    }
    let servers =
        server.advertised().into_iter().map(|server| Listening { id: server.id, address: server.addr });
    let ready = Ready { event: "ready", dns, zone: server.zone(), servers: servers.collect() };
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(&ready)?)?;
    stdout.flush()
}

impl Keygen {
    fn run(self) -> Result<(), String> {
        let quotas = Quotas {
            rate_buckets_max: self.rate_buckets_max,
            latency_services_max: self.latency_services_max,
            metrics_labels_max: self.metrics_labels_max,
            latency_buffer_size_max: self.latency_buffer_size_max,
            dedup_ttl_ms_max: self.dedup_ttl,
            rate_window_size_ms_max: self.rate_window_max,
        };
        let kind = match self.kind {
            Kind::Aes => KeyKind::Aes,
            Kind::Cookie => KeyKind::Cookie,
        };
        let key = keygen::generate(kind, self.key_id, quotas).map_err(|error| error.to_string())?;
        writeln!(io::stdout(), "{}", key.encode()).map_err(|error| error.to_string())
    }
}

fn parse_key(text: &str) -> Result<ApiKey, String> {
    ApiKey::parse(text).map_err(|error| {
        format!(
            "not an API key ({error}); make one for this server with \
             `ratelimitly-devserver keygen --kind aes --key-id 1`"
        )
    })
}

/// An address with its port, or an IP address alone, which gets this port.
fn parse_address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let alone = || text.parse().map(|ip: IpAddr| SocketAddr::new(ip, port)).ok();
    text.parse().ok().or_else(alone).ok_or_else(|| {
        "must be an IP address, with or without a port, like 0.0.0.0 or 127.0.0.1:5300 or [::1]:5300".into()
    })
}

fn parse_command(text: &str) -> Result<Command, String> {
    Command::from_json(text.as_bytes()).map_err(|error| error.to_string())
}

/// `20ms`, `1s`, `5m` or `2h`; `0` needs no unit.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor_ms = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "" if number == "0" => Some(0),
        _ => None,
    };
    let parsed = number.parse::<u64>().ok().zip(factor_ms);
    let millis = parsed.and_then(|(number, factor_ms)| number.checked_mul(factor_ms));
    millis
        .map(Duration::from_millis)
        .ok_or_else(|| "must be a whole number with ms, s, m or h, like 300ms".into())
}

fn parse_millis(text: &str) -> Result<u32, String> {
    u32::try_from(parse_duration(text)?.as_millis()).map_err(|_| "must be at most 4294967295ms".into())
}

fn parse_window(text: &str) -> Result<u32, String> {
    if text == "max" {
        return Ok(u32::MAX);
    }
    match parse_millis(text)? {
        millis if millis.is_power_of_two() => Ok(millis),
        millis => {
            let above = millis.checked_next_power_of_two().filter(|&above| above <= 1 << 30);
            let above = above.map_or("max".to_string(), |above| format!("{above}ms"));
            Err(format!("must be a power of two in milliseconds, like {above}, or max"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn an_address_may_leave_out_its_port() {
        assert_eq!(parse_address("0.0.0.0", 5300), Ok("0.0.0.0:5300".parse().unwrap()));
        assert_eq!(parse_address("::1", 0), Ok("[::1]:0".parse().unwrap()));
        assert_eq!(parse_address("127.0.0.1:9", 5300), Ok("127.0.0.1:9".parse().unwrap()));
        assert!(parse_address("localhost", 5300).is_err());
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for bad in ["", "5", "ms", "1.5s", "1 s", "-1s", "99999999999999999999s", "18446744073709551615h"] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_window_that_no_key_can_carry_names_one_that_fits() {
        assert_eq!(parse_window("max"), Ok(u32::MAX));
        assert_eq!(parse_window("65536ms"), Ok(65_536));
        let error = parse_window("60s").unwrap_err();
        assert!(error.contains("65536ms"), "{error}");
    }
}
