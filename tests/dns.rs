//! Discovery through nginx: missing, wrong, silent and changing DNS.
