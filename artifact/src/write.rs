//! Writing an artifact: records are gathered into chunks, and each chunk is
//! written as it fills.

use crate::{
    error::{Error, Result},
    event::Event,
    header::{Ending, Header},
    id::ModuleId,
    loss::Losses,
    module::{Module, ModuleRecord, RefusedModule},
    raw::v1::{
        chunk::MAX_CHUNKS,
        events::EventEncoder,
        input::Broken,
        kind,
        preamble::Preamble,
        records::{self, Footer},
        section,
        stacks::StackEncoder,
        writer::{ChunkWriter, Draft},
    },
    version::{ARTIFACT_MAGIC, FORMAT_VERSION},
};
use std::io::Write;

/// Bytes of module records after which they are written.
const RECORDS_TARGET_BYTES: usize = 64 << 10;
/// Chunks after which [`ArtifactWriter::flush`] no longer ends chunks early,
/// so that a capture of many days stays within the format's number of chunks.
const EARLY_CHUNKS: usize = MAX_CHUNKS / 2;

/// Writes one artifact. Consumed by [`finish`](Self::finish); dropped without
/// it the file is a cut one, which opens and says so.
///
/// Its memory is bounded: one chunk of events and one of stacks, gathered and
/// compressed, are about 8 MiB together, whatever the length of the capture.
/// A chunk is handed to the sink in two writes; the sink needs no buffer.
pub struct ArtifactWriter<W: Write> {
    chunks: ChunkWriter<W>,
    events: EventEncoder,
    stacks: StackEncoder,
    records: Gathered,
    refused: Gathered,
    next_module: u32,
    footer: Footer,
    payload: Vec<u8>,
}

