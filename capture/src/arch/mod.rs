//! What differs between processors: which instructions the kernel emulates
//! under a probe, and where arguments are.

pub(crate) mod aarch64;
pub(crate) mod x86_64;
mod x86_values;
