//! Stacks to physical frames, by unwind information.

mod arch;
mod evaluate;
mod memory;
mod rule;
mod table;
mod tables;
mod walk;

pub(crate) use arch::Arch;
pub(crate) use tables::Tables;
pub(crate) use walk::{PhysicalFrame, Shared, Walker};
