//! Payloads of MessagePack records with named fields, so that a later version
//! can add a field without a new layout. Each record has its length before it,
//! so that one which cannot be understood is skipped alone.

use super::input::{Broken, Input, Parsed};
use crate::{
    header::Header,
    id::Pid,
    loss::{LossCount, LossReason, Losses, Pause, PauseReason},
    module::{Module, ModuleEvent, ModuleRecord},
};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IntoDeserializer, value::StrDeserializer},
};
use std::collections::BTreeMap;

use super::words::{WordWriter, Words, apply, difference};

/// Longest record. One byte of a record can become 24 bytes of memory (an
/// empty string in a list), and 48 while the list grows.
pub(crate) const MAX_RECORD_BYTES: usize = 512 << 10;
/// Most pauses that a file tells of.
pub(crate) const MAX_PAUSES: usize = 1 << 19;

/// Appends a record.
pub(crate) fn append<T: Serialize>(out: &mut Vec<u8>, record: &T) -> Parsed<()> {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut serializer = rmp_serde::Serializer::new(&mut *out).with_struct_map();
    let result = record.serialize(&mut serializer);
    let len = out.len() - begin - 4;
    if let Err(error) = result {
        out.truncate(begin);
        return Err(Broken(format!("a record cannot be encoded: {error}")));
    }
    if len > MAX_RECORD_BYTES {
        out.truncate(begin);
        return Err(Broken(format!(
            "a record of {len} bytes is longer than the format allows ({MAX_RECORD_BYTES})"
        )));
    }
    out[begin..begin + 4].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(())
}

/// The next record's bytes; `None` at the end.
pub(crate) fn next<'a>(input: &mut Input<'a>) -> Parsed<Option<&'a [u8]>> {
    if input.is_empty() {
        return Ok(None);
    }
    let len = input.u32()? as usize;
    if len > MAX_RECORD_BYTES {
        return Err(Broken(format!("a record of {len} bytes is too long")));
    }
    input.take(len).map(Some)
}

/// Decodes one record.
pub(crate) fn decode<T: DeserializeOwned>(record: &[u8]) -> Parsed<T> {
    rmp_serde::from_slice(record).map_err(|error| Broken(format!("a record is broken: {error}")))
}

/// Appends the header. One that is too long, which only a very long command
/// line can cause, loses the ends of its lists and says so.
pub(crate) fn append_header(out: &mut Vec<u8>, header: &Header) -> Parsed<()> {
    if append(out, header).is_ok() {
        return Ok(());
    }
    let (arguments, names) = (header.command.len(), header.environment_names.len());
    let mut cut = header.clone();
    loop {
        let before = cut.command.len() + cut.environment_names.len();
        cut.command.truncate(cut.command.len().div_ceil(2));
        cut.environment_names
            .truncate(cut.environment_names.len() / 2);
        let mut fitting = cut.clone();
        fitting.options.push(format!(
            "header-cut={} arguments and {} names of environment variables are left out",
            arguments - cut.command.len(),
            names - cut.environment_names.len()
        ));
        match append(out, &fitting) {
            Err(_) if cut.command.len() + cut.environment_names.len() < before => {}
            result => return result,
        }
    }
}

/// Decodes a payload of exactly one record.
pub(crate) fn decode_only<T: DeserializeOwned>(payload: &[u8]) -> Parsed<T> {
    let mut input = Input(payload);
    decode(next(&mut input)?.ok_or("a record is missing")?)
}

/// Totals, in the last chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Footer {
    /// Chunks before the footer.
    pub(crate) chunks: u64,
    /// By kind: number of chunks and number of records.
    pub(crate) kinds: BTreeMap<u8, (u64, u64)>,
}

/// [`Losses`] without the pauses, with reasons as text, so that a reason which
/// a reader does not know is not an error.
#[derive(Debug, Default, Serialize, Deserialize)]
struct LossTable {
    counts: BTreeMap<String, LossCount>,
    notes: Vec<String>,
}

fn pause_code(reason: PauseReason) -> u64 {
    match reason {
        PauseReason::Pressure => 1,
        PauseReason::Attach => 2,
    }
}

