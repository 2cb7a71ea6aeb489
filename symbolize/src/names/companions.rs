//! Which files know a module's names: itself, the debug files that were taken
//! along with it, those that are found by build id on this machine, and the
//! symbols that distributions compress into the module.
//!
//! ```text
//! debug information   own, taken along, found here
//! its shared part     taken along, found here
//! .symtab             own, taken along, found here, .gnu_debugdata
//! .dynsym             own
//! ```
//!
//! The first that has it answers, and the audit says which.

use super::{image::Image, sections::Sections};
use crate::shield::shield;
use memtrack_artifact::{
    AlternateLink, Artifact, BuildId, DebugFileKind, DebugFileProof, Module, ModuleKey,
};
use std::{
    io::Read,
    path::{Path, PathBuf},
};

/// The symbols in a module may grow this much by decompression; they shrink to
/// a fifth or a tenth.
const MAX_RATIO: u64 = 64;
/// Few symbols may grow up to this, bytes.
const FREE_BYTES: u64 = 4 << 20;
/// Memory that the decompressor may take, KiB: the default settings of xz need
/// 9 MiB, the strongest 65 MiB.
const MAX_XZ_KIB: u32 = 80 << 10;

/// The files of one module.
pub(crate) struct Companions<'a> {
    artifact: &'a Artifact,
    module: &'a Module,
    debug: Place,
    alternate: Option<Place>,
    symbols: Place,
}

/// Where sections are read.
enum Place {
    Own,
    Taken(DebugFileKind),
    /// Found on this machine, or unpacked.
    Here(Image),
    /// In the file of the debug information.
    Debug,
}

impl<'a> Companions<'a> {
    /// Finds them; says in `notes` which other files answer, and what was
    /// refused.
    pub(crate) fn find(
        artifact: &'a Artifact,
        module: &'a Module,
        folders: &[PathBuf],
        notes: &mut Vec<String>,
    ) -> Self {
        let mut companions = Self {
            artifact,
            module,
            debug: Place::Own,
            alternate: None,
            symbols: Place::Own,
        };
        let own = companions.own();
        let taken = Sections::of_debug_file(artifact, module, DebugFileKind::Separate);
        if !own.has_debug_info() {
            if taken.has_debug_info() {
                companions.debug = Place::Taken(DebugFileKind::Separate);
                notes.extend(taken_note(module, DebugFileKind::Separate));
            } else if let ModuleKey::BuildId(id) = &module.key
                && let Some((image, path)) = by_build_id(folders, id, module.machine, notes)
                && (Sections::in_memory(&image).has_debug_info() || !has_symbols(&[own, taken]))
            {
                notes.push(here_note("debug information and symbols", &path));
                companions.debug = Place::Here(image);
            }
        }
        companions.find_alternate(folders, notes);
        if has_symbols(&[own]) {
            return companions;
        }
        if has_symbols(&[taken]) {
            companions.symbols = Place::Taken(DebugFileKind::Separate);
            if !matches!(companions.debug, Place::Taken(_)) {
                notes.extend(taken_note(module, DebugFileKind::Separate));
            }
        } else if has_symbols(&[companions.debug()]) {
            companions.symbols = Place::Debug;
        } else if let Some(unpacked) = minimal(&own) {
            match unpacked {
                Ok(image) => {
                    notes.push("functions are named by .gnu_debugdata".to_owned());
                    companions.symbols = Place::Here(image);
                }
                Err(reason) => notes.push(format!(".gnu_debugdata: {reason}")),
            }
        }
        companions
    }

    fn find_alternate(&mut self, folders: &[PathBuf], notes: &mut Vec<String>) {
        let debug = self.debug();
        if !debug.has_debug_info() || debug.info(".gnu_debugaltlink").is_none() {
            return;
        }
        let kind = DebugFileKind::Alternate;
        if !matches!(self.debug, Place::Here(_))
            && let Some(note) = taken_note(self.module, kind)
        {
            notes.push(note);
            self.alternate = Some(Place::Taken(kind));
            return;
        }
        let section = debug.load(".gnu_debugaltlink").ok().flatten();
        let link = section.as_deref().and_then(AlternateLink::parse);
        let Some(link) = link else {
            notes.push(".gnu_debugaltlink is malformed".to_owned());
            return;
        };
        if let Some((image, path)) =
            by_build_id(folders, &link.build_id, self.module.machine, notes)
        {
            notes.push(here_note("shared debug information", &path));
            self.alternate = Some(Place::Here(image));
        } else {
            notes.push(format!(
                "debug information is shared with other files in one of build id {}, which is \
                 not there: some functions are named by symbol tables, or not at all",
                link.build_id
            ));
        }
    }

