//! Servers that are silent, wrong or gone, and what the failure policy makes of it.
