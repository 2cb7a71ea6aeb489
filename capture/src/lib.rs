//! The capture room.

mod arch;
pub mod elf;
pub mod site;
