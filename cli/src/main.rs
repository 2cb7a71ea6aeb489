//! The memtrack program.
fn main() {}
