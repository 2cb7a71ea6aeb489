//! Reading and writing symbol files (`.mts`): the same container as an
//! artifact, with tables instead of events. A symbol file can be made again
//! at any time, so a damaged one is an error and not repaired.

use crate::{
    error::{Error, Result},
    map::Bytes,
    raw::v1::{
        chunk::{ChunkHeader, checksum},
        codec::Unpacker,
        input::Broken,
        kind,
        preamble::{PREAMBLE_BYTES, Preamble},
        records::{self, Footer},
        symbols::{self, Part, Totals},
        writer::{ChunkWriter, Draft},
    },
    scan::{Damage, scan},
    symbols::Symbols,
    version::{FORMAT_VERSION, SYMBOLS_MAGIC},
};
use std::{io::Write, path::Path};

/// Memory that the tables may take at least, and further per byte of the
/// file: bounds what a small hostile file can make a reader allocate.
const MEMORY_BYTES: usize = 128 << 20;
const MEMORY_PER_BYTE: usize = 32;

/// Writes a symbol file. The bytes depend on `symbols` alone.
pub fn write_symbols<W: Write>(sink: W, symbols: &Symbols) -> Result<W> {
    let refuse = |offset, Broken(what): Broken| Error::Write {
        offset,
        source: std::io::Error::new(std::io::ErrorKind::InvalidInput, what),
    };
    let mut totals = Vec::new();
    records::append(&mut totals, &Totals::of(symbols)).map_err(|what| refuse(0, what))?;
    let preamble = Preamble {
        version: FORMAT_VERSION,
        salt: checksum(&totals),
    };
    let mut chunks = ChunkWriter::new(sink, SYMBOLS_MAGIC, preamble)?;
    let mut footer = Footer::default();
    let mut write = |kind, count: usize, bytes: &[u8]| {
        let counts = footer.kinds.entry(kind).or_default();
        counts.0 += 1;
        counts.1 += count as u64;
        let draft = Draft {
            kind,
            count: count as u32,
            ..Draft::default()
        };
        chunks.write(draft, bytes)
    };
    write(kind::SYMBOLS, 1, &totals)?;
    let mut payload = Vec::new();
    let mut failure = None;
    symbols::for_each_part(symbols, |part: Part<'_>| {
        payload.clear();
        let result = match part.encode(&mut payload) {
            Ok(()) => write(part.kind(), part.len(), &payload),
            Err(what) => Err(refuse(0, what)),
        };
        failure = result.err();
        failure.is_none()
    });
    if let Some(error) = failure {
        return Err(error);
    }
    footer.chunks = u64::from(chunks.chunks());
    payload.clear();
    records::append(&mut payload, &footer).map_err(|what| refuse(chunks.offset(), what))?;
    let draft = Draft {
        kind: kind::FOOTER,
        count: 1,
        ..Draft::default()
    };
    chunks.write(draft, &payload)?;
    chunks.into_sink()
}

/// Reads a symbol file; every id in it is checked against its table (a
/// module's id against nothing: its table is in the artifact).
pub fn read_symbols(path: &Path) -> Result<Symbols> {
    let name = path.display().to_string();
    read(&name, Bytes::map(path)?.as_slice())
}

/// The same for bytes in memory; `name` is used in errors.
pub fn read_symbols_from(name: &str, bytes: &[u8]) -> Result<Symbols> {
    read(name, bytes)
}

fn read(name: &str, bytes: &[u8]) -> Result<Symbols> {
    let preamble = Preamble::parse(name, bytes, SYMBOLS_MAGIC, "symbol file")?;
    if preamble.version != FORMAT_VERSION {
        return Err(Error::UnsupportedVersion {
            name: name.to_owned(),
            found: preamble.version,
            supported: FORMAT_VERSION,
        });
    }
    let malformed = |offset, Broken(what): Broken| Error::Malformed {
        name: name.to_owned(),
        offset,
        what: format!("{what} (make the file again with `memtrack symbolize`)"),
    };
    let index = scan(bytes, PREAMBLE_BYTES as u64, preamble.salt);
    if let Some(Damage { offset, what }) = index.completeness.damage.first() {
        return Err(malformed(*offset, Broken(what.clone())));
    }
    if let Some(offset) = index.completeness.cut_at {
        return Err(malformed(offset, "the file is cut inside a chunk".into()));
    }
    let mut unpacker = Unpacker::default();
    let mut buffer = Vec::new();
    let memory = MEMORY_BYTES.saturating_add(bytes.len().saturating_mul(MEMORY_PER_BYTE));
    let mut builder = symbols::Builder::new(memory);
    let mut finished = false;
    for entry in &index.entries {
        let offset = entry.offset;
        let broken = |what| malformed(offset, what);
        let changed = || broken("the file was changed meanwhile".into());
        let header = ChunkHeader::at(bytes, offset, preamble.salt).ok_or_else(changed)?;
        let payload = header.payload(bytes, offset).ok_or_else(changed)?;
        let raw_bytes = header.raw_bytes as usize;
        let payload = unpacker
            .unpack(header.codec, payload, raw_bytes, &mut buffer)
            .map_err(broken)?;
        if entry.kind == kind::FOOTER {
            finished = true;
        } else {
            builder
                .add(entry.kind, header.count as usize, payload)
                .map_err(broken)?;
        }
    }
    let end = bytes.len() as u64;
    if !finished {
        return Err(malformed(end, "the file ends without its footer".into()));
    }
    builder.finish().map_err(|what| malformed(end, what))
}

#[cfg(test)]
mod tests;
