//! Stacks to physical frames, by unwind information.

mod arch;
mod evaluate;
mod memory;
mod rule;
mod site;
mod table;
mod tables;
mod walk;

pub(crate) use arch::Arch;
pub(crate) use site::PhysicalFrame;
pub(crate) use tables::Tables;
pub(crate) use walk::{Shared, Walker};
