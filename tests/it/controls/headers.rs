//! What a client is told by plain `add_header`: the values of the variables against the numbers on the wire, read by a
//! library for structured fields, with each version of HTTP.

use crate::controls::fields::{Fields, OnTheWire};
use ratelimitly_devserver::{Event, Fault};
use ratelimitly_harness::http::Response;
use ratelimitly_harness::tls::Certificate;
use ratelimitly_harness::{Dev, Nginx, environment, h2, h3, http};

/// The zones differ in their windows. The guard's tracker keeps samples for 1.5 s.
const SITE: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=600ms;
        ratelimitly_zone per_client "bucket=client:$arg_c" rate=5r/1m;
        ratelimitly_zone hourly     "bucket=hour:$arg_c"   rate=1000r/1h;
        ratelimitly_zone largest    "bucket=large"         rate=4294967295r/4294967s;
        ratelimitly_zone fast       "bucket=fast"          rate=1000r/s;
        ratelimitly_zone "a \"b\" \\c é" "bucket=odd:$arg_c" rate=7r/2s;
        ratelimitly_group both  zone=per_client zone=hourly;
        ratelimitly_group twice zone=hourly zone=per_client zone=hourly;
        ratelimitly_tracker app "service=app" ttl=1500ms max_samples=16 min_sample_threshold=1;
        ratelimitly_guard healthy tracker=app threshold=100ms;

        add_header Retry-After      $ratelimitly_retry_after       always;
        add_header RateLimit        $ratelimitly_limit_header      always;
        add_header RateLimit-Policy $ratelimitly_policy_header     always;
        add_header X-Limit          $ratelimitly_limit             always;
        add_header X-Remaining      $ratelimitly_remaining         always;
        add_header X-Reset          $ratelimitly_reset             always;
        add_header X-Violated       $ratelimitly_violated_policies always;

        server {
            listen 127.0.0.1:{port};
            listen 127.0.0.1:{port_h2} {http2};
            {quic}
            location /both    { ratelimitly group=both; empty_gif; }
            location /twice   { ratelimitly group=twice; empty_gif; }
            location /odd     { ratelimitly "zone=a \"b\" \\c é"; empty_gif; }
            location /largest { ratelimitly zone=largest; empty_gif; }
            location /fast    { ratelimitly zone=fast; empty_gif; }
            location /guarded { ratelimitly group=both guard=healthy; empty_gif; }
            location /guard   { ratelimitly guard=healthy; empty_gif; }
            location /dry     { ratelimitly_dry_run on; ratelimitly group=both guard=healthy; empty_gif; }
            location /closed  { ratelimitly_fail close; ratelimitly group=both; empty_gif; }
            location /open    { ratelimitly group=both; empty_gif; }
            location /skipped { ratelimitly group=both if=0; empty_gif; }
            location /free    { empty_gif; }
            location /own     { add_header X-Own yes always; ratelimitly group=both; empty_gif; }
            location /app     { ratelimitly group=both; proxy_pass http://127.0.0.1:{port}/theirs; }
            location /hidden {
                ratelimitly       group=both;
                proxy_hide_header RateLimit;
                proxy_pass        http://127.0.0.1:{port}/theirs;
            }
            location /theirs  { add_header RateLimit '"theirs";r=1;t=1'; empty_gif; }
            location /page/ {
                location /page/plain  { error_page 429 /shown; ratelimitly group=both; empty_gif; }
                location /page/named  { error_page 429 @named; ratelimitly group=both; empty_gif; }
                location /page/turned { error_page 429 =503 /shown; ratelimitly group=both; empty_gif; }
                location /page/silent { error_page 429 /silent; ratelimitly group=both; empty_gif; }
            }
            location = /shown  { internal; empty_gif; }
            location = /silent { internal; add_header X-Own yes always; empty_gif; }
            location @named { return 429 "slow down"; }
        }
    }
"#;

const QUIC: &str = "listen 127.0.0.1:{port_quic} quic; ssl_certificate {certificate}/certificate.pem; \
                    ssl_certificate_key {certificate}/key.pem; ssl_protocols TLSv1.3;";

const NAMES: [&str; 2] = ["per_client", "hourly"];