fn pause_reason(code: u64) -> Option<PauseReason> {
    match code {
        1 => Some(PauseReason::Pressure),
        2 => Some(PauseReason::Attach),
        _ => None,
    }
}

/// Encodes losses: a record, then the pauses as sized words.
pub(crate) fn encode_losses(losses: &Losses, out: &mut Vec<u8>) -> Parsed<()> {
    let mut table = LossTable {
        notes: losses.notes.clone(),
        ..LossTable::default()
    };
    for (reason, count) in &losses.counts {
        let name = reason_name(*reason)?;
        table.counts.insert(name, *count);
    }
    let pauses = losses.pauses.get(..MAX_PAUSES).unwrap_or(&losses.pauses);
    if pauses.len() < losses.pauses.len() {
        table.notes.push(format!(
            "{} pauses after the first {} are not recorded",
            losses.pauses.len() - pauses.len(),
            pauses.len()
        ));
    }
    out.clear();
    append(out, &table)?;
    let mut streams: [WordWriter; 4] = Default::default();
    let mut last_ns = 0;
    for pause in pauses {
        let [pid, reason, start, length] = &mut streams;
        pid.push(u64::from(pause.pid.0));
        reason.push(pause_code(pause.reason));
        start.push(difference(last_ns, pause.start_ns));
        length.push(difference(pause.start_ns, pause.end_ns));
        last_ns = pause.start_ns;
    }
    streams.iter().for_each(|stream| stream.write_to(out));
    Ok(())
}

/// Decodes losses. What only a newer memtrack knows becomes a note.
pub(crate) fn decode_losses(payload: &[u8]) -> Parsed<Losses> {
    let mut input = Input(payload);
    let table: LossTable = decode(next(&mut input)?.ok_or("the table of losses is missing")?)?;
    let mut losses = Losses {
        notes: table.notes,
        ..Losses::default()
    };
    for (name, count) in table.counts {
        match reason_from_name(&name) {
            Some(reason) => {
                losses.counts.insert(reason, count);
            }
            None => losses.notes.push(format!(
                "{} lost for a reason that only a newer memtrack knows ({name:?})",
                count.count
            )),
        }
    }
    let pids = Words::parse(&mut input)?;
    let count = pids.remaining();
    if count > MAX_PAUSES {
        return Err(Broken(format!("{count} pauses are too many")));
    }
    let reasons = Words::parse(&mut input)?.expect(count)?;
    let starts = Words::parse(&mut input)?.expect(count)?;
    let lengths = Words::parse(&mut input)?.expect(count)?;
    let mut last_ns = 0;
    let mut unknown = 0u64;
    losses.pauses.reserve(count);
    for (((pid, reason), start), length) in pids.zip(reasons).zip(starts).zip(lengths) {
        let start_ns = apply(last_ns, start);
        last_ns = start_ns;
        let pid = u32::try_from(pid).map_err(|_| Broken(format!("process id {pid}")))?;
        match pause_reason(reason) {
            Some(reason) => losses.pauses.push(Pause {
                pid: Pid(pid),
                reason,
                start_ns,
                end_ns: apply(start_ns, length),
            }),
            None => unknown += 1,
        }
    }
    if unknown > 0 {
        losses.notes.push(format!(
            "{unknown} pauses for reasons that only a newer memtrack knows"
        ));
    }
    Ok(losses)
}

/// The text of a reason: the name that serde gives it.
fn reason_name(reason: LossReason) -> Parsed<String> {
    let bytes = rmp_serde::to_vec(&reason).map_err(|error| Broken(error.to_string()))?;
    rmp_serde::from_slice(&bytes).map_err(|error| Broken(error.to_string()))
}

fn reason_from_name(name: &str) -> Option<LossReason> {
    let name: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
    LossReason::deserialize(name).ok()
}

/// About how many bytes of memory a value takes, beyond its own size.
pub(crate) trait HeapBytes {
    fn heap_bytes(&self) -> usize;
}

/// What the allocator adds to a block.
const BLOCK: usize = 16;

