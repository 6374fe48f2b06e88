//! The shared object, the examples, and the documentation beside the source.