struct Site {
    dev: Dev,
    nginx: Nginx,
    /// The reload at the end reads its files again.
    certificate: Certificate,
}

async fn site() -> Site {
    let dev = Dev::single().await;
    let certificate = Certificate::new();
    let text = SITE.replace("{quic}", if environment::has_http3() { QUIC } else { "" });
    let builder = Nginx::builder(&text).dev(&dev).set("certificate", certificate.folder().display());
    let nginx = builder.start().await;
    nginx.admits().await;
    Site { dev, nginx, certificate }
}

impl Site {
    /// The response to a request of HTTP/1.1.
    async fn get(&self, path: &str) -> Response {
        http::get(self.nginx.port(), path).await
    }

    /// The responses with each version of HTTP that this nginx speaks.
    async fn get_over_each(&self, path: &str) -> Vec<(&'static str, Response)> {
        let mut responses = vec![("HTTP/1.1", self.get(path).await)];
        let mut h2 = h2::Connection::connect(self.nginx.named_port("port_h2")).await.expect("connected");
        let stream = h2.get(path).await.expect("sent");
        responses.push(("HTTP/2", stream.response().await.expect("a response")));
        if environment::has_http3() {
            let port = self.nginx.named_port("port_quic");
            let mut h3 = h3::Connection::connect(port, &self.certificate).await.expect("connected");
            let stream = h3.get(path).await.expect("sent");
            responses.push(("HTTP/3", stream.response().await.expect("a response")));
            h3.close().await;
        }
        responses
    }

    /// The last admission that the server saw.
    fn last(&self) -> Event {
        self.dev.admissions().pop().expect("an admission")
    }

    /// What the last answer means to a client, where these zones were asked once each.
    fn expected<const N: usize>(&self, names: [&str; N], retry_after: Option<u32>) -> Fields {
        expected(&self.last(), names, retry_after)
    }
}

fn expected<const N: usize>(event: &Event, names: [&str; N], retry_after: Option<u32>) -> Fields {
    let zones = OnTheWire::zones(event);
    assert_eq!(zones.len(), N);
    let (limit, policy) = zones.iter().zip(names).map(|(zone, name)| zone.members(name)).unzip();
    Fields { retry_after, limit, policy }
}

