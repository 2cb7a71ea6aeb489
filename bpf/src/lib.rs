//! The kernel side of memtrack: BPF programs, compiled into a skeleton, and
//! the layout of the records that they send.
//!
//! This room knows how a record looks and how a probe's cookie is made up. It
//! loads nothing and reads no ring: that is the work of `memtrack-capture`.
//! The C sources stand beside this crate's manifest; `README.md` there lists
//! programs and maps.
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use memtrack_bpf::{Cookie, record};
//!
//! // free(rdi), probed where nothing has been pushed yet.
//! let cookie = Cookie { kind: 16, argument_registers: [5, 0, 0], ..Cookie::default() };
//! assert_eq!(cookie.encode(), 0x0510);
//! // A record that is too short is no record.
//! assert!(record::Event::read(&[0; 8]).is_none());
//! # }
//! ```
//!
//! Everything here but the skeleton is plain data, to be shared at will.
#![cfg(target_os = "linux")]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cookie;
pub mod record;

pub use cookie::Cookie;

/// The generated skeleton.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_code,
    unsafe_op_in_unsafe_fn
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/memtrack.skel.rs"));
}

pub use generated::*;
