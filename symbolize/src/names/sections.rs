//! A module's sections, or those of its debug files, decompressed.

use super::image::Image;
use memtrack_artifact::{Artifact, DebugFileKind, Module, ModuleId, SectionInfo};
use object::read::{CompressedData, CompressionFormat};
use std::borrow::Cow;

/// `SHF_COMPRESSED` (ELF gABI).
const SHF_COMPRESSED: u64 = 0x800;
/// `ELFCOMPRESS_ZLIB` and `ELFCOMPRESS_ZSTD`.
const ELFCOMPRESS_ZLIB: u32 = 1;
const ELFCOMPRESS_ZSTD: u32 = 2;

/// A section may grow this much by decompression. Debug sections grow three- to
/// twentyfold.
const MAX_RATIO: u64 = 64;
/// A short section may grow up to this, bytes: long runs of zeros do.
const FREE_BYTES: u64 = 16 << 20;
/// Largest section that is taken apart, bytes. The largest known programs have
/// debug sections of 2 to 4 GB.
const MAX_SECTION_BYTES: u64 = 8 << 30;

/// Reads the sections of one file: a module, a debug file that was taken along
/// with it, or one in memory.
#[derive(Clone, Copy)]
pub(crate) struct Sections<'a> {
    infos: &'a [SectionInfo],
    /// What stands before the names of this file's sections.
    prefix: &'static str,
    place: Place<'a>,
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Artifact(&'a Artifact, ModuleId),
    Memory(&'a Image),
}

impl<'a> Sections<'a> {
    /// The sections of `module` itself.
    pub(crate) fn new(artifact: &'a Artifact, module: &'a Module) -> Self {
        Self {
            infos: &module.sections,
            prefix: "",
            place: Place::Artifact(artifact, module.id),
        }
    }

    /// The sections of the debug file of this kind that was taken along.
    pub(crate) fn of_debug_file(
        artifact: &'a Artifact,
        module: &'a Module,
        kind: DebugFileKind,
    ) -> Self {
        Self {
            prefix: kind.section_prefix(),
            ..Self::new(artifact, module)
        }
    }

    /// The sections of a file in memory.
    pub(crate) fn in_memory(image: &'a Image) -> Self {
        Self {
            infos: image.infos(),
            prefix: "",
            place: Place::Memory(image),
        }
    }

    /// A section's header.
    pub(crate) fn info(&self, name: &str) -> Option<&'a SectionInfo> {
        self.infos
            .iter()
            .find(|section| section.name.strip_prefix(self.prefix) == Some(name))
    }

    /// Start and end in memory of the sections that have a place there.
    pub(crate) fn loaded_ranges(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let infos = self.infos.iter();
        infos
            .filter(|section| section.address.0 != 0)
            .map(|section| {
                let start = section.address.0;
                (start, start.saturating_add(section.len))
            })
    }

    /// Whether it has debug information.
    pub(crate) fn has_debug_info(&self) -> bool {
        self.info(".debug_info").is_some() || self.info(".zdebug_info").is_some()
    }

    /// A section's content, decompressed; `None` when the module has none. A
    /// section of the older form `.zdebug_*` answers for `.debug_*`.
    pub(crate) fn load(&self, name: &str) -> Result<Option<Cow<'a, [u8]>>, String> {
        if let Some(info) = self.info(name) {
            let Some(bytes) = self.read(name)? else {
                return Ok(None);
            };
            if info.flags & SHF_COMPRESSED == 0 {
                return Ok(Some(bytes));
            }
            return inflate(&bytes)
                .map(|content| Some(content.into()))
                .map_err(|reason| format!("section {name}: {reason}"));
        }
        let Some(rest) = name.strip_prefix(".debug_") else {
            return Ok(None);
        };
        let older = format!(".zdebug_{rest}");
        if self.info(&older).is_none() {
            return Ok(None);
        }
        let Some(bytes) = self.read(&older)? else {
            return Ok(None);
        };
        inflate_older(&bytes)
            .map(|content| Some(content.into()))
            .map_err(|reason| format!("section {older}: {reason}"))
    }

    fn read(&self, name: &str) -> Result<Option<Cow<'a, [u8]>>, String> {
        let Some(info) = self.info(name) else {
            return Ok(None);
        };
        match self.place {
            Place::Artifact(artifact, module) => artifact
                .section(module, &info.name)
                .map(|bytes| bytes.map(Cow::Owned))
                .map_err(|error| format!("section {}: {error}", info.name)),
            Place::Memory(image) => Ok(image.content(info).map(Cow::Borrowed)),
        }
    }
}

