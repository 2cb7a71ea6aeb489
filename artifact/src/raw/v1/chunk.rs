//! The container: preamble, chunk headers, checksums, compression.

use super::input::{Broken, Input, Parsed};
use crate::error::{Error, Result};
use std::io::Write;
use twox_hash::XxHash3_64;
use zstd::bulk::{Compressor, Decompressor};

/// Length of the file's preamble in bytes.
pub(crate) const PREAMBLE_BYTES: usize = 24;
/// Length of a chunk's header in bytes.
pub(crate) const HEADER_BYTES: usize = 56;
/// Begins every chunk.
pub(crate) const CHUNK_MAGIC: [u8; 4] = *b"MtCk";
/// Longest payload before compression: what a reader may have to allocate.
pub(crate) const MAX_RAW_BYTES: usize = 16 << 20;
/// Longest payload as stored. A writer stores raw what does not shrink.
pub(crate) const MAX_STORED_BYTES: usize = MAX_RAW_BYTES;
/// Most chunks of a file, so that an index of them stays small.
pub(crate) const MAX_CHUNKS: usize = 1 << 21;
/// zstd level. Level 3 gains nothing on columns and 3 % on stacks, and takes
/// half as long again.
const LEVEL: i32 = 1;

/// The checksum of the format: XXH3, 64 bits, no seed.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

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

/// What a chunk's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    /// See [`kind`](super::kind).
    pub(crate) kind: u8,
    /// See [`Codec`].
    pub(crate) codec: u8,
    /// 0 in this version; readers ignore it.
    pub(crate) flags: u16,
    /// Position in the file, from 0: tells dropped, doubled and moved chunks.
    pub(crate) sequence: u32,
    /// Number of records.
    pub(crate) count: u32,
    /// Bytes of payload that follow.
    pub(crate) stored_bytes: u32,
    /// Bytes of payload before compression.
    pub(crate) raw_bytes: u32,
    /// By kind: events: earliest `start_ns`; stacks: lowest id; module: its
    /// id; section: module id << 32 | section.
    pub(crate) first: u64,
    /// By kind: events: latest `time_ns`; stacks: highest id; section: where
    /// in the section this part begins.
    pub(crate) last: u64,
    /// Of the stored payload.
    pub(crate) checksum: u64,
}

