//! Values rendered for one request: exact bytes, limits, and what is refused.