/// The content of a section that begins with an `Elf64_Chdr`: type, reserved,
/// size and alignment, 24 bytes, little-endian.
fn inflate(bytes: &[u8]) -> Result<Vec<u8>, String> {
    const HEADER_BYTES: usize = 24;
    let short = || "its compression header is cut".to_owned();
    let kind = u32::from_le_bytes(*bytes.first_chunk().ok_or_else(short)?);
    let size = bytes
        .get(8..)
        .and_then(|rest| rest.first_chunk())
        .map(|size| u64::from_le_bytes(*size))
        .ok_or_else(short)?;
    let data = bytes.get(HEADER_BYTES..).ok_or_else(short)?;
    let format = match kind {
        ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        other => return Err(format!("its compression is of the unknown type {other}")),
    };
    decompress(format, data, size)
}

/// The content of a `.zdebug_*` section: `ZLIB`, the size as eight big-endian
/// bytes, then zlib data.
fn inflate_older(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let cut = || "it does not begin with ZLIB and a size".to_owned();
    let rest = bytes.strip_prefix(b"ZLIB").ok_or_else(cut)?;
    let (size, data) = rest.split_first_chunk().ok_or_else(cut)?;
    decompress(CompressionFormat::Zlib, data, u64::from_be_bytes(*size))
}

fn decompress(format: CompressionFormat, data: &[u8], size: u64) -> Result<Vec<u8>, String> {
    let limit = (data.len() as u64)
        .saturating_mul(MAX_RATIO)
        .clamp(FREE_BYTES, MAX_SECTION_BYTES);
    if size > limit {
        return Err(format!(
            "it claims to grow from {} to {size} bytes",
            data.len()
        ));
    }
    CompressedData {
        format,
        data,
        uncompressed_size: size,
    }
    .decompress()
    .map(std::borrow::Cow::into_owned)
    .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_cannot_be_is_refused_before_it_is_allocated() {
        let mut bytes = vec![0; 24];
        bytes[0] = 1;
        bytes[8..16].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        bytes.extend([0x78, 0x9c]);
        let error = inflate(&bytes).unwrap_err();
        assert!(error.contains("claims to grow"), "{error}");
    }

    #[test]
    fn cut_headers_and_unknown_types_are_told() {
        assert!(inflate(&[1, 0, 0]).unwrap_err().contains("cut"));
        let mut bytes = vec![0; 32];
        bytes[0] = 9;
        assert!(inflate(&bytes).unwrap_err().contains("unknown type 9"));
        assert!(inflate_older(b"ZLIB").is_err());
    }

    #[test]
    fn zlib_content_comes_back() {
        // zlib stream of "memtrack": stored block.
        let data = [
            0x78, 0x01, 0x01, 0x08, 0x00, 0xf7, 0xff, b'm', b'e', b'm', b't', b'r', b'a', b'c',
            b'k', 0x0f, 0x21, 0x03, 0x55,
        ];
        let mut bytes = vec![0; 24];
        bytes[0] = 1;
        bytes[8..16].copy_from_slice(&8_u64.to_le_bytes());
        bytes.extend(data);
        assert_eq!(inflate(&bytes).unwrap(), b"memtrack");
        let mut older = b"ZLIB".to_vec();
        older.extend(8_u64.to_be_bytes());
        older.extend(data);
        assert_eq!(inflate_older(&older).unwrap(), b"memtrack");
    }
}
