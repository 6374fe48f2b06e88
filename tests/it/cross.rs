//! The cross: what an admission does, over every protocol that nginx speaks. A test here is one behaviour; it asks for
//! the same over HTTP/1.1 (kept and pipelined), HTTP/2 (clear and TLS) and HTTP/3, and the status, the verdict in the
//! access log, the admissions at the development server and the bodies at the upstream must be the same each time.
//! What a behaviour is in detail is the subject of the other families; streams and their resets are those of `http2.rs`
//! and `http3.rs`.

mod bodies;
mod content;
mod limits;
mod protocol;
mod routing;
mod site;
