//! Internal redirects, error pages, subrequests and upstream retries beside one admission.
