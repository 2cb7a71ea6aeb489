//! Finding a file's chunks, and everything that is wrong with them.
//!
//! The scan goes from header to header by the stored lengths. Where no header
//! follows, it looks for the next one: a header's checksum is salted with the
//! file's own number, so nothing else is taken for one. Then every payload's
//! checksum is verified (on all cores when there is much), and the sequence
//! numbers tell what is missing, doubled or moved.

use crate::raw::v1::{
    chunk::{CHUNK_MAGIC, ChunkHeader, HEADER_BYTES, MAX_CHUNKS, checksum},
    kind,
};
use memchr::memmem;

/// Most damaged places that are told one by one.
const MAX_DAMAGE: usize = 1000;
/// Payload bytes above which checksums are verified by several threads.
const PARALLEL_BYTES: u64 = 32 << 20;

/// Whether the file is whole, apart from what capture itself lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completeness {
    /// The footer is there: the capture ended in order.
    pub finished: bool,
    /// The file ends in the middle of a chunk that begins here.
    pub cut_at: Option<u64>,
    /// Chunks that are damaged, missing or doubled: where, and what is wrong.
    pub damage: Vec<Damage>,
}

/// A damaged place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Byte position in the file.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

impl Completeness {
    /// Nothing is missing from the file.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.finished && self.cut_at.is_none() && self.damage.is_empty()
    }

    /// Notes a damaged place. Beyond a bound only their number is told.
    pub(crate) fn note(&mut self, offset: u64, what: impl Into<String>) {
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(Damage {
                offset,
                what: what.into(),
            });
        } else if self.damage.len() == MAX_DAMAGE {
            self.damage.push(Damage {
                offset,
                what: "more damaged places from here on, which are not listed".into(),
            });
        }
    }
}

/// A chunk of the index. 16 bytes, so that the largest index takes 32 MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) offset: u64,
    sequence: u32,
    pub(crate) kind: u8,
    /// Its payload's checksum does not match.
    bad: bool,
}

/// The chunks of a file in sequence, all whole.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) entries: Vec<Entry>,
    pub(crate) completeness: Completeness,
    /// Over all chunks' checksums.
    pub(crate) fingerprint: u64,
}

/// Finds the chunks of `bytes` from `start` on.
pub(crate) fn scan(bytes: &[u8], start: u64, salt: u64) -> Index {
    let mut scanner = Scanner {
        bytes,
        salt,
        budget: bytes.len() as u64 + (64 << 20),
        index: Index::default(),
    };
    scanner.walk(start);
    let mut index = scanner.index;
    verify(bytes, salt, &mut index.entries);
    settle(bytes, salt, index)
}

struct Scanner<'a> {
    bytes: &'a [u8],
    salt: u64,
    /// Payload bytes that may still be checksummed to decide whether a header
    /// is one: keeps the scan linear for headers that overlap on purpose.
    budget: u64,
    index: Index,
}

impl Scanner<'_> {
    fn header(&self, offset: u64) -> Option<ChunkHeader> {
        ChunkHeader::at(self.bytes, offset, self.salt)
    }

    fn note(&mut self, offset: u64, what: impl Into<String>) {
        self.index.completeness.note(offset, what);
    }

    /// The next place from `offset` on where a header begins.
    fn find_header(&self, offset: u64) -> Option<u64> {
        let rest = self.bytes.get(usize::try_from(offset).ok()?..)?;
        memmem::find_iter(rest, &CHUNK_MAGIC)
            .map(|found| offset + found as u64)
            .find(|&found| self.header(found).is_some())
    }

    fn walk(&mut self, start: u64) {
        let len = self.bytes.len() as u64;
        let mut offset = start;
        while offset < len {
            if self.index.entries.len() >= MAX_CHUNKS {
                self.note(
                    offset,
                    format!("more than {MAX_CHUNKS} chunks: the rest is not read"),
                );
                return;
            }
            offset = match self.header(offset) {
                Some(header) => match self.chunk(offset, &header) {
                    Some(next) => next,
                    None => return,
                },
                None => match self.find_header(offset + 1) {
                    Some(next) => {
                        self.note(offset, format!("{} bytes are no chunk", next - offset));
                        next
                    }
                    None => {
                        self.tail(offset);
                        return;
                    }
                },
            };
        }
    }

    /// Takes the chunk at `offset` and tells where to go on.
    fn chunk(&mut self, offset: u64, header: &ChunkHeader) -> Option<u64> {
        let len = self.bytes.len() as u64;
        let what = describe(header);
        match header.end(offset).filter(|&end| end <= len) {
            Some(end) if end == len || self.header(end).is_some() => {
                self.take(offset, header);
                Some(end)
            }
            Some(end) if self.payload_is_whole(offset, header) => {
                self.take(offset, header);
                Some(end)
            }
            Some(_) => {
                self.note(offset, format!("{what} is damaged"));
                self.mark_bad(offset, header);
                match self.find_header(offset + HEADER_BYTES as u64) {
                    Some(next) => Some(next),
                    None => {
                        self.note(
                            offset + HEADER_BYTES as u64,
                            "no chunk is found after this place",
                        );
                        None
                    }
                }
            }
            None => match self.find_header(offset + HEADER_BYTES as u64) {
                Some(next) => {
                    self.note(offset, format!("{what} is shorter than it should be"));
                    self.mark_bad(offset, header);
                    Some(next)
                }
                None => {
                    self.index.completeness.cut_at = Some(offset);
                    None
                }
            },
        }
    }

    fn payload_is_whole(&mut self, offset: u64, header: &ChunkHeader) -> bool {
        let Some(budget) = self.budget.checked_sub(u64::from(header.stored_bytes)) else {
            return false;
        };
        self.budget = budget;
        header
            .payload(self.bytes, offset)
            .is_some_and(|payload| checksum(payload) == header.checksum)
    }

    fn take(&mut self, offset: u64, header: &ChunkHeader) {
        self.index.entries.push(Entry {
            offset,
            sequence: header.sequence,
            kind: header.kind,
            bad: false,
        });
    }

    /// Keeps a chunk that was already noted as damaged, so that its number is
    /// not missed a second time.
    fn mark_bad(&mut self, offset: u64, header: &ChunkHeader) {
        self.take(offset, header);
        if let Some(entry) = self.index.entries.last_mut() {
            entry.bad = true;
        }
    }

    /// The file ends at `offset` as far as chunks go.
    fn tail(&mut self, offset: u64) {
        let rest = self
            .bytes
            .get(usize::try_from(offset).unwrap_or(usize::MAX)..)
            .unwrap_or_default();
        let magic = &CHUNK_MAGIC[..CHUNK_MAGIC.len().min(rest.len())];
        if rest.len() < HEADER_BYTES && rest.starts_with(magic) {
            self.index.completeness.cut_at = Some(offset);
        } else {
            self.note(
                offset,
                format!("the last {} bytes are no chunk", rest.len()),
            );
        }
    }
}

