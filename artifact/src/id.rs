//! Typed identifiers. Each indexes exactly one table, so that an id of one
//! table cannot be used on another by mistake.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in the table that this id indexes.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A distinct recorded stack. Ids are dense from 0 in the order in which
    /// capture first saw them; an id can be named by an event although its
    /// stack record was lost.
    StackId
}
id! {
    /// A keyed module of an artifact: the bytes of one distinct file.
    ModuleId
}
id! {
    /// A frame of the symbol file.
    FrameId
}
id! {
    /// A string of the symbol file's string table.
    StringId
}
id! {
    /// A process id as the kernel's initial pid namespace has it (a `tgid`).
    Pid
}
id! {
    /// A thread id as the kernel's initial pid namespace has it.
    Tid
}
