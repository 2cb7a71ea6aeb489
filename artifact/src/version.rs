//! The format's version and its history.
//!
//! | version | since | what changed |
//! |---|---|---|
//! | 1 | 0.1.0 | first |

/// The version this build writes.
pub const FORMAT_VERSION: u16 = 1;