/// Encoded records that wait for their chunk.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    count: u32,
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
    /// Begins an artifact with its header. Of a command line of more than
    /// 512 KiB only a part is kept, which the header's options then say.
    pub fn new(sink: W, header: &Header) -> Result<Self> {
        let preamble = Preamble {
            version: FORMAT_VERSION,
            salt: records::salt(header),
        };
        let mut writer = Self {
            chunks: ChunkWriter::new(sink, ARTIFACT_MAGIC, preamble)?,
            events: EventEncoder::default(),
            stacks: StackEncoder::default(),
            records: Gathered::default(),
            refused: Gathered::default(),
            next_module: 0,
            footer: Footer::default(),
            payload: Vec::new(),
        };
        let mut bytes = Vec::new();
        records::append_header(&mut bytes, header).map_err(|what| refuse(0, what))?;
        writer.write(kind::HEADER, 1, (0, 0), &bytes)?;
        writer.chunks.flush()?;
        Ok(writer)
    }

    /// Appends an event, in ring order (times may be slightly out of order).
    #[inline]
    pub fn event(&mut self, event: &Event) -> Result<()> {
        self.events.push(event);
        if self.events.is_full() {
            self.write_events()?;
        }
        Ok(())
    }

    /// Appends a distinct stack. An id that was written before is a repeat,
    /// which readers ignore. Windows beyond 8 MiB are cut, which
    /// [`StackRecord::is_cut`](crate::StackRecord::is_cut) then tells.
    pub fn stack(&mut self, stack: &crate::StackRecord<'_>) -> Result<()> {
        self.stacks.push(stack);
        if self.stacks.is_full() {
            self.write_stacks()?;
        }
        Ok(())
    }

    /// Appends a record of the module stream. Records may come out of time
    /// order; readers sort them.
    pub fn module_record(&mut self, record: &ModuleRecord) -> Result<()> {
        let offset = self.chunks.offset();
        records::append(&mut self.records.bytes, record).map_err(|what| refuse(offset, what))?;
        self.records.count += 1;
        if self.records.bytes.len() >= RECORDS_TARGET_BYTES {
            self.write_module_records()?;
        }
        Ok(())
    }

    /// Appends a keyed module with the bytes of its sections, in the order of
    /// `module.sections`. `module.id` is given here and returned; each
    /// section's `len` is set to the length of its bytes.
    ///
    /// A description of more than 512 KiB is an error, after which the writer
    /// goes on as if it had not been given.
    pub fn module(&mut self, mut module: Module, sections: &[&[u8]]) -> Result<ModuleId> {
        let offset = self.chunks.offset();
        if sections.len() != module.sections.len() {
            return Err(refuse(
                offset,
                Broken(format!(
                    "a module with {} sections came with the bytes of {}",
                    module.sections.len(),
                    sections.len()
                )),
            ));
        }
        let id = ModuleId(self.next_module);
        module.id = id;
        for (info, bytes) in module.sections.iter_mut().zip(sections) {
            info.len = bytes.len() as u64;
        }
        self.write_record(kind::MODULE, u64::from(id.0), &module)?;
        self.next_module += 1;
        for (number, bytes) in sections.iter().enumerate() {
            let ratio = if bytes.len() > section::FREE_BYTES {
                section::MAX_RATIO
            } else {
                usize::MAX
            };
            for (part, bytes) in bytes.chunks(section::PART_BYTES).enumerate() {
                let draft = Draft {
                    kind: kind::SECTION,
                    count: 1,
                    first: u64::from(id.0) << 32 | number as u64,
                    last: (part * section::PART_BYTES) as u64,
                };
                self.chunks.write_within(draft, bytes, ratio)?;
                count(&mut self.footer, kind::SECTION, 1);
            }
        }
        Ok(id)
    }

    /// Notes a mapped file whose bytes could not be taken.
    pub fn refused(&mut self, refused: &RefusedModule) -> Result<()> {
        let offset = self.chunks.offset();
        records::append(&mut self.refused.bytes, refused).map_err(|what| refuse(offset, what))?;
        self.refused.count += 1;
        if self.refused.bytes.len() >= RECORDS_TARGET_BYTES {
            self.write_refused()?;
        }
        Ok(())
    }

    /// Notes what was lost so far, so that a capture which is killed later
    /// tells it. The last call counts; [`finish`](Self::finish) is one.
    pub fn losses(&mut self, losses: &Losses) -> Result<()> {
        let offset = self.chunks.offset();
        let mut payload = std::mem::take(&mut self.payload);
        let result = records::encode_losses(losses, &mut payload)
            .map_err(|what| refuse(offset, what))
            .and_then(|()| self.write(kind::LOSSES, 1, (0, 0), &payload));
        self.payload = payload;
        result
    }

    /// Writes out what is gathered, so that a killed capture loses little.
    /// Each call ends the chunks in work, and small chunks compress worse:
    /// once a second is a good measure.
    pub fn flush(&mut self) -> Result<()> {
        if (self.chunks.chunks() as usize) < EARLY_CHUNKS {
            self.write_gathered()?;
        }
        self.chunks.flush()
    }

    /// Bytes handed to the sink so far.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.chunks.offset()
    }

    /// Writes losses, ending and footer; the file is complete after that.
    pub fn finish(mut self, losses: &Losses, ending: &Ending) -> Result<(W, WriteSummary)> {
        self.write_gathered()?;
        self.losses(losses)?;
        self.write_record(kind::ENDING, 0, ending)?;
        let mut footer = std::mem::take(&mut self.footer);
        footer.chunks = u64::from(self.chunks.chunks());
        self.write_record(kind::FOOTER, 0, &footer)?;
        let records = |kind| footer.kinds.get(&kind).map_or(0, |counts| counts.1);
        let summary = WriteSummary {
            file_bytes: self.chunks.offset(),
            events: records(kind::EVENTS),
            stacks: records(kind::STACKS),
        };
        Ok((self.chunks.into_sink()?, summary))
    }

    fn write_gathered(&mut self) -> Result<()> {
        self.write_events()?;
        self.write_stacks()?;
        self.write_module_records()?;
        self.write_refused()
    }

    fn write_events(&mut self) -> Result<()> {
        let count = self.events.count();
        if count == 0 {
            return Ok(());
        }
        let span = self.events.time_span();
        let mut payload = std::mem::take(&mut self.payload);
        self.events.encode(&mut self.chunks.packer, &mut payload);
        let draft = Draft {
            kind: kind::EVENTS,
            count: count as u32,
            first: span.0,
            last: span.1,
        };
        // The columns are compressed one by one.
        let result = self.chunks.write_stored(draft, &payload);
        self.payload = payload;
        result?;
        self::count(&mut self.footer, kind::EVENTS, count as u64);
        Ok(())
    }

    fn write_stacks(&mut self) -> Result<()> {
        let count = self.stacks.count();
        if count == 0 {
            return Ok(());
        }
        let (low, high) = self.stacks.ids();
        let mut payload = std::mem::take(&mut self.payload);
        self.stacks.encode(&mut payload);
        let span = (u64::from(low), u64::from(high));
        let result = self.write(kind::STACKS, count, span, &payload);
        self.payload = payload;
        result
    }

    fn write_module_records(&mut self) -> Result<()> {
        let gathered = std::mem::take(&mut self.records);
        self.write_records(kind::MODULE_RECORDS, gathered)
    }

    fn write_refused(&mut self) -> Result<()> {
        let gathered = std::mem::take(&mut self.refused);
        self.write_records(kind::REFUSED, gathered)
    }

    fn write_records(&mut self, kind: u8, gathered: Gathered) -> Result<()> {
        if gathered.count == 0 {
            return Ok(());
        }
        self.write(kind, gathered.count, (0, 0), &gathered.bytes)
    }

    /// Writes a chunk of one record.
    fn write_record<T: serde::Serialize>(&mut self, kind: u8, id: u64, record: &T) -> Result<()> {
        let mut bytes = Vec::new();
        let offset = self.chunks.offset();
        records::append(&mut bytes, record).map_err(|what| refuse(offset, what))?;
        self.write(kind, 1, (id, 0), &bytes)
    }

    fn write(&mut self, kind: u8, count: u32, span: (u64, u64), payload: &[u8]) -> Result<()> {
        let draft = Draft {
            kind,
            count,
            first: span.0,
            last: span.1,
        };
        self.chunks.write(draft, payload)?;
        self::count(&mut self.footer, kind, u64::from(count));
        Ok(())
    }
}

fn count(footer: &mut Footer, kind: u8, records: u64) {
    let counts = footer.kinds.entry(kind).or_default();
    counts.0 += 1;
    counts.1 += records;
}

/// A record that the format cannot hold.
fn refuse(offset: u64, Broken(what): Broken) -> Error {
    Error::Write {
        offset,
        source: std::io::Error::new(std::io::ErrorKind::InvalidInput, what),
    }
}
