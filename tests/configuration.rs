//! What `nginx -t` accepts and refuses, and with which message.
