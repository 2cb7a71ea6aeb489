//! Sized words: a stream of `u64` values, each stored in as few bytes as it
//! needs, with the lengths kept apart from the bytes.
//!
//! ```text
//! values   0x00  0x1234  0x7f
//! lengths     0       2     1      control: 20 01   (low nibble first)
//! bytes          34 12   7f       data:    34 12 7f
//! ```
//!
//! A LEB128 stream would be as short, but its decoder mispredicts a branch at
//! nearly every change of length; here a value is one load, one mask and one
//! addition. The lengths, being apart, also compress well.

use super::input::{Broken, Input, Parsed};

/// Longest word in bytes.
const MAX_LEN: u8 = 8;

/// The mask that keeps the low `n` bytes.
const MASKS: [u64; 16] = {
    let mut masks = [u64::MAX; 16];
    let mut len = 0;
    while len < 8 {
        masks[len] = (1 << (8 * len)) - 1;
        len += 1;
    }
    masks
};

/// Maps small negative and positive differences to small numbers.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The zigzag code of `to - from`, which wraps.
pub(crate) fn difference(from: u64, to: u64) -> u64 {
    zigzag(to.wrapping_sub(from) as i64)
}

/// The inverse of [`difference`].
pub(crate) fn apply(from: u64, difference: u64) -> u64 {
    from.wrapping_add(unzigzag(difference) as u64)
}

/// How many bytes a value takes in the data of a stream.
#[inline]
pub(crate) fn word_bytes(value: u64) -> u8 {
    (64 - value.leading_zeros()).div_ceil(8) as u8
}

/// Gathers a stream.
#[derive(Debug, Default)]
pub(crate) struct WordWriter {
    control: Vec<u8>,
    /// Zero-filled beyond `len`, so that a value is one store of 8 bytes.
    data: Vec<u8>,
    len: usize,
    count: u32,
}

impl WordWriter {
    /// Appends a value.
    #[inline]
    pub(crate) fn push(&mut self, value: u64) {
        let bytes = word_bytes(value);
        if self.data.len() < self.len + 8 {
            self.data.resize((self.data.len() * 2).max(1024), 0);
        }
        self.data[self.len..self.len + 8].copy_from_slice(&value.to_le_bytes());
        self.len += bytes as usize;
        match self.control.last_mut() {
            Some(last) if self.count % 2 == 1 => *last |= bytes << 4,
            _ => self.control.push(bytes),
        }
        self.count += 1;
    }

    /// Number of values.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The lengths.
    pub(crate) fn control(&self) -> &[u8] {
        &self.control
    }

    /// The bytes.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data[..self.len]
    }

    /// Forgets the values and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.control.clear();
        self.len = 0;
        self.count = 0;
    }

    /// Appends the whole stream to `out`, to be read by [`Words::parse`].
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&(self.len as u32).to_le_bytes());
        out.extend_from_slice(&self.control);
        out.extend_from_slice(self.data());
    }
}

/// Reads a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Words<'a> {
    control: &'a [u8],
    data: &'a [u8],
    index: usize,
    count: usize,
    position: usize,
}

impl<'a> Words<'a> {
    /// A stream of `count` values. The lengths must be valid and add up to
    /// the length of `data`.
    pub(crate) fn new(control: &'a [u8], data: &'a [u8], count: usize) -> Parsed<Self> {
        if control.len() != count.div_ceil(2) {
            return Err("a stream's control bytes do not match its count".into());
        }
        let mut sum = 0usize;
        let mut valid = true;
        for &byte in control {
            let (low, high) = (byte & 15, byte >> 4);
            valid &= low <= MAX_LEN && high <= MAX_LEN;
            sum += usize::from(low) + usize::from(high);
        }
        if count % 2 == 1 && control.last().is_some_and(|byte| byte >> 4 != 0) {
            valid = false;
        }
        if !valid || sum != data.len() {
            return Err("a stream's lengths do not match its bytes".into());
        }
        Ok(Self {
            control,
            data,
            index: 0,
            count,
            position: 0,
        })
    }

    /// Reads what [`WordWriter::write_to`] wrote.
    pub(crate) fn parse(input: &mut Input<'a>) -> Parsed<Self> {
        let count = input.u32()? as usize;
        let len = input.u32()? as usize;
        let control = input.take(count.div_ceil(2))?;
        let data = input.take(len)?;
        Self::new(control, data, count)
    }

    /// Values left.
    pub(crate) fn remaining(&self) -> usize {
        self.count - self.index
    }

    /// Fails unless the stream has exactly `count` values left.
    pub(crate) fn expect(self, count: usize) -> Parsed<Self> {
        if self.remaining() == count {
            Ok(self)
        } else {
            Err(Broken(format!(
                "a stream of {} values where {count} were expected",
                self.remaining()
            )))
        }
    }

    /// The next value if `present` is 1, else 0 without advancing. Without a
    /// branch on `present`, which alternates unpredictably in event streams.
    /// Past the end it gives zeros.
    #[inline(always)]
    pub(crate) fn next_if(&mut self, present: u8) -> u64 {
        let control = self.control.get(self.index >> 1).copied().unwrap_or(0);
        let len = (control >> ((self.index & 1) * 4)) & 15 & 0u8.wrapping_sub(present);
        let word = match self.data.get(self.position..).map(<[u8]>::first_chunk::<8>) {
            Some(Some(bytes)) => u64::from_le_bytes(*bytes),
            _ => self.tail(),
        };
        self.index += usize::from(present);
        self.position += usize::from(len);
        word & MASKS[usize::from(len)]
    }

    /// The last, fewer than 8 bytes of the stream.
    #[cold]
    fn tail(&self) -> u64 {
        let mut bytes = [0; 8];
        let rest = self.data.get(self.position..).unwrap_or_default();
        for (to, from) in bytes.iter_mut().zip(rest) {
            *to = *from;
        }
        u64::from_le_bytes(bytes)
    }
}

impl Iterator for Words<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        (self.index < self.count).then(|| self.next_if(1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining(), Some(self.remaining()))
    }
}

impl ExactSizeIterator for Words<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_values_come_back(values: Vec<u64>, shift in 0u32..64) {
            let values: Vec<u64> = values.into_iter().map(|value| value >> shift).collect();
            let mut writer = WordWriter::default();
            values.iter().for_each(|&value| writer.push(value));
            let mut bytes = Vec::new();
            writer.write_to(&mut bytes);
            let mut input = Input(&bytes);
            let words = Words::parse(&mut input).unwrap();
            prop_assert!(input.is_empty());
            prop_assert_eq!(words.collect::<Vec<_>>(), values);
        }

        #[test]
        fn any_bytes_are_safe(bytes: Vec<u8>) {
            if let Ok(words) = Words::parse(&mut Input(&bytes)) {
                prop_assert_eq!(words.count(), words.remaining());
            }
        }

        #[test]
        fn differences_come_back(from: u64, to: u64) {
            prop_assert_eq!(apply(from, difference(from, to)), to);
        }
    }

    #[test]
    fn lengths_above_eight_are_refused() {
        assert!(Words::new(&[9], &[0; 9], 1).is_err());
        assert!(Words::new(&[0x11], &[1, 2], 1).is_err());
        assert!(Words::new(&[1], &[1, 2], 1).is_err());
        assert!(Words::new(&[1], &[1], 1).is_ok());
    }
}
