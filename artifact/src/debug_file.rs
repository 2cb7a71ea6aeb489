//! Debug files that stand beside a module: what is kept of them, and how a
//! module names them. Whoever searches for one (while recording, or later)
//! reads the links with the functions here, so that both find the same files.

use crate::module::{BuildId, serde_bytes_vec};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Longest build id taken from a link, bytes. Linkers write 8 to 20.
const MAX_BUILD_ID_BYTES: usize = 64;

/// What a debug file is to its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DebugFileKind {
    /// It holds the debug information and symbols that were stripped off.
    Separate,
    /// It holds what several debug files share (`.gnu_debugaltlink`, as dwz
    /// writes it).
    Alternate,
}

impl DebugFileKind {
    /// What stands before the names of its sections in [`Module::sections`](crate::Module::sections).
    /// No section name begins so: those taken of a file begin with a dot.
    #[must_use]
    pub fn section_prefix(self) -> &'static str {
        match self {
            Self::Separate => "separate:",
            Self::Alternate => "alternate:",
        }
    }
}

/// How a debug file was found, and by what it was checked to be the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DebugFileProof {
    /// Its build id is the one that the module, or the link to it, names.
    BuildId,
    /// Its checksum is the one that the module's `.gnu_debuglink` names.
    Checksum,
}

/// A debug file of which sections were taken along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugFile {
    /// What it is to the module.
    pub kind: DebugFileKind,
    /// The path at which it was found.
    #[serde(with = "serde_bytes_vec")]
    pub path: Vec<u8>,
    /// By what it was checked.
    pub proof: DebugFileProof,
    /// Its build id, where it has one.
    pub build_id: Option<BuildId>,
    /// The whole file's length in bytes.
    pub file_bytes: u64,
}

impl BuildId {
    /// Where a folder of debug files keeps the one of this build id, relative
    /// to that folder: `.build-id/ab/cdef.debug`. `None` for an id of one byte
    /// or none, which names no file.
    #[must_use]
    pub fn debug_path(&self) -> Option<PathBuf> {
        let hex = self.to_string();
        let (folder, rest) = hex.split_at_checked(2)?;
        (!rest.is_empty()).then(|| {
            [".build-id", folder, &format!("{rest}.debug")]
                .iter()
                .collect()
        })
    }
}

/// A `.gnu_debuglink`: the name of the file with the debug information, and
/// its checksum (GDB manual, "Debugging Information in Separate Files").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugLink<'a> {
    /// A plain file name: no path, not `.` or `..`.
    pub name: &'a [u8],
    /// CRC-32 (IEEE 802.3) of the whole file.
    pub checksum: u32,
}

impl<'a> DebugLink<'a> {
    /// Reads the section: the name with its NUL, zeros up to a multiple of
    /// four bytes, the checksum. `None` when it is malformed, or when the name
    /// leads to another folder.
    #[must_use]
    pub fn parse(section: &'a [u8]) -> Option<Self> {
        let end = section.iter().position(|byte| *byte == 0)?;
        let name = section.get(..end)?;
        let at = (end + 1).next_multiple_of(4);
        let checksum = section.get(at..)?.first_chunk()?;
        let is_plain = !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/');
        is_plain.then(|| Self {
            name,
            checksum: u32::from_le_bytes(*checksum),
        })
    }
}

/// A `.gnu_debugaltlink`: the file that holds what several debug files share,
/// as dwz writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlternateLink<'a> {
    /// A path, absolute or relative to the folder of the file with the link.
    pub path: &'a [u8],
    /// The build id of the file.
    pub build_id: BuildId,
}

impl<'a> AlternateLink<'a> {
    /// Reads the section: the path with its NUL, then the build id up to the
    /// end. `None` when it is malformed.
    #[must_use]
    pub fn parse(section: &'a [u8]) -> Option<Self> {
        let end = section.iter().position(|byte| *byte == 0)?;
        let (path, id) = (section.get(..end)?, section.get(end + 1..)?);
        let is_whole = !path.is_empty() && (1..=MAX_BUILD_ID_BYTES).contains(&id.len());
        is_whole.then(|| Self {
            path,
            build_id: BuildId(id.to_vec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_name_files() {
        let path = BuildId(vec![0xab, 0xcd, 0x01]).debug_path();
        assert_eq!(path, Some(PathBuf::from(".build-id/ab/cd01.debug")));
        assert_eq!(BuildId(vec![0xab]).debug_path(), None);
        assert_eq!(BuildId(Vec::new()).debug_path(), None);
    }

    #[test]
    fn links_are_read_with_their_padding() {
        for name in ["a", "ab", "abc", "abcd", "prog.debug"] {
            let mut section = name.as_bytes().to_vec();
            section.push(0);
            section.resize(section.len().next_multiple_of(4), 0);
            section.extend(0x1234_5678_u32.to_le_bytes());
            let link = DebugLink::parse(&section).unwrap();
            assert_eq!((link.name, link.checksum), (name.as_bytes(), 0x1234_5678));
            for len in 0..section.len() {
                assert_eq!(DebugLink::parse(&section[..len]), None, "{name} {len}");
            }
        }
    }

    #[test]
    fn links_to_other_folders_are_none() {
        for name in ["", ".", "..", "../x", "/etc/passwd", "a/b"] {
            let mut section = name.as_bytes().to_vec();
            section.resize((name.len() + 1).next_multiple_of(4), 0);
            section.extend([0; 4]);
            assert_eq!(DebugLink::parse(&section), None, "{name}");
        }
    }

    #[test]
    fn alternate_links_have_a_path_and_an_id() {
        let link = AlternateLink::parse(b"../x.dwz\0\x01\x02").unwrap();
        assert_eq!(link.path, b"../x.dwz");
        assert_eq!(link.build_id, BuildId(vec![1, 2]));
        for bad in [&b""[..], b"x", b"x\0", b"\0\x01", &[1; 70]] {
            assert_eq!(AlternateLink::parse(bad), None);
        }
        let mut long = b"x\0".to_vec();
        long.resize(80, 7);
        assert_eq!(AlternateLink::parse(&long), None);
    }
}
