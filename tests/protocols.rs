//! HTTP/2 and HTTP/3 streams, bodies and pipelining.