impl ChunkHeader {
    pub(crate) fn encode(&self, salt: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&CHUNK_MAGIC);
        bytes[4] = self.kind;
        bytes[5] = self.codec;
        bytes[6..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.raw_bytes.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.last.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.checksum.to_le_bytes());
        let check = XxHash3_64::oneshot_with_seed(salt, &bytes[..48]);
        bytes[48..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// The header that begins at `offset`, if one with the right checksum
    /// does.
    pub(crate) fn at(bytes: &[u8], offset: u64, salt: u64) -> Option<Self> {
        let offset = usize::try_from(offset).ok()?;
        let bytes = bytes.get(offset..)?.first_chunk::<HEADER_BYTES>()?;
        let (head, check) = bytes.split_at(48);
        let mut input = Input(head.strip_prefix(&CHUNK_MAGIC)?);
        if XxHash3_64::oneshot_with_seed(salt, head).to_le_bytes() != check {
            return None;
        }
        Some(Self {
            kind: input.u8().ok()?,
            codec: input.u8().ok()?,
            flags: input.u16().ok()?,
            sequence: input.u32().ok()?,
            count: input.u32().ok()?,
            stored_bytes: input.u32().ok()?,
            raw_bytes: input.u32().ok()?,
            first: input.u64().ok()?,
            last: input.u64().ok()?,
            checksum: input.u64().ok()?,
        })
    }

    /// Where the chunk that begins at `offset` ends.
    pub(crate) fn end(&self, offset: u64) -> Option<u64> {
        offset.checked_add(HEADER_BYTES as u64 + u64::from(self.stored_bytes))
    }

    /// The stored payload of the chunk that begins at `offset`.
    pub(crate) fn payload<'a>(&self, bytes: &'a [u8], offset: u64) -> Option<&'a [u8]> {
        let end = usize::try_from(self.end(offset)?).ok()?;
        bytes.get(end.checked_sub(self.stored_bytes as usize)?..end)
    }

    /// Whether the lengths are within the format's limits.
    pub(crate) fn check_limits(&self) -> Parsed<()> {
        let (raw, stored) = (self.raw_bytes as usize, self.stored_bytes as usize);
        if raw > MAX_RAW_BYTES || stored > MAX_STORED_BYTES {
            return Err(Broken(format!(
                "a chunk of {stored} bytes ({raw} unpacked) is longer than the format allows"
            )));
        }
        Ok(())
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

/// Writes a file: preamble, then chunks one after another.
pub(crate) struct ChunkWriter<W> {
    sink: W,
    salt: u64,
    offset: u64,
    sequence: u32,
    pub(crate) packer: Packer,
}

/// A chunk to be written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) kind: u8,
    pub(crate) count: u32,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl<W: Write> ChunkWriter<W> {
    /// Begins a file.
    pub(crate) fn new(mut sink: W, magic: [u8; 8], preamble: Preamble) -> Result<Self> {
        sink.write_all(&preamble.encode(magic))
            .map_err(|source| Error::Write { offset: 0, source })?;
        Ok(Self {
            sink,
            salt: preamble.salt,
            offset: PREAMBLE_BYTES as u64,
            sequence: 0,
            packer: Packer::new().map_err(|source| Error::Write { offset: 0, source })?,
        })
    }

    /// Bytes written so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Chunks written so far.
    pub(crate) fn chunks(&self) -> u32 {
        self.sequence
    }

    /// Writes a chunk, compressed if that makes it shorter.
    pub(crate) fn write(&mut self, draft: Draft, raw: &[u8]) -> Result<()> {
        self.write_within(draft, raw, usize::MAX)
    }

    /// The same, unless it would become more than `ratio` times shorter: then
    /// it is stored as it is.
    pub(crate) fn write_within(&mut self, draft: Draft, raw: &[u8], ratio: usize) -> Result<()> {
        let mut packed = std::mem::take(&mut self.packer.buffer);
        let (mut codec, mut stored) = self.packer.pack(raw, &mut packed);
        if stored.len().saturating_mul(ratio) < raw.len() {
            (codec, stored) = (Codec::Stored, raw);
        }
        let result = self.write_packed(draft, raw.len(), codec, stored);
        self.packer.buffer = packed;
        result
    }

    /// Writes a chunk as it is.
    pub(crate) fn write_stored(&mut self, draft: Draft, raw: &[u8]) -> Result<()> {
        self.write_packed(draft, raw.len(), Codec::Stored, raw)
    }

    fn write_packed(
        &mut self,
        draft: Draft,
        raw_bytes: usize,
        codec: Codec,
        stored: &[u8],
    ) -> Result<()> {
        let refuse = |what: String| Error::Write {
            offset: self.offset,
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, what),
        };
        if raw_bytes > MAX_RAW_BYTES {
            return Err(refuse(format!(
                "a {} chunk of {raw_bytes} bytes is longer than the format allows \
                 ({MAX_RAW_BYTES})",
                super::kind::name(draft.kind)
            )));
        }
        if self.sequence as usize >= MAX_CHUNKS {
            return Err(refuse(format!(
                "the artifact has {MAX_CHUNKS} chunks, the most that the format allows"
            )));
        }
        let header = ChunkHeader {
            kind: draft.kind,
            codec: codec as u8,
            flags: 0,
            sequence: self.sequence,
            count: draft.count,
            stored_bytes: stored.len() as u32,
            raw_bytes: raw_bytes as u32,
            first: draft.first,
            last: draft.last,
            checksum: checksum(stored),
        };
        let offset = self.offset;
        let failed = |source| Error::Write { offset, source };
        self.sink
            .write_all(&header.encode(self.salt))
            .map_err(failed)?;
        self.sink.write_all(stored).map_err(failed)?;
        self.offset += (HEADER_BYTES + stored.len()) as u64;
        self.sequence += 1;
        Ok(())
    }

    /// Hands what is written to the operating system.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let offset = self.offset;
        self.sink
            .flush()
            .map_err(|source| Error::Write { offset, source })
    }

    /// Ends the file.
    pub(crate) fn into_sink(mut self) -> Result<W> {
        self.flush()?;
        Ok(self.sink)
    }
}

/// Compresses payloads; its memory is reused.
pub(crate) struct Packer {
    zstd: Compressor<'static>,
    /// For whole payloads.
    buffer: Vec<u8>,
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
