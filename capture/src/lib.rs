//! Recording a running program into an artifact.
//!
//! This room starts the command, probes the allocators of whatever it maps,
//! drains what the BPF programs of `memtrack-bpf` send, and writes events,
//! stacks and modules through `memtrack-artifact`. It unwinds nothing, names
//! nothing and prints nothing.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # #[cfg(target_os = "linux")] {
//! use memtrack_capture::{Options, run};
//!
//! let options = Options {
//!     command: vec!["ls".into(), "-l".into()],
//!     ..Options::default()
//! };
//! let outcome = run(&options, &memtrack_artifact::Silent)?;
//! println!("{} allocations", outcome.counts.allocations);
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! A recording has threads of its own; [`run`] returns when they have ended.
//! It forks, so it is best called before the program has other threads. One
//! recording at a time per process: it takes signals.
//!
//! Off Linux the crate is empty.
#![cfg(target_os = "linux")]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arch;
mod attach;
mod clock;
mod counters;
mod detach;
pub mod doctor;
mod drain;
pub mod elf;
mod error;
mod file;
mod guardian;
pub mod harvest;
mod libbpf_log;
pub mod mappings;
mod options;
mod output;
mod parents;
mod probes;
mod programs;
mod ring;
mod run;
mod signals;
pub mod site;
mod spawn;
mod stops;
mod switches;
#[cfg(test)]
mod test_elf;
mod user;
mod writer;

pub use error::{Error, Result};
pub use harvest::DebugSearch;
pub use options::{MAX_STACK_BYTES, Options, StackMode};
pub use run::{Outcome, run};
pub use writer::Counts;
