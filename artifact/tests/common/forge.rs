//! Files that no writer writes, made by hand from `FORMAT.md`: an
//! implementation of the container that shares no code with the library.

use std::io::Write;
use twox_hash::XxHash3_64;

/// A chunk's header and payload, to be changed at will.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) kind: u8,
    pub(crate) codec: u8,
    pub(crate) count: u32,
    pub(crate) raw_bytes: u32,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) payload: Vec<u8>,
}

impl Chunk {
    /// An uncompressed chunk.
    pub(crate) fn stored(kind: u8, count: u32, payload: Vec<u8>) -> Self {
        Self {
            kind,
            codec: 0,
            count,
            raw_bytes: payload.len() as u32,
            first: 0,
            last: 0,
            payload,
        }
    }

    /// A compressed chunk.
    pub(crate) fn packed(kind: u8, count: u32, raw: &[u8]) -> Self {
        Self {
            codec: 1,
            raw_bytes: raw.len() as u32,
            ..Self::stored(kind, count, zstd::bulk::compress(raw, 1).unwrap())
        }
    }
}

/// Preamble with any version and salt.
pub(crate) fn preamble(version: u16, salt: u64) -> Vec<u8> {
    let mut bytes = b"\x8fMTK\r\n\x1a\n".to_vec();
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&salt.to_le_bytes());
    let check = XxHash3_64::oneshot(&bytes) as u32;
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes
}

/// A chunk's bytes at a position of the file.
pub(crate) fn chunk(salt: u64, sequence: u32, chunk: &Chunk) -> Vec<u8> {
    let mut bytes = b"MtCk".to_vec();
    bytes.extend_from_slice(&[chunk.kind, chunk.codec, 0, 0]);
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(&chunk.count.to_le_bytes());
    bytes.extend_from_slice(&(chunk.payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&chunk.raw_bytes.to_le_bytes());
    bytes.extend_from_slice(&chunk.first.to_le_bytes());
    bytes.extend_from_slice(&chunk.last.to_le_bytes());
    bytes.extend_from_slice(&XxHash3_64::oneshot(&chunk.payload).to_le_bytes());
    let check = XxHash3_64::oneshot_with_seed(salt, &bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes.extend_from_slice(&chunk.payload);
    bytes
}

/// A record with its length before it.
pub(crate) fn record<T: serde::Serialize>(record: &T) -> Vec<u8> {
    let bytes = rmp_serde::to_vec_named(record).unwrap();
    [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
}

/// A file of the test header and the given chunks, without a footer.
pub(crate) fn file<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_file(&mut bytes, chunks);
    bytes
}

/// The same, to a writer.
pub(crate) fn write_file<'a>(mut sink: impl Write, chunks: impl IntoIterator<Item = &'a Chunk>) {
    const SALT: u64 = 77;
    sink.write_all(&preamble(1, SALT)).unwrap();
    let header = Chunk::stored(1, 1, record(&super::header()));
    sink.write_all(&chunk(SALT, 0, &header)).unwrap();
    for (sequence, one) in (1..).zip(chunks) {
        sink.write_all(&chunk(SALT, sequence, one)).unwrap();
    }
    sink.flush().unwrap();
}

/// The chunks of a whole file, with their payloads before compression, and
/// the file's salt.
pub(crate) fn take_apart(bytes: &[u8]) -> (u64, Vec<Chunk>) {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let mut chunks = Vec::new();
    let mut offset = 24;
    while offset < bytes.len() {
        let end = offset + 56 + number(offset + 16) as usize;
        let stored = &bytes[offset + 56..end];
        let raw_bytes = number(offset + 20);
        chunks.push(Chunk {
            kind: bytes[offset + 4],
            codec: 0,
            count: number(offset + 12),
            raw_bytes,
            first: long(offset + 24),
            last: long(offset + 32),
            payload: match bytes[offset + 5] {
                0 => stored.to_vec(),
                _ => zstd::bulk::decompress(stored, raw_bytes as usize).unwrap(),
            },
        });
        offset = end;
    }
    (long(12), chunks)
}

/// The inverse of [`take_apart`], with right lengths and checksums. All but
/// chunks of events is compressed.
pub(crate) fn put_together(magic: &[u8], salt: u64, chunks: &[Chunk]) -> Vec<u8> {
    let mut bytes = preamble(1, salt);
    bytes[..8].copy_from_slice(magic);
    let check = XxHash3_64::oneshot(&bytes[..20]) as u32;
    bytes[20..].copy_from_slice(&check.to_le_bytes());
    for (sequence, one) in (0..).zip(chunks) {
        let packed = match one.kind {
            2 => Chunk::stored(one.kind, one.count, one.payload.clone()),
            _ => Chunk::packed(one.kind, one.count, &one.payload),
        };
        let one = Chunk {
            first: one.first,
            last: one.last,
            ..packed
        };
        bytes.extend_from_slice(&chunk(salt, sequence, &one));
    }
    bytes
}
