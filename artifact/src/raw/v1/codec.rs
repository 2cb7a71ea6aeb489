//! Compression of payloads and of columns within them.

use super::{
    chunk::MAX_RAW_BYTES,
    input::{Broken, Parsed},
};
use zstd::bulk::{Compressor, Decompressor};

/// zstd level. Measured with the bench: level 3 makes columns 1 % longer,
/// stacks 5 % and a libc 9 % shorter, at 85, 84 and 52 % of the speed; level
/// -1, which has no Huffman coding, makes columns 23 % longer for 10 % speed.
const LEVEL: i32 = 1;

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Codec {
    Stored = 0,
    Zstd = 1,
}

impl Codec {
    pub(crate) fn from_byte(byte: u8) -> Parsed<Self> {
        match byte {
            0 => Ok(Self::Stored),
            1 => Ok(Self::Zstd),
            _ => Err(Broken(format!(
                "compression {byte} is not known; use a newer memtrack"
            ))),
        }
    }
}

/// Decompresses payloads; its memory is taken at the first use, and reused.
#[derive(Default)]
pub(crate) struct Unpacker(Option<Decompressor<'static>>);

impl Unpacker {
    fn zstd(&mut self) -> Parsed<&mut Decompressor<'static>> {
        if self.0.is_none() {
            let started = Decompressor::new();
            self.0 = Some(started.map_err(|error| Broken(format!("zstd cannot start: {error}")))?);
        }
        self.0.as_mut().ok_or_else(|| "zstd is not there".into())
    }

    /// The bytes before compression, which must be exactly `raw_bytes` many:
    /// borrowed from `stored`, or in `buffer`. The buffer's capacity bounds
    /// what zstd may write, whatever the stored bytes say.
    pub(crate) fn unpack<'a>(
        &mut self,
        codec: u8,
        stored: &'a [u8],
        raw_bytes: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Parsed<&'a [u8]> {
        if raw_bytes > MAX_RAW_BYTES {
            return Err(Broken(format!(
                "{raw_bytes} bytes are more than the format allows"
            )));
        }
        let bytes = match Codec::from_byte(codec)? {
            Codec::Stored => stored,
            Codec::Zstd => {
                buffer.clear();
                buffer.reserve(raw_bytes);
                self.zstd()?
                    .decompress_to_buffer(stored, buffer)
                    .map_err(|error| Broken(format!("the zstd data are broken: {error}")))?;
                buffer
            }
        };
        if bytes.len() == raw_bytes {
            Ok(bytes)
        } else {
            Err(Broken(format!(
                "{} bytes where {raw_bytes} were expected",
                bytes.len()
            )))
        }
    }
}

/// Compresses payloads; its memory is reused.
pub(crate) struct Packer {
    zstd: Compressor<'static>,
    /// For whole payloads.
    pub(super) buffer: Vec<u8>,
    /// For columns within a payload.
    pub(crate) scratch: Vec<u8>,
}

impl Packer {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            zstd: Compressor::new(LEVEL)?,
            buffer: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Compresses `raw` into `buffer` if that saves at least a sixteenth.
    pub(crate) fn pack<'a>(&mut self, raw: &'a [u8], buffer: &'a mut Vec<u8>) -> (Codec, &'a [u8]) {
        buffer.clear();
        buffer.reserve(zstd::zstd_safe::compress_bound(raw.len()));
        // A failure to compress is no failure to write: the bytes are then
        // stored as they are.
        match self.zstd.compress_to_buffer(raw, buffer) {
            Ok(len) if len + raw.len() / 16 < raw.len() => (Codec::Zstd, buffer),
            _ => (Codec::Stored, raw),
        }
    }
}
