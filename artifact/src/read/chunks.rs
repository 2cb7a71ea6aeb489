//! Chunks of an opened artifact, decoded on demand.

use super::Artifact;
use crate::{
    batch::{Columns, EventBatch},
    error::Result,
    id::StackId,
    raw::v1::{
        codec::Unpacker,
        events::{EventTable, Scratch},
        stacks::StackBatch,
    },
    scan::Entry,
};

/// A chunk of events, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub struct EventChunk<'a> {
    pub(super) artifact: &'a Artifact,
    pub(super) entry: Entry,
    /// Number of events in it.
    pub count: usize,
    /// Earliest `start_ns` in it.
    pub min_start_ns: u64,
    /// Latest `time_ns` in it.
    pub max_time_ns: u64,
}

impl EventChunk<'_> {
    /// Decodes every column.
    pub fn decode(&self) -> Result<EventBatch> {
        self.decode_columns(Columns::ALL)
    }

    /// Decodes the wanted columns.
    pub fn decode_columns(&self, wanted: Columns) -> Result<EventBatch> {
        let mut batch = EventBatch::default();
        EventDecoder::default().decode(self, wanted, &mut batch)?;
        Ok(batch)
    }
}

/// Decodes one chunk after another into the same memory, which
/// [`EventChunk::decode`] takes anew each time (about 4 MiB). Each thread has
/// its own.
#[derive(Default)]
pub struct EventDecoder {
    unpacker: Unpacker,
    scratch: Scratch,
}

impl EventDecoder {
    /// Replaces `batch` by the wanted columns of `chunk`.
    pub fn decode(
        &mut self,
        chunk: &EventChunk<'_>,
        wanted: Columns,
        batch: &mut EventBatch,
    ) -> Result<()> {
        let source = &chunk.artifact.source;
        let broken = |what| source.malformed(chunk.entry.offset, what);
        let (header, payload) = source.payload(&chunk.entry)?;
        EventTable::parse(payload, header.count as usize)
            .and_then(|table| table.decode(wanted, &mut self.unpacker, &mut self.scratch, batch))
            .map_err(broken)
    }
}

/// A chunk of stacks, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub struct StackChunk<'a> {
    pub(super) artifact: &'a Artifact,
    pub(super) entry: Entry,
    /// Number of stacks in it.
    pub count: usize,
    /// Lowest id in it.
    pub min_id: StackId,
    /// Highest id in it.
    pub max_id: StackId,
}

impl StackChunk<'_> {
    /// Decompresses and checks the chunk. An id can come a second time, here
    /// or in a later chunk: the first one counts.
    pub fn decode(&self) -> Result<StackBatch> {
        let source = &self.artifact.source;
        let (header, bytes) = source.unpacked(&self.entry)?;
        StackBatch::parse(bytes, header.count as usize)
            .map_err(|what| source.malformed(self.entry.offset, what))
    }
}
