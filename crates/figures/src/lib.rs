//! Scenarios and figures: what is simulated, and what comes out, as lines of results.

#![forbid(unsafe_code)]
