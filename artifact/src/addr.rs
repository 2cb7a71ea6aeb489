//! The three kinds of address. They are never mixed: each conversion goes
//! through a mapping (process to file) or a program header (file to link
//! time).

use serde::{Deserialize, Serialize};

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize,
            Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The address `offset` bytes further on, or `None` when that
            /// leaves the address space.
            #[must_use]
            pub fn checked_add(self, offset: u64) -> Option<Self> {
                self.0.checked_add(offset).map(Self)
            }

            /// The distance in bytes from `base` up to this address, or `None`
            /// when `base` lies above it.
            #[must_use]
            pub fn offset_from(self, base: Self) -> Option<u64> {
                self.0.checked_sub(base.0)
            }
        }

        impl std::fmt::LowerHex for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}

address! {
    /// Actual virtual memory address: an address in the running process.
    Avma
}
address! {
    /// Stated virtual memory address: an address as written in the file
    /// (`p_vaddr`, symbol values, DWARF and CFI addresses).
    Svma
}
address! {
    /// A position in a file, in bytes.
    FileOffset
}
