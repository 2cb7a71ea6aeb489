//! What begins a file.

use super::{
    chunk::checksum,
    input::{Broken, Input},
};
use crate::error::{Error, Result};

/// Length of the file's preamble in bytes.
pub(crate) const PREAMBLE_BYTES: usize = 24;

/// What begins a file: `magic[8] version:u16 0:u16 salt:u64 check:u32`. This
/// layout is the same in every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preamble {
    pub(crate) version: u16,
    /// Goes into every chunk header's checksum, so that chunks of another
    /// file, or inside a payload, are never taken for this file's own.
    pub(crate) salt: u64,
}

impl Preamble {
    pub(crate) fn encode(self, magic: [u8; 8]) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..8].copy_from_slice(&magic);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.salt.to_le_bytes());
        let check = checksum(&bytes[..20]) as u32;
        bytes[20..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads the preamble of the file `name`, which should be an `expected`.
    pub(crate) fn parse(
        name: &str,
        bytes: &[u8],
        magic: [u8; 8],
        expected: &'static str,
    ) -> Result<Self> {
        if !bytes.starts_with(&magic) {
            return Err(Error::NotOurs {
                name: name.to_owned(),
                expected,
                found: bytes.iter().copied().take(magic.len()).collect(),
            });
        }
        let parse = || {
            let head = bytes
                .get(..20)
                .ok_or("the file ends inside its first 24 bytes")?;
            let mut input = Input(&bytes[8..]);
            let version = input.u16()?;
            input.u16()?;
            let salt = input.u64()?;
            if input.u32()? != checksum(head) as u32 {
                return Err("the checksum of the first 24 bytes does not match".into());
            }
            Ok(Self { version, salt })
        };
        parse().map_err(|Broken(what)| Error::Malformed {
            name: name.to_owned(),
            offset: 0,
            what,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 8] = *b"12345678";

    #[test]
    fn what_is_written_is_read() {
        let preamble = Preamble {
            version: 0x1234,
            salt: u64::MAX - 7,
        };
        let bytes = preamble.encode(MAGIC);
        let read = Preamble::parse("t", &bytes, MAGIC, "thing").unwrap();
        assert_eq!(read, preamble);
    }

    #[test]
    fn every_changed_bit_is_an_error() {
        let preamble = Preamble {
            version: 1,
            salt: 99,
        };
        for bit in 0..8 * PREAMBLE_BYTES {
            let mut bytes = preamble.encode(MAGIC);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Preamble::parse("t", &bytes, MAGIC, "thing").is_err(),
                "{bit}"
            );
        }
    }
}