#[tokio::test(flavor = "multi_thread")]
async fn t15_an_allowed_response_tells_the_limits_of_each_zone_over_each_version_of_http() {
    let site = site().await;
    let responses = site.get_over_each("/both").await;
    let admissions = site.dev.admissions();
    assert_eq!(admissions.len(), responses.len());
    for ((version, response), event) in responses.into_iter().zip(&admissions) {
        assert_eq!(response.status, 200, "{version}");
        assert_eq!(Fields::of(&response), expected(event, NAMES, None), "{version}");
    }
    // The first one's, so that the figures do not come from this test's own arithmetic alone.
    let first = expected(&admissions[0], NAMES, None);
    assert_eq!(first.limit, [("per_client".into(), 4, 60), ("hourly".into(), 999, 3600)]);
    assert_eq!(first.policy, [("per_client".into(), 5, 60), ("hourly".into(), 1000, 3600)]);
    site.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t12_t16_a_denied_response_tells_when_to_come_back_over_each_version_of_http() {
    let site = site().await;
    for _ in 0..5 {
        assert_eq!(site.get("/both").await.status, 200);
    }
    site.dev.clear_events();
    let responses = site.get_over_each("/both").await;
    let admissions = site.dev.admissions();
    assert_eq!(admissions.len(), responses.len());
    for ((version, response), event) in responses.into_iter().zip(&admissions) {
        assert_eq!(response.status, 429, "{version}");
        // One of five tokens a minute is missing: 12 s.
        assert_eq!(Fields::of(&response), expected(event, NAMES, Some(12)), "{version}");
        assert_eq!(response.header("X-Violated"), Some(r#"["per_client"]"#), "{version}");
    }
    let first = expected(&admissions[0], NAMES, Some(12));
    assert_eq!(first.limit, [("per_client".into(), 0, 12), ("hourly".into(), 995, 3600)]);
    site.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t12_a_wait_is_at_least_one_second_and_at_most_the_window() {
    let site = site().await;
    for (path, tokens, seconds) in [
        ("/fast", 1, 1),
        ("/fast", 1000, 1),
        ("/fast", u16::MAX, 1),
        ("/both", 1, 12),
        ("/both", 4, 48),
        ("/both", u16::MAX, 60),
        ("/largest", 1, 1),
        ("/largest", u16::MAX, 66),
    ] {
        site.dev.fault(Fault::Deficit { resource: 0, tokens }).await;
        let response = site.get(path).await;
        assert_eq!(Fields::of(&response).retry_after, Some(seconds), "{path}, {tokens} missing");
        let wait = OnTheWire::zones(&site.last())[0].retry_after();
        assert_eq!(wait, Some(seconds.into()), "{path}, {tokens} missing");
    }
    site.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_the_largest_rate_and_window_are_whole_numbers_in_the_fields() {
    let site = site().await;
    let fields = Fields::of(&site.get("/largest").await);
    assert_eq!(fields.limit, [("largest".into(), 4_294_967_294, 4_294_967)]);
    assert_eq!(fields.policy, [("largest".into(), 4_294_967_295, 4_294_967)]);
    site.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_t24_the_wait_is_the_longest_of_all_that_refused() {
    let site = site().await;
    // 3.6 s for a token of `hourly`, 12 s for one of `per_client`, 1.5 s for the samples of the guard's tracker.
    site.dev.fault(Fault::Deficit { resource: 1, tokens: 1 }).await;
    let response = site.get("/guarded").await;
    assert_eq!(Fields::of(&response), site.expected(NAMES, Some(4)));
    site.dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    let response = site.get("/guarded").await;
    assert_eq!(Fields::of(&response), site.expected(NAMES, Some(12)));
    assert_eq!(response.header("X-Violated"), Some(r#"["per_client", "hourly"]"#));
    site.dev.clear([]).await;

    site.dev.fault(Fault::Latency { guard: 0, ms: 100 }).await;
    let response = site.get("/guarded").await;
    assert_eq!((response.status, Fields::of(&response)), (429, site.expected(NAMES, Some(2))));
    assert_eq!(response.header("X-Violated"), Some(r#"["healthy"]"#));
    let response = site.get("/guard").await;
    let alone = Fields { retry_after: Some(2), ..Fields::none() };
    assert_eq!(Fields::of(&response), alone, "a guard has no policy of its own");
    site.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t11_the_single_numbers_are_those_of_the_tightest_zone() {
    let site = site().await;
    let numbers = |response: &Response| {
        ["X-Limit", "X-Remaining", "X-Reset"].map(|name| response.header(name).map(str::to_owned))
    };
    let some = |numbers: [&str; 3]| numbers.map(|number| Some(number.to_owned()));

    assert_eq!(numbers(&site.get("/both").await), some(["5", "4", "60"]), "4 of 5 are less than 999 of 1000");
    site.dev.fault(Fault::Deficit { resource: 1, tokens: 1 }).await;
    assert_eq!(numbers(&site.get("/both").await), some(["1000", "999", "4"]), "the one that refused");
    site.dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    assert_eq!(numbers(&site.get("/both").await), some(["5", "4", "12"]), "the longest wait of two");
    site.dev.clear([]).await;
    site.dev.fault(Fault::Latency { guard: 0, ms: 100 }).await;
    assert_eq!(numbers(&site.get("/guard").await), [None, None, None], "no zone was asked");
    site.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t17_a_zone_that_is_asked_twice_is_one_member_with_the_fewest_tokens() {
    let site = site().await;
    let fields = Fields::of(&site.get("/twice").await);
    assert_eq!(site.last().resources.len(), 3);
    assert_eq!(fields.limit, [("hourly".into(), 998, 3600), ("per_client".into(), 4, 60)]);
    assert_eq!(fields.policy, [("hourly".into(), 1000, 3600), ("per_client".into(), 5, 60)]);

    // One occurrence alone refuses; the member's `t` is no later than the wait that the client is told.
    for resource in [2, 0] {
        site.dev.clear([]).await;
        site.dev.fault(Fault::Deficit { resource, tokens: 10 }).await;
        let response = site.get("/twice").await;
        assert_eq!(Fields::of(&response).limit[0], ("hourly".into(), 998, 36), "{resource}");
        assert_eq!(Fields::of(&response).retry_after, Some(36), "{resource}");
        assert_eq!(response.header("X-Violated"), Some(r#"["hourly"]"#), "{resource}");
    }
    site.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_t24_any_name_makes_a_valid_field_and_no_key_is_in_it() {
    let site = site().await;
    site.dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    let response = site.get("/odd?c=a-secret-key").await;
    let fields = Fields::of(&response);
    assert_eq!(fields, site.expected([r#"a "b" \c %C3%A9"#], Some(1)));
    let violated = response.headers.get("X-Violated").expect("a field").as_bytes();
    let violated: Vec<String> = serde_json::from_slice(violated).expect("JSON");
    assert_eq!(violated, ["a \"b\" \\c é"]);
    assert!(!format!("{:?}", response.headers).contains("a-secret-key"));
    site.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_dry_run_tells_clients_nothing_over_each_version_of_http() {
    let site = site().await;
    for fault in [Fault::ForceAllow, Fault::ForceDeny, Fault::Latency { guard: 0, ms: 100 }, Fault::Silent] {
        site.dev.fault(fault).await;
        for (version, response) in site.get_over_each("/dry").await {
            assert_eq!((response.status, Fields::of(&response)), (200, Fields::none()), "{version}");
            assert_eq!(response.header("X-Violated"), None, "{version}");
        }
    }
    site.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t14_t21_nothing_is_sent_where_there_is_nothing_to_say() {
    let site = site().await;
    for path in ["/free", "/skipped"] {
        for (version, response) in site.get_over_each(path).await {
            assert_eq!((response.status, Fields::of(&response)), (200, Fields::none()), "{path}, {version}");
        }
    }
    site.dev.fault(Fault::Silent).await;
    for (path, status) in [("/open", 200), ("/closed", 429)] {
        for (version, response) in site.get_over_each(path).await {
            let told = (response.status, Fields::of(&response));
            assert_eq!(told, (status, Fields::none()), "{path}, {version}: no answer, no numbers");
            assert_eq!(response.header("X-Violated"), None, "{path}, {version}");
        }
    }
    site.nginx.finish().await;
}

/// The page's location decides which fields are sent; the values are those of the refusal.
#[tokio::test(flavor = "multi_thread")]
async fn t22_an_error_page_tells_what_the_refusal_told_over_each_version_of_http() {
    let site = site().await;
    site.dev.fault(Fault::Deficit { resource: 0, tokens: 2 }).await;
    for (path, status) in [("/page/plain", 429), ("/page/named", 429), ("/page/turned", 503)] {
        for (version, response) in site.get_over_each(path).await {
            let told = (response.status, Fields::of(&response));
            assert_eq!(told, (status, site.expected(NAMES, Some(24))), "{path}, {version}");
        }
    }
    for (version, response) in site.get_over_each("/page/silent").await {
        assert_eq!((response.status, response.header("X-Own")), (429, Some("yes")), "{version}");
        assert_eq!(Fields::of(&response), Fields::none(), "{version}: it has an add_header of its own");
    }
    site.nginx.finish().await;
}

/// What nginx makes of `add_header`, as docs/client-view.md says it.
#[tokio::test(flavor = "multi_thread")]
async fn t23_an_add_header_of_its_own_drops_the_inherited_ones() {
    let site = site().await;
    let own = site.get("/own").await;
    assert_eq!((own.header("X-Own"), Fields::of(&own)), (Some("yes"), Fields::none()));
    assert_eq!(site.dev.admissions().len(), 1);
    site.nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_an_upstreams_field_of_the_same_name_stays_unless_it_is_hidden() {
    let site = site().await;
    let values = |response: &Response| {
        let values = response.headers.get_all("RateLimit").into_iter();
        values.map(|value| value.to_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    let ours = "\"per_client\";r=4;t=60, \"hourly\";r=999;t=3600";
    assert_eq!(values(&site.get("/app").await), ["\"theirs\";r=1;t=1", ours]);
    assert_eq!(values(&site.get("/hidden?c=other").await), [ours]);
    site.nginx.finish().await;
}
