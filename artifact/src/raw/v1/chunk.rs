//! A chunk: its header, its limits, its checksum.

use super::input::{Broken, Input, Parsed};
use twox_hash::XxHash3_64;

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
/// The checksum of the format: XXH3, 64 bits, no seed.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
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
