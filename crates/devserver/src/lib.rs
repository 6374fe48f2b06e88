//! A RateLimitly-compatible development server, for trying and testing; it is not the RateLimitly service.
#![forbid(unsafe_code)]