    /// The module itself.
    pub(crate) fn own(&self) -> Sections<'a> {
        Sections::new(self.artifact, self.module)
    }

    /// The file with the debug information.
    pub(crate) fn debug(&self) -> Sections<'_> {
        self.sections(&self.debug)
    }

    /// The file that the debug information shares with others.
    pub(crate) fn alternate(&self) -> Option<Sections<'_>> {
        self.alternate.as_ref().map(|place| self.sections(place))
    }

    /// The file with `.symtab`.
    pub(crate) fn symbols(&self) -> Sections<'_> {
        self.sections(&self.symbols)
    }

    fn sections<'s>(&'s self, place: &'s Place) -> Sections<'s> {
        match place {
            Place::Own => self.own(),
            Place::Taken(kind) => Sections::of_debug_file(self.artifact, self.module, *kind),
            Place::Here(image) => Sections::in_memory(image),
            Place::Debug => self.debug(),
        }
    }
}

fn has_symbols(files: &[Sections<'_>]) -> bool {
    files.iter().any(|file| file.info(".symtab").is_some())
}

/// The file of a build id that one of the folders has, and its path.
fn by_build_id(
    folders: &[PathBuf],
    id: &BuildId,
    machine: u16,
    notes: &mut Vec<String>,
) -> Option<(Image, PathBuf)> {
    let relative = id.debug_path()?;
    folders.iter().find_map(|folder| {
        let path = folder.join(&relative);
        let opened = shield(|| Image::open(&path, machine, id))
            .unwrap_or_else(|| Err("it is malformed".to_owned()));
        match opened {
            Ok(image) => image.map(|image| (image, path)),
            Err(reason) => {
                notes.push(format!("debug file {} refused: {reason}", path.display()));
                None
            }
        }
    })
}

fn here_note(what: &str, path: &Path) -> String {
    format!("{what} from {}, found by build id", path.display())
}

/// Says which debug file answers, if one of this kind was taken along.
fn taken_note(module: &Module, kind: DebugFileKind) -> Option<String> {
    let file = module.debug_files.iter().find(|file| file.kind == kind)?;
    let what = match kind {
        DebugFileKind::Separate => "debug information and symbols",
        DebugFileKind::Alternate => "shared debug information",
    };
    let how = match file.proof {
        DebugFileProof::BuildId => "build id",
        DebugFileProof::Checksum => ".gnu_debuglink, checksum equal",
    };
    Some(format!(
        "{what} from {}, found by {how}",
        String::from_utf8_lossy(&file.path)
    ))
}

/// The symbols that are compressed into the module by xz, as an ELF file
/// (GDB manual, "Debugging information in a special section").
fn minimal(own: &Sections<'_>) -> Option<Result<Image, String>> {
    let packed = match own.load(".gnu_debugdata") {
        Ok(packed) => packed?,
        Err(reason) => return Some(Err(reason)),
    };
    let unpacked = shield(|| unpack(&packed)).unwrap_or_else(|| Err("it is malformed".to_owned()));
    Some(unpacked.and_then(|bytes| {
        shield(|| Image::from_bytes(&bytes)).unwrap_or_else(|| Err("it is malformed".to_owned()))
    }))
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, String> {
    let limit = (packed.len() as u64)
        .saturating_mul(MAX_RATIO)
        .max(FREE_BYTES);
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new_mem_limit(packed, false, MAX_XZ_KIB)
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot be unpacked: {error}"))?;
    if bytes.len() as u64 > limit {
        return Err(format!(
            "it grows from {} to more than {limit} bytes",
            packed.len()
        ));
    }
    Ok(bytes)
}
