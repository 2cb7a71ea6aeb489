//! Finds the debug information that was split off a file, and makes sure that
//! it is this file's.
//!
//! Searched, in this order (as gdb does it: GDB manual, "Debugging Information
//! in Separate Files"), for a module of build id `abcdef` at `/opt/x/prog`
//! with a `.gnu_debuglink` to `prog.debug`:
//!
//! ```text
//! FOLDER/.build-id/ab/cdef.debug      its build id must be abcdef
//! /opt/x/prog.debug                   its checksum must be the link's, and
//! /opt/x/.debug/prog.debug            its build id no other one
//! FOLDER/opt/x/prog.debug
//! ```
//!
//! Then, from the `.gnu_debugaltlink` of whichever file has the debug
//! information, the file that several of them share; its build id must be the
//! link's. A file that is found and is another one is refused with a note:
//! names of another build are worse than none.

use super::{extract, identity};
use crate::{elf::ElfFile, file::FileBytes};
use memtrack_artifact::{
    AlternateLink, BuildId, DebugFile, DebugFileKind, DebugFileProof, DebugLink, Module, ModuleKey,
    SectionInfo,
};
use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// What `gdb` and the distributions call the folder inside of a folder of
/// debug files where dwz puts what they share.
const DWZ_FOLDER: &[u8] = b"/.dwz/";

/// Where separate debug files are searched, and how long they may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugSearch {
    /// Folders with `.build-id/xx/yyyy.debug` files, and with the folders of
    /// the modules as sub-folders.
    pub folders: Vec<PathBuf>,
    /// Longest debug file that is taken along, bytes. A longer one is noted.
    pub max_bytes: u64,
}

impl Default for DebugSearch {
    fn default() -> Self {
        Self {
            folders: vec![PathBuf::from("/usr/lib/debug")],
            max_bytes: 1 << 30,
        }
    }
}

/// A debug file with the sections that are taken along.
pub(super) struct Taken {
    pub(super) file: DebugFile,
    /// Named with the prefix of its kind.
    pub(super) sections: Vec<SectionInfo>,
    bytes: FileBytes,
}

impl Taken {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What was found of one module.
#[derive(Default)]
pub(super) struct DebugFiles {
    pub(super) taken: Vec<Taken>,
    /// What was refused or is missing, for people.
    pub(super) notes: Vec<String>,
}

/// Searches the debug files of a module, whose file is `elf`.
pub(super) fn find(search: &DebugSearch, elf: &ElfFile<'_>, module: &Module) -> DebugFiles {
    let folders = module_folders(module);
    let mut finder = Finder {
        search,
        elf,
        key: &module.key,
        notes: Vec::new(),
    };
    let mut taken = Vec::new();
    let has_own = extract::has_debug_info(&module.sections, "");
    if !has_own {
        taken.extend(finder.separate(&folders));
    }
    let alternate = match taken.first() {
        Some(separate) => finder.alternate_of(separate),
        None if has_own => finder.alternate(elf.bytes(), &module.sections, "", &folders),
        None => None,
    };
    taken.extend(alternate);
    DebugFiles {
        taken,
        notes: finder.notes,
    }
}

/// The folders in which the module was mapped.
fn module_folders(module: &Module) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for mapped in &module.mapped_as {
        if let Some(folder) = Path::new(OsStr::from_bytes(&mapped.path)).parent()
            && folder.is_absolute()
            && !folders.iter().any(|known| known == folder)
        {
            folders.push(folder.to_owned());
        }
    }
    folders
}

/// What a file must be to be the right one.
enum Proof {
    BuildId(BuildId),
    /// The checksum of a link.
    Checksum(u32),
}

struct Finder<'a> {
    search: &'a DebugSearch,
    elf: &'a ElfFile<'a>,
    key: &'a ModuleKey,
    notes: Vec<String>,
}

