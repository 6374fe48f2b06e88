//! An HTTP/1.1 server for `proxy_pass`: records each request with its whole body and answers as the test says.
//! Ends when it is dropped.

use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A request that arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Method.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// Header fields.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A response with this status and body.
    Respond(u16, Bytes),
    /// The same after a while.
    Late(Duration, u16, Bytes),
    /// The same once the test says so with `notify_one`, which may come first.
    When(Arc<Notify>, u16, Bytes),
    /// The connection is closed without a response.
    Close,
}

impl Answer {
    /// 200 with this body.
    pub fn ok(body: &str) -> Answer {
        Answer::Respond(200, Bytes::copy_from_slice(body.as_bytes()))
    }
}

/// A running server.
pub struct Upstream {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

type Decide = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

impl Upstream {
    /// Answers everything with 200 and this body.
    pub async fn ok(body: &'static str) -> Upstream {
        Upstream::start(move |_| Answer::ok(body)).await
    }

    /// Answers as `decide` says, on a port of its own.
    ///
    /// # Panics
    /// No port can be bound.
    pub async fn start(decide: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("an upstream can listen");
        let address = listener.local_addr().expect("it has an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(serve(listener, Arc::new(decide), seen.clone()));
        Upstream { address, seen, task }
    }

    /// Its address, for `proxy_pass http://{upstream}`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, decide: Decide, seen: Arc<Mutex<Vec<Seen>>>) {
    // The set ends its connections with this task.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(connection(stream, decide.clone(), seen.clone()));
    }
}

async fn connection(stream: TcpStream, decide: Decide, seen: Arc<Mutex<Vec<Seen>>>) {
    let service = service_fn(|request| answer(request, &decide, &seen));
    // A failure is a closed connection, which the other side notices by itself.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn answer(
    request: http::Request<Incoming>,
    decide: &Decide,
    seen: &Mutex<Vec<Seen>>,
) -> Result<http::Response<Full<Bytes>>, Failure> {
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or_else(String::new, ToString::to_string);
    let body = body.collect().await?.to_bytes();
    let arrived = Seen { method: head.method, target, headers: head.headers, body };
    let answer = decide(&arrived);
    lock(seen).push(arrived);
    let (status, body) = match answer {
        Answer::Respond(status, body) => (status, body),
        Answer::Late(delay, status, body) => {
            tokio::time::sleep(delay).await; // the late answer itself, nothing that a test waits for: no poll
            (status, body)
        }
        Answer::When(gate, status, body) => {
            gate.notified().await;
            (status, body)
        }
        Answer::Close => return Err("closed as the test asked".into()),
    };
    Ok(http::Response::builder().status(status).body(Full::new(body))?)
}

fn lock(seen: &Mutex<Vec<Seen>>) -> MutexGuard<'_, Vec<Seen>> {
    seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