impl HeapBytes for ModuleRecord {
    fn heap_bytes(&self) -> usize {
        match &self.event {
            ModuleEvent::Map(mapping) => {
                let build_id = mapping.file.build_id.as_ref().map_or(0, |id| id.0.len());
                mapping.path.len() + build_id + 2 * BLOCK
            }
            ModuleEvent::Comm { name } => name.len() + BLOCK,
            _ => 0,
        }
    }
}

impl HeapBytes for Module {
    fn heap_bytes(&self) -> usize {
        let mapped = self.mapped_as.iter().map(|mapped| {
            let build_id = mapped.file.build_id.as_ref().map_or(0, |id| id.0.len());
            size_of_val(mapped) + mapped.path.len() + build_id + 2 * BLOCK
        });
        let sections = self.sections.iter().map(|section| {
            let link = section.link.as_ref().map_or(0, String::len);
            size_of_val(section) + section.name.len() + link + 2 * BLOCK
        });
        let notes = self
            .notes
            .iter()
            .map(|note| size_of_val(note) + note.len() + BLOCK);
        let debug_files = self.debug_files.iter().map(|file| {
            let build_id = file.build_id.as_ref().map_or(0, |id| id.0.len());
            size_of_val(file) + file.path.len() + build_id + 2 * BLOCK
        });
        size_of_val(&self.segments[..])
            + debug_files.sum::<usize>()
            + mapped.sum::<usize>()
            + sections.sum::<usize>()
            + notes.sum::<usize>()
    }
}

/// The salt of a file that begins with this header: see
/// [`Preamble`](super::chunk::Preamble).
pub(crate) fn salt(header: &Header) -> u64 {
    rmp_serde::to_vec_named(header).map_or(0, |bytes| super::chunk::checksum(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{Architecture, ByteString};

    #[test]
    fn losses_come_back() {
        let mut losses = Losses::default();
        losses.add(LossReason::EventRingFull, 3, 17);
        losses.add(LossReason::AttachFailed, u64::MAX, 0);
        losses.notes.push("a note".into());
        losses.pauses.push(Pause {
            pid: Pid(u32::MAX),
            reason: PauseReason::Attach,
            start_ns: u64::MAX,
            end_ns: 0,
        });
        let mut bytes = Vec::new();
        encode_losses(&losses, &mut bytes).unwrap();
        assert_eq!(decode_losses(&bytes).unwrap(), losses);
    }

    #[test]
    fn a_newer_reason_is_a_note() {
        let mut table = LossTable::default();
        table.counts.insert(
            "eaten_by_the_dog".into(),
            LossCount {
                count: 5,
                ..LossCount::default()
            },
        );
        let mut bytes = Vec::new();
        append(&mut bytes, &table).unwrap();
        for _ in 0..4 {
            WordWriter::default().write_to(&mut bytes);
        }
        let losses = decode_losses(&bytes).unwrap();
        assert_eq!(losses.total(), 0);
        assert!(losses.notes[0].starts_with("5 lost"), "{losses:?}");
    }

    #[test]
    fn a_header_that_is_too_long_is_cut_and_says_so() {
        let argument = ByteString(vec![b'x'; 1000]);
        let mut header = Header {
            memtrack_version: String::new(),
            architecture: Architecture::Aarch64,
            page_bytes: 4096,
            start_monotonic_ns: 0,
            start_wall_ns: 0,
            kernel: String::new(),
            command: vec![argument; 2000],
            environment_names: Vec::new(),
            working_directory: ByteString::default(),
            options: Vec::new(),
            backend: String::new(),
        };
        let mut bytes = Vec::new();
        append_header(&mut bytes, &header).unwrap();
        let cut: Header = decode_only(&bytes).unwrap();
        assert_eq!(cut.command, header.command[..500]);
        assert!(cut.options[0].starts_with("header-cut=1500 arguments"));
        header.command = vec![ByteString(vec![0; 2 * MAX_RECORD_BYTES])];
        assert!(append_header(&mut bytes, &header).is_err());
    }

    #[test]
    fn a_record_that_is_too_long_is_refused_when_written() {
        let mut bytes = vec![1, 2, 3];
        let long = "x".repeat(MAX_RECORD_BYTES + 1);
        assert!(append(&mut bytes, &long).is_err());
        assert_eq!(bytes, [1, 2, 3]);
    }
}