impl Finder<'_> {
    fn separate(&mut self, folders: &[PathBuf]) -> Option<Taken> {
        if let ModuleKey::BuildId(id) = self.key
            && let Some(taken) = self.by_build_id(id, DebugFileKind::Separate)
        {
            return Some(taken);
        }
        let section = self.elf.section(b".gnu_debuglink")?;
        let Some(link) = DebugLink::parse(section) else {
            self.notes
                .push(".gnu_debuglink is malformed: its debug file was not searched".to_owned());
            return None;
        };
        let name = Path::new(OsStr::from_bytes(link.name));
        let refused = self.notes.len();
        for path in self.link_candidates(folders, name) {
            let proof = Proof::Checksum(link.checksum);
            if let Some(taken) = self.check(&path, DebugFileKind::Separate, &proof) {
                return Some(taken);
            }
        }
        if self.notes.len() == refused {
            self.notes.push(format!(
                "its debug file {} (.gnu_debuglink) is not there: searched beside it, in .debug \
                 and under {}",
                name.display(),
                self.folder_names()
            ));
        }
        None
    }

    fn link_candidates(&self, folders: &[PathBuf], name: &Path) -> Vec<PathBuf> {
        let beside = folders
            .iter()
            .flat_map(|folder| [folder.join(name), folder.join(".debug").join(name)]);
        let elsewhere = self.search.folders.iter().flat_map(|root| {
            folders.iter().map(move |folder| {
                let inside = folder.strip_prefix("/").unwrap_or(folder);
                root.join(inside).join(name)
            })
        });
        beside.chain(elsewhere).collect()
    }

    /// The shared file of a debug file. The link is relative to where the file
    /// really is: entries of `.build-id` are often symbolic links.
    fn alternate_of(&mut self, separate: &Taken) -> Option<Taken> {
        let path = Path::new(OsStr::from_bytes(&separate.file.path));
        let real = path.canonicalize();
        let folder = real.as_deref().unwrap_or(path).parent()?.to_owned();
        let prefix = DebugFileKind::Separate.section_prefix();
        self.alternate(separate.bytes(), &separate.sections, prefix, &[folder])
    }

    fn alternate(
        &mut self,
        bytes: &[u8],
        sections: &[SectionInfo],
        prefix: &str,
        folders: &[PathBuf],
    ) -> Option<Taken> {
        let info = sections
            .iter()
            .find(|info| info.name.strip_prefix(prefix) == Some(".gnu_debugaltlink"))?;
        let Some(link) = AlternateLink::parse(extract::section_bytes(bytes, info)) else {
            self.notes.push(
                ".gnu_debugaltlink is malformed: the file that it names was not searched"
                    .to_owned(),
            );
            return None;
        };
        let path = Path::new(OsStr::from_bytes(link.path));
        let mut candidates: Vec<PathBuf> = if path.is_absolute() {
            vec![path.to_owned()]
        } else {
            folders.iter().map(|folder| folder.join(path)).collect()
        };
        if let Some(at) = dwz_folder(link.path) {
            let inside = Path::new(OsStr::from_bytes(link.path.get(at + 1..)?));
            candidates.extend(self.search.folders.iter().map(|root| root.join(inside)));
        }
        let refused = self.notes.len();
        let proof = Proof::BuildId(link.build_id.clone());
        for path in candidates {
            if let Some(taken) = self.check(&path, DebugFileKind::Alternate, &proof) {
                return Some(taken);
            }
        }
        let taken = self.by_build_id(&link.build_id, DebugFileKind::Alternate);
        if taken.is_none() && self.notes.len() == refused {
            self.notes.push(format!(
                "the file {} that its debug information shares with others (build id {}) is not \
                 there, nor under {}: some functions have no names",
                path.display(),
                link.build_id,
                self.folder_names()
            ));
        }
        taken
    }

    fn by_build_id(&mut self, id: &BuildId, kind: DebugFileKind) -> Option<Taken> {
        let relative = id.debug_path()?;
        let search = self.search;
        search.folders.iter().find_map(|folder| {
            self.check(&folder.join(&relative), kind, &Proof::BuildId(id.clone()))
        })
    }

    /// Takes the file at `path` if it is there and the right one.
    fn check(&mut self, path: &Path, kind: DebugFileKind, proof: &Proof) -> Option<Taken> {
        match self.take(path, kind, proof) {
            Ok(taken) => taken,
            Err(reason) => {
                let note = format!("debug file {} refused: {reason}", path.display());
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
                None
            }
        }
    }

    fn take(
        &self,
        path: &Path,
        kind: DebugFileKind,
        proof: &Proof,
    ) -> Result<Option<Taken>, String> {
        let failed = |error: io::Error| format!("it cannot be read: {error}");
        let file = match identity::open_regular(path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let len = file.metadata().map_err(failed)?.len();
        if len > self.search.max_bytes {
            return Err(format!(
                "it has {len} bytes, and at most {} are taken along (--max-debug)",
                self.search.max_bytes
            ));
        }
        let bytes = FileBytes::map(&file).map_err(failed)?;
        let elf = ElfFile::parse(&bytes).map_err(|error| error.to_string())?;
        if elf.machine() != self.elf.machine() {
            return Err(format!(
                "it is for another architecture (e_machine {})",
                elf.machine()
            ));
        }
        let build_id = elf.build_id();
        let proof = self.prove(proof, build_id.as_ref(), &bytes)?;
        let mut sections = Vec::new();
        extract::debug_sections(&elf, kind.section_prefix(), &mut sections);
        // What is shared may be strings alone.
        let has_symbols = || {
            let mut names = sections.iter().map(|info| info.name.as_str());
            names.any(|name| name.strip_prefix(kind.section_prefix()) == Some(".symtab"))
        };
        let is_useful = match kind {
            DebugFileKind::Separate => {
                has_symbols() || extract::has_debug_info(&sections, kind.section_prefix())
            }
            DebugFileKind::Alternate => !sections.is_empty(),
        };
        if !is_useful {
            return Err("it holds neither debug information nor symbols".to_owned());
        }
        Ok(Some(Taken {
            file: DebugFile {
                kind,
                path: path.as_os_str().as_bytes().to_vec(),
                proof,
                build_id,
                file_bytes: len,
            },
            sections,
            bytes,
        }))
    }

    fn prove(
        &self,
        proof: &Proof,
        found: Option<&BuildId>,
        bytes: &[u8],
    ) -> Result<DebugFileProof, String> {
        let shown = |id: Option<&BuildId>| id.map_or_else(|| "none".to_owned(), BuildId::to_string);
        match proof {
            Proof::BuildId(wanted) if found == Some(wanted) => Ok(DebugFileProof::BuildId),
            Proof::BuildId(wanted) => Err(format!(
                "its build id differs: {}, wanted is {wanted}",
                shown(found)
            )),
            Proof::Checksum(wanted) => {
                if let (ModuleKey::BuildId(own), Some(found)) = (self.key, found)
                    && own != found
                {
                    return Err(format!("its build id differs: {found}, wanted is {own}"));
                }
                let checksum = crc32fast::hash(bytes);
                if checksum != *wanted {
                    return Err(format!(
                        "its checksum differs: {checksum:08x}, .gnu_debuglink says {wanted:08x}"
                    ));
                }
                Ok(DebugFileProof::Checksum)
            }
        }
    }

    fn folder_names(&self) -> String {
        let names: Vec<String> = self
            .search
            .folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        if names.is_empty() {
            return "no folder of debug files (--debug-dir)".to_owned();
        }
        names.join(", ")
    }
}

/// Nothing is there: the usual case, and no reason for a note.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Where the part of a path begins that stands below a folder of debug files.
fn dwz_folder(path: &[u8]) -> Option<usize> {
    path.windows(DWZ_FOLDER.len())
        .position(|part| part == DWZ_FOLDER)
}

#[cfg(test)]
mod tests;
