//! Layout 1. `FORMAT.md` describes it byte by byte; this module and its parts
//! are the only code that knows it.
//!
//! ```text
//! file  = preamble chunk*
//! chunk = header (56 bytes, with a checksum of its own) payload (checksummed)
//! ```

pub(crate) mod chunk;
pub(crate) mod codec;
pub(crate) mod events;
pub(crate) mod input;
pub(crate) mod preamble;
pub(crate) mod records;
pub(crate) mod stacks;
pub(crate) mod symbols;
pub(crate) mod words;
pub(crate) mod writer;

/// Sections of keyed modules.
pub(crate) mod section {
    /// Longest part of a section in one chunk: what a reader holds at once.
    pub(crate) const PART_BYTES: usize = 4 << 20;
    /// How many times longer than its stored bytes a section may be beyond
    /// [`FREE_BYTES`]: bounds what a small file can make a reader allocate.
    /// Debug information shrinks to a fifth, not to a sixty-fourth.
    pub(crate) const MAX_RATIO: usize = 64;
    /// A section of up to this many bytes may be of any ratio.
    pub(crate) const FREE_BYTES: usize = 32 << 20;
}

/// The kinds of chunk of both kinds of file. A reader skips a kind that it
/// does not know, and says so.
pub(crate) mod kind {
    /// [`Header`](crate::Header): always the first chunk of an artifact.
    pub(crate) const HEADER: u8 = 1;
    pub(crate) const EVENTS: u8 = 2;
    pub(crate) const STACKS: u8 = 3;
    /// Records of the module stream.
    pub(crate) const MODULE_RECORDS: u8 = 4;
    /// One keyed module's description.
    pub(crate) const MODULE: u8 = 5;
    /// A part of one section of a keyed module.
    pub(crate) const SECTION: u8 = 6;
    /// Files that could not be taken.
    pub(crate) const REFUSED: u8 = 7;
    /// [`Losses`](crate::Losses) so far; the last one counts.
    pub(crate) const LOSSES: u8 = 8;
    pub(crate) const ENDING: u8 = 9;
    /// Totals; always the last chunk of either kind of file.
    pub(crate) const FOOTER: u8 = 10;

    /// The first chunk of a symbol file: fingerprint and totals.
    pub(crate) const SYMBOLS: u8 = 32;
    pub(crate) const STRINGS: u8 = 33;
    pub(crate) const FRAMES: u8 = 34;
    pub(crate) const STACK_FRAMES: u8 = 35;
    pub(crate) const STACK_ENDS: u8 = 36;
    pub(crate) const AUDITS: u8 = 37;

    /// The name for people.
    pub(crate) fn name(kind: u8) -> &'static str {
        match kind {
            HEADER => "header",
            EVENTS => "events",
            STACKS => "stacks",
            MODULE_RECORDS => "module records",
            MODULE => "modules",
            SECTION => "sections",
            REFUSED => "refused modules",
            LOSSES => "losses",
            ENDING => "ending",
            FOOTER => "footer",
            SYMBOLS => "symbol header",
            STRINGS => "strings",
            FRAMES => "frames",
            STACK_FRAMES => "stack frames",
            STACK_ENDS => "stack ends",
            AUDITS => "audits",
            _ => "unknown",
        }
    }
}
