//! nginx's own limits in front: what they refuse is never asked about, over every protocol.

use crate::cross::protocol::protocols;
use crate::cross::site::{Row, Site};

/// Each protocol has a port and with it limits of its own.
const LIMITED: &str = r#"
    {service}
    ratelimitly_policy single_round unit=1900ms;
    ratelimitly_fail close;
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    limit_req_zone $server_port zone=rare:1m rate=1r/m;
    limit_conn_zone $server_port zone=single:1m;

    server {
        {listeners}
        ratelimitly zone=all;
        ratelimitly_label $request_uri;
        location /rare { limit_req zone=rare; proxy_pass http://{upstream}; }
        location /single { limit_conn single 1; proxy_pass http://{upstream}; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_limit_req_refuses_is_not_asked_about() {
    let mut site = Site::warm(LIMITED, &[], &[]).await;

    site.over_each_protocol(&[Row::get("/rare").arrives(1)]).await;
    let refused = |row: Row| row.unasked().gives(503, "-");
    site.over_each_protocol(&[refused(Row::get("/rare")), refused(Row::post("/rare", 16 << 10))]).await;

    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_limit_conn_refuses_is_not_asked_about() {
    let mut site = Site::warm(LIMITED, &[], &[]).await;

    for protocol in protocols() {
        let waiting = site.enter(*protocol, &[Row::get("/single").arrives(1)]);
        let refused = site.enter(*protocol, &[Row::get("/single").unasked().gives(503, "-")]);
        tokio::join!(site.ask(*protocol, waiting.clone()), async {
            site.arrives(&waiting).await;
            site.ask(*protocol, refused).await;
            site.gate.notify_one();
        });
    }

    site.finish().await;
}
