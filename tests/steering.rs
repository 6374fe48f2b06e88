//! A server asks for another source port.
