//! Writing an artifact: records are gathered into chunks, and each chunk is
//! written as it fills.

use crate::{
    error::Result,
    event::Event,
    header::{Ending, Header},
    id::ModuleId,
    loss::Losses,
    module::{Module, ModuleRecord, RefusedModule},
    stack::StackRecord,
};
use std::io::Write;

/// Writes one artifact. Consumed by [`finish`](Self::finish); dropped without
/// it the file is a cut one, which opens and says so.
pub struct ArtifactWriter<W: Write> {
    sink: W,
}

/// What a finished artifact holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteSummary {
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Events written.
    pub events: u64,
    /// Stacks written.
    pub stacks: u64,
}

impl<W: Write> ArtifactWriter<W> {
    /// Begins an artifact with its header.
    pub fn new(sink: W, header: &Header) -> Result<Self> {
        let _ = header;
        todo!()
    }
    /// Appends an event, in ring order (times may be slightly out of order).
    pub fn event(&mut self, event: &Event) -> Result<()> {
        let _ = event;
        todo!()
    }
    /// Appends a distinct stack. An id that was written before is a repeat,
    /// which readers ignore.
    pub fn stack(&mut self, stack: &StackRecord<'_>) -> Result<()> {
        let _ = stack;
        todo!()
    }
    /// Appends a record of the module stream.
    pub fn module_record(&mut self, record: &ModuleRecord) -> Result<()> {
        let _ = record;
        todo!()
    }
    /// Appends a keyed module with the bytes of its sections, in the order of
    /// `module.sections`. `module.id` is given here and returned.
    pub fn module(&mut self, module: Module, sections: &[&[u8]]) -> Result<ModuleId> {
        let _ = (module, sections);
        todo!()
    }
    /// Notes a mapped file whose bytes could not be taken.
    pub fn refused(&mut self, refused: &RefusedModule) -> Result<()> {
        let _ = refused;
        todo!()
    }
    /// Writes out what is gathered, so that a killed capture loses little.
    pub fn flush(&mut self) -> Result<()> {
        self.sink.flush().ok();
        todo!()
    }
    /// Writes losses, ending and footer; the file is complete after that.
    pub fn finish(self, losses: &Losses, ending: &Ending) -> Result<(W, WriteSummary)> {
        let _ = (losses, ending);
        todo!()
    }
}
