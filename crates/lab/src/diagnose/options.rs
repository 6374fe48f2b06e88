//! The command line of `ratelimitly-lab diagnose`.

use super::conf::finding::Version;
use clap::Args;
use std::path::PathBuf;

/// The access log that docs/overload.md recommends.
pub const RECOMMENDED: &str = "$msec $status \"$request\" $remote_addr $upstream_addr $upstream_status \
    $upstream_header_time $request_time $limit_req_status $ratelimitly_outcome $ratelimitly_failure $ratelimitly_time \
    \"$ratelimitly_denied_by\"";

const EXAMPLES: &str = "\
Examples:
  ci/lab diagnose /var/log/nginx/app.log --app-log /srv/app/requests.log
  nginx -T 2>/dev/null | ci/lab diagnose --config - --app-keepalive 5s
  ci/lab diagnose app.log.1 app.log --config nginx-T.txt --format app
  zcat app.log.*.gz | ci/lab diagnose - --format '$time_iso8601 $status \"$request\" $upstream_header_time'

Formats are those of nginx's log_format. The application's log has $msec, $time_iso8601 or $time_local (when the response
was written), $uri or $request, and $app_time (seconds) or $app_time_ms; other names skip a value.";

/// Says from logs why the application fell behind, and from `nginx -T` what is set up wrong.
#[derive(Args, Debug, Default)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Options {
    /// Access logs of nginx, the oldest first; - is standard input.
    pub access_log: Vec<PathBuf>,
    /// The access log's format, or the name of a log_format in the configuration; without it the one that
    /// docs/overload.md recommends.
    #[arg(long)]
    pub format: Option<String>,
    /// The variable in the format that tells clients apart.
    #[arg(long, default_value = "remote_addr")]
    pub client: String,
    /// Logs of the application, the oldest first.
    #[arg(long)]
    pub app_log: Vec<PathBuf>,
    /// The format of the application's log.
    #[arg(long, default_value = "$msec $uri $app_time")]
    pub app_format: String,
    /// The output of nginx -T, or one configuration file; - is standard input.
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// After how long the application closes an idle connection, such as 5s.
    #[arg(long, value_parser = milliseconds)]
    pub app_keepalive: Option<u32>,
    /// How long clients wait for an answer, such as 10s; without it taken from clients that left (499).
    #[arg(long, value_parser = milliseconds)]
    pub clients_wait: Option<u32>,
    /// nginx's version, such as 1.30.6 (nginx -v).
    #[arg(long)]
    pub nginx_version: Option<Version>,
}

fn milliseconds(text: &str) -> Result<u32, String> {
    let ms = ratelimitly_config::duration::parse_ms(text.as_bytes());
    ms.map_err(|error| error.to_string())
}
