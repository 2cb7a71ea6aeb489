//! The capture room.

mod arch;
pub mod elf;
pub mod site;
#[cfg(test)]
mod test_elf;
