//! The same stacks by another unwinder.

use super::{MappedBytes, Recording, Stack, module_of};
use framehop::{
    ExplicitModuleSectionInfo, Module, Unwinder,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};
use memtrack_artifact::{Artifact, Mapping};
use std::collections::HashMap;

/// An unwinder that knows every mapping of a recording, and its cache.
pub(crate) struct Peer {
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
}

impl Peer {
    pub(crate) fn new(recording: &Recording) -> Self {
        let mut unwinder = UnwinderX86_64::new();
        for (_, mapping) in recording.mappings() {
            if let Some(file) = file_of(recording, &mapping) {
                let path = String::from_utf8_lossy(&mapping.path).into_owned();
                unwinder.add_module(peer_module(path, file, &mapping));
            }
        }
        Self {
            unwinder,
            cache: CacheX86_64::new(),
        }
    }

    /// Look-up addresses, innermost first, and whether the root was reached.
    pub(crate) fn walk(&mut self, stack: &Stack, out: &mut Vec<u64>) -> bool {
        let (rbp, rsp) = (stack.registers[6], stack.registers[7]);
        let registers = UnwindRegsX86_64::new(stack.registers[16], rsp, rbp);
        let mut read = |address: u64| {
            let at = usize::try_from(address.wrapping_sub(rsp)).map_err(drop)?;
            let word = stack.window.get(at..).and_then(<[u8]>::first_chunk);
            word.map(|word| u64::from_le_bytes(*word)).ok_or(())
        };
        let mut frames =
            self.unwinder
                .iter_frames(stack.registers[16], registers, &mut self.cache, &mut read);
        out.clear();
        loop {
            match frames.next() {
                Ok(Some(frame)) => out.push(frame.address_for_lookup()),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

/// What was added to the addresses of each module, by its number.
pub(crate) fn biases(recording: &Recording, artifact: &Artifact) -> HashMap<u32, u64> {
    let mut biases = HashMap::new();
    for (_, mapping) in recording.mappings() {
        let file = file_of(recording, &mapping);
        if let (Some(module), Some(file)) = (artifact.module_of(&mapping), file) {
            biases.insert(module.0, bias(file, &mapping));
        }
    }
    biases
}

fn file_of<'r>(recording: &'r Recording, mapping: &Mapping) -> Option<&'r MappedBytes> {
    let path = String::from_utf8_lossy(&mapping.path);
    recording
        .files
        .iter()
        .find(|file| file.path.as_os_str() == path.as_ref())
}

/// What is added to a file's addresses in a process that mapped it there.
fn bias(file: &MappedBytes, mapping: &Mapping) -> u64 {
    let (module, _) = module_of(file);
    let segment = module
        .segments
        .iter()
        .find(|segment| segment.kind == 1 && segment.flags & 1 == 1)
        .unwrap();
    let first = segment.address.0 - segment.file_offset.0 + mapping.file_offset.0;
    mapping.start.0.wrapping_sub(first)
}

fn peer_module(name: String, file: &MappedBytes, mapping: &Mapping) -> Module<Vec<u8>> {
    let (module, contents) = module_of(file);
    let bias = bias(file, mapping);
    let section = |name: &str| {
        module
            .sections
            .iter()
            .zip(&contents)
            .find(|(info, _)| info.name == name)
    };
    let range = |name| {
        section(name).map(|(info, bytes)| info.address.0..info.address.0 + bytes.len() as u64)
    };
    let data = |name| section(name).map(|(_, bytes)| bytes.to_vec());
    Module::new(
        name,
        mapping.start.0..mapping.start.0 + mapping.len,
        bias,
        ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: range(".eh_frame"),
            eh_frame: data(".eh_frame"),
            eh_frame_hdr_svma: range(".eh_frame_hdr"),
            eh_frame_hdr: data(".eh_frame_hdr"),
            ..Default::default()
        },
    )
}
