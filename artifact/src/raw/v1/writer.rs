//! Writing a file: preamble, then chunks one after another.

use super::{
    chunk::{ChunkHeader, HEADER_BYTES, MAX_CHUNKS, MAX_RAW_BYTES, checksum},
    codec::{Codec, Packer},
    kind,
    preamble::{PREAMBLE_BYTES, Preamble},
};
use crate::error::{Error, Result};
use std::io::Write;

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
                kind::name(draft.kind)
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
