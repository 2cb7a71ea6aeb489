//! The capture room.

mod arch;
pub mod elf;
mod file;
pub mod harvest;
pub mod mappings;
pub mod site;
#[cfg(test)]
mod test_elf;
