//! The copied part of a stack, and what lies outside it.

use memtrack_artifact::{StackRecord, Termination};

/// How far past the end of a copy of unknown length an address can be and
/// still be taken for the same stack: the usual limit of a stack's size.
const PLAUSIBLE_BYTES: u64 = 8 << 20;

/// Reads words of a copied stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'a> {
    start: u64,
    bytes: &'a [u8],
    /// Length of the whole stack from `start`, 0 when unknown.
    available_bytes: u64,
}

/// Why a word could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Below the stack pointer: nothing is ever copied from there.
    Below,
    /// Past the end of the copy, but on the same stack as far as is known.
    Short {
        /// Bytes past the end of the copy, the word's end included.
        needed_bytes: u64,
    },
    /// Elsewhere.
    Outside,
}

impl From<Fault> for Termination {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Short { needed_bytes } => Self::CopyTooShort { needed_bytes },
            Fault::Below | Fault::Outside => Self::ReadFailed,
        }
    }
}

impl<'a> Window<'a> {
    /// The window of a record.
    pub(crate) fn new(record: &StackRecord<'a>) -> Self {
        Self {
            start: record.stack_pointer.0,
            bytes: record.window,
            available_bytes: record.available_bytes,
        }
    }

    /// The word at `address`, little-endian.
    #[inline]
    pub(crate) fn word(&self, address: u64) -> Result<u64, Fault> {
        let at = address.wrapping_sub(self.start);
        match usize::try_from(at)
            .ok()
            .and_then(|at| self.bytes.get(at..)?.first_chunk())
        {
            Some(word) => Ok(u64::from_le_bytes(*word)),
            None => Err(self.fault(address)),
        }
    }

    /// `size` bytes (1 to 8) at `address` as an unsigned number.
    pub(crate) fn unsigned(&self, address: u64, size: u8) -> Result<u64, Fault> {
        let at = address.wrapping_sub(self.start);
        let size = usize::from(size.clamp(1, 8));
        let bytes = usize::try_from(at)
            .ok()
            .and_then(|at| self.bytes.get(at..)?.get(..size));
        let Some(bytes) = bytes else {
            return Err(self.fault(address));
        };
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = *from;
        }
        Ok(u64::from_le_bytes(word))
    }

    #[cold]
    fn fault(&self, address: u64) -> Fault {
        let Some(at) = address.checked_sub(self.start) else {
            return Fault::Below;
        };
        let copied = self.bytes.len() as u64;
        let Some(end) = at.checked_add(8) else {
            return Fault::Outside;
        };
        let limit = if self.available_bytes == 0 {
            copied.saturating_add(PLAUSIBLE_BYTES)
        } else {
            self.available_bytes
        };
        if end <= limit {
            Fault::Short {
                needed_bytes: end.saturating_sub(copied),
            }
        } else {
            Fault::Outside
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(bytes: &[u8], available_bytes: u64) -> Window<'_> {
        Window {
            start: 0x1000,
            bytes,
            available_bytes,
        }
    }

    #[test]
    fn words_are_read_up_to_the_last_whole_one() {
        let bytes: Vec<u8> = (0..20).collect();
        let window = window(&bytes, 20);
        assert_eq!(window.word(0x1000), Ok(0x0706_0504_0302_0100));
        assert_eq!(window.word(0x100c), Ok(0x1312_1110_0f0e_0d0c));
        assert_eq!(window.word(0x100d), Err(Fault::Outside));
        assert_eq!(window.unsigned(0x1013, 1), Ok(0x13));
        assert_eq!(window.unsigned(0x1012, 2), Ok(0x1312));
    }

    #[test]
    fn a_cut_copy_says_how_much_more_was_wanted() {
        let window = window(&[0; 16], 64);
        assert_eq!(window.word(0x1010), Err(Fault::Short { needed_bytes: 8 }));
        assert_eq!(window.word(0x1038), Err(Fault::Short { needed_bytes: 48 }));
        assert_eq!(window.word(0x1039), Err(Fault::Outside));
    }

    #[test]
    fn a_copy_of_unknown_stack_length_takes_near_addresses_for_its_own() {
        let window = window(&[0; 16], 0);
        assert!(matches!(window.word(0x9000), Err(Fault::Short { .. })));
        assert_eq!(window.word(0x1000 + (9 << 20)), Err(Fault::Outside));
        assert_eq!(window.word(u64::MAX - 3), Err(Fault::Outside));
    }

    #[test]
    fn below_the_stack_pointer_nothing_was_copied() {
        assert_eq!(window(&[0; 16], 16).word(0xff8), Err(Fault::Below));
    }
}
