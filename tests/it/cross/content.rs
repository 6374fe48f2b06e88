//! What nginx makes of a request once it is admitted: `Expect: 100-continue`, `HEAD`, ranges, gzip, server-side includes.
//! The verdict comes while the request waits, and nothing of its form gets lost meanwhile, over every protocol.

use crate::cross::protocol::Protocol;
use crate::cross::site::{Row, Site};
use flate2::read::GzDecoder;
use ratelimitly_devserver::Fault;
use ratelimitly_harness::http::Response;
use std::io::Read;

const EXPECTING: &str = r#"
    {service}
    ratelimitly_policy single_round unit=1900ms;
    ratelimitly_fail close;
    ratelimitly_zone all "bucket=all" rate=1000r/s;

    server {
        {listeners}
        ratelimitly zone=all;
        ratelimitly_label $request_uri;
        proxy_http_version 1.1;
        location /buffered { proxy_pass http://{upstream}; }
        location /unbuffered { proxy_request_buffering off; proxy_pass http://{upstream}; }
    }
"#;

/// HTTP/1.1 alone has interim responses here: nginx takes a body of HTTP/2 and HTTP/3 as it comes.
fn interim(protocol: Protocol) -> usize {
    usize::from(matches!(protocol, Protocol::Kept | Protocol::Pipelined))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_waits_for_100_comes_after_the_allow_and_arrives_whole() {
    let mut site = Site::warm(EXPECTING, &[], &[]).await;
    site.dev.fault(Fault::Delay { ms: 50 }).await;

    let expecting = |path| Row::post(path, 16 << 10).header("expect", "100-continue").arrives(1);
    let rows = [expecting("/buffered"), expecting("/unbuffered")];
    for (protocol, responses) in site.over_each_protocol(&rows).await {
        let seen: Vec<_> = responses.iter().map(|response| response.interim).collect();
        assert_eq!(seen, [interim(protocol); 2], "{protocol}: interim responses");
    }

    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_body_that_waits_for_100_gets_no_100() {
    let mut site = Site::warm(EXPECTING, &[], &[]).await;
    site.dev.fault(Fault::ForceDeny).await;

    // One request a connection: the announced body is never sent, so that nothing can follow it.
    let row = Row::post("/buffered", 16 << 10).header("expect", "100-continue").gives(429, "deny");
    for (protocol, responses) in site.over_each_protocol(&[row]).await {
        assert_eq!(responses[0].interim, 0, "{protocol}: interim responses");
    }

    site.finish().await;
}

const FILES: &str = r#"
    {service}
    ratelimitly_policy single_round unit=1900ms;
    ratelimitly_fail close;
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    default_type text/plain;

    server {
        {listeners}
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $request_uri;
        location / {}
        location /compressed/ { gzip on; gzip_types text/plain; }
        location /included/ { default_type text/html; ssi on; }
    }
"#;

const DIGITS: (&str, &str) = ("digits", "0123456789");

#[tokio::test(flavor = "multi_thread")]
async fn head_gets_the_head_alone() {
    let mut site = Site::warm(FILES, &[], &[DIGITS]).await;

    // A body that should not be there would be taken for the second response.
    let rows = [Row::head("/digits"), Row::head("/none").gives(404, "allow"), Row::get("/digits")];
    for (protocol, responses) in site.over_each_protocol(&rows).await {
        assert_eq!(responses[0].header("content-length"), Some("10"), "{protocol}");
        let bodies: Vec<_> = responses.iter().map(Response::text).collect();
        assert_eq!(bodies, ["", "", "0123456789"], "{protocol}");
    }

    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_gets_its_part() {
    let mut site = Site::warm(FILES, &[], &[DIGITS]).await;

    let rows = [
        Row::get("/digits").header("range", "bytes=2-5").gives(206, "allow"),
        Row::get("/digits").header("range", "bytes=-3").gives(206, "allow"),
        Row::get("/digits").header("range", "bytes=10-").gives(416, "allow"),
    ];
    for (protocol, responses) in site.over_each_protocol(&rows).await {
        let ranges = responses.iter().map(|response| response.header("content-range").unwrap_or_default());
        let expected = ["bytes 2-5/10", "bytes 7-9/10", "bytes */10"];
        assert_eq!(ranges.collect::<Vec<_>>(), expected, "{protocol}");
        assert_eq!((responses[0].text(), responses[1].text()), ("2345".into(), "789".into()), "{protocol}");
    }

    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_response_is_what_was_compressed() {
    let text: String = (0..2000).map(|line| format!("line {line}\n")).collect();
    let mut site = Site::warm(FILES, &[], &[("compressed/text", &text)]).await;

    let rows = [Row::get("/compressed/text").header("accept-encoding", "gzip"), Row::get("/compressed/text")];
    for (protocol, responses) in site.over_each_protocol(&rows).await {
        assert_eq!(responses[0].header("content-encoding"), Some("gzip"), "{protocol}");
        assert!(inflated(&responses[0]) == text, "{protocol}: other text than was compressed");
        assert_eq!(responses[1].header("content-encoding"), None, "{protocol}");
        assert!(responses[1].text() == text, "{protocol}: other text than the file's");
    }

    site.finish().await;
}

fn inflated(response: &Response) -> String {
    let mut text = String::new();
    GzDecoder::new(&response.body[..]).read_to_string(&mut text).expect("gzip");
    text
}

/// A page of two parts; the second includes the first again.
const PARTS: [(&str, &str); 3] = [
    (
        "included/page",
        "<!--#include virtual=\"/included/one\" -->, <!--#include virtual=\"/included/two\" -->!",
    ),
    ("included/one", "one <!--#echo var=\"ratelimitly_verdict\" -->"),
    ("included/two", "two (<!--#include virtual=\"/included/one\" -->)"),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_parts_of_a_page_ask_nothing() {
    let mut site = Site::warm(FILES, &[], &PARTS).await;

    let rows = [Row::get("/included/page"), Row::get("/included/page")];
    for (protocol, responses) in site.over_each_protocol(&rows).await {
        let bodies: Vec<_> = responses.iter().map(Response::text).collect();
        assert_eq!(bodies, ["one allow, two (one allow)!"; 2], "{protocol}");
    }

    site.finish().await;
}
