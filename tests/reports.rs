//! Guards and latency reports.