/// A chunk in words.
pub(crate) fn describe(header: &ChunkHeader) -> String {
    format!(
        "chunk {} ({}, {} records)",
        header.sequence,
        kind::name(header.kind),
        header.count
    )
}

/// Marks the entries whose payloads do not match their checksums.
fn verify(bytes: &[u8], salt: u64, entries: &mut [Entry]) {
    let check = |entries: &mut [Entry]| {
        for entry in entries.iter_mut().filter(|entry| !entry.bad) {
            entry.bad = !ChunkHeader::at(bytes, entry.offset, salt).is_some_and(|header| {
                header
                    .payload(bytes, entry.offset)
                    .is_some_and(|payload| checksum(payload) == header.checksum)
            });
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    if (bytes.len() as u64) < PARALLEL_BYTES || threads == 1 {
        return check(entries);
    }
    // Consecutive chunks are of similar size, so equal numbers of chunks are
    // about equal work.
    let share = entries.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for part in entries.chunks_mut(share) {
            scope.spawn(|| check(part));
        }
    });
}

/// Notes bad payloads, puts chunks in sequence, drops doubles, finds gaps.
fn settle(bytes: &[u8], salt: u64, mut index: Index) -> Index {
    let already: Vec<u64> = index
        .completeness
        .damage
        .iter()
        .map(|damage| damage.offset)
        .collect();
    for entry in index.entries.iter().filter(|entry| entry.bad) {
        if already.binary_search(&entry.offset).is_err() {
            let what = ChunkHeader::at(bytes, entry.offset, salt)
                .map_or_else(|| "a chunk".into(), |header| describe(&header));
            index.completeness.note(
                entry.offset,
                format!("{what} is damaged: its checksum does not match"),
            );
        }
    }
    let moved: Vec<u64> = index
        .entries
        .windows(2)
        .filter(|pair| pair[1].sequence < pair[0].sequence)
        .map(|pair| pair[1].offset)
        .collect();
    for offset in moved {
        index
            .completeness
            .note(offset, "chunks are not in their order from here on");
    }
    // Whole chunks first among equal numbers, then the first in the file.
    index
        .entries
        .sort_by_key(|entry| (entry.sequence, entry.bad, entry.offset));
    let mut expected = 0;
    let completeness = &mut index.completeness;
    index.entries.retain(|entry| {
        if expected > entry.sequence {
            if !entry.bad {
                completeness.note(
                    entry.offset,
                    format!("chunk {} is there twice", entry.sequence),
                );
            }
            return false;
        }
        if expected < entry.sequence {
            let last = entry.sequence - 1;
            let what = if expected == last {
                format!("chunk {last} is missing before this place")
            } else {
                format!("chunks {expected} to {last} are missing before this place")
            };
            completeness.note(entry.offset, what);
        }
        expected = entry.sequence.saturating_add(1);
        !entry.bad
    });
    index.entries.shrink_to_fit();
    index.fingerprint = fingerprint(bytes, salt, &index.entries);
    index
}

fn fingerprint(bytes: &[u8], salt: u64, entries: &[Entry]) -> u64 {
    let mut hasher = twox_hash::XxHash3_64::with_seed(salt);
    for entry in entries {
        if let Some(header) = ChunkHeader::at(bytes, entry.offset, salt) {
            std::hash::Hasher::write(&mut hasher, &header.sequence.to_le_bytes());
            std::hash::Hasher::write(&mut hasher, &header.checksum.to_le_bytes());
        }
    }
    std::hash::Hasher::finish(&hasher)
}
