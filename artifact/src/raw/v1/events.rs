//! Chunks of events: a table of shapes, then columns.
//!
//! Every event has a *shape*: its kind, its flags and which of its fields are
//! not zero. A chunk lists its distinct shapes (a handful) and has one byte
//! per event that names its shape. A column then holds only the values that
//! are there, as sized words: a `free` costs nothing in the columns of sizes,
//! durations and stacks.
//!
//! | column | a value is |
//! |---|---|
//! | shape | one byte |
//! | thread | pid and tid of each distinct thread, alternating |
//! | run thread, run length | which thread, for how many events |
//! | time | zigzag difference of `time_ns` to the event before, without its low byte |
//! | time low | that low byte: noise, which is stored as it is |
//! | duration | `time_ns - start_ns` |
//! | address | by shape: how many events back the same address was ("back"); else the zigzag difference to the same thread's address before, divided by 16 unless "odd" |
//! | size, alignment | as it is |
//! | old address | zigzag difference to `address` |
//! | stack | as it is |

mod decode;
mod encode;
mod table;

pub(crate) use decode::Scratch;
pub(crate) use encode::EventEncoder;
pub(crate) use table::EventTable;

/// Most events of a chunk; what a reader may have to allocate for one is
/// about 70 bytes times this.
pub(crate) const MAX_EVENTS: usize = 1 << 17;
/// Events after which a writer begins a new chunk: large enough for zstd and
/// for the cost of a chunk, small enough that a killed capture loses little
/// and that decoded columns stay in a core's cache.
pub(crate) const TARGET_EVENTS: usize = 1 << 16;
/// Most shapes of a chunk: one byte names one.
pub(crate) const MAX_SHAPES: usize = 256;

/// Which fields of an event are stored, by bit of its shape's mask.
pub(crate) mod field {
    /// `start_ns` differs from `time_ns`.
    pub(crate) const DURATION: u16 = 1;
    pub(crate) const ADDRESS: u16 = 2;
    /// The address differs from the one before by no multiple of 16.
    pub(crate) const ODD: u16 = 4;
    pub(crate) const SIZE: u16 = 8;
    pub(crate) const OLD_ADDRESS: u16 = 16;
    pub(crate) const ALIGNMENT: u16 = 32;
    /// The event has a stack id (which may be 0).
    pub(crate) const STACK: u16 = 64;
    /// The address is that of an earlier event of the chunk: most blocks are
    /// freed soon, and what was freed is soon given out again.
    pub(crate) const BACK: u16 = 128;
}

/// The columns' numbers on disk.
pub(crate) mod column {
    pub(crate) const SHAPE: u8 = 0;
    pub(crate) const THREAD: u8 = 1;
    pub(crate) const RUN_THREAD: u8 = 2;
    pub(crate) const RUN_LENGTH: u8 = 3;
    pub(crate) const TIME: u8 = 4;
    pub(crate) const DURATION: u8 = 5;
    pub(crate) const ADDRESS: u8 = 6;
    pub(crate) const SIZE: u8 = 7;
    pub(crate) const OLD_ADDRESS: u8 = 8;
    pub(crate) const ALIGNMENT: u8 = 9;
    pub(crate) const STACK: u8 = 10;
    pub(crate) const TIME_LOW: u8 = 11;
    /// Number of columns of this version.
    pub(crate) const COUNT: usize = 12;
}

/// What an address is divided by, as a power of two: allocators align to 16.
pub(crate) const ADDRESS_SHIFT: u32 = 4;
