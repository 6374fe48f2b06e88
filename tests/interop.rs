//! The official client and nginx against one development server.
