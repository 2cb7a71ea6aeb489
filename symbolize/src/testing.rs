//! Small builders for unit tests.

use memtrack_artifact::{
    Avma, FileIdentity, FileOffset, Mapping, Module, ModuleEvent, ModuleId, ModuleKey,
    ModuleRecord, Pid, Segment, Svma, Tid,
};

/// A `PT_LOAD` header whose memory size is its file size.
pub(crate) fn load(flags: u32, file_offset: u64, address: u64, bytes: u64) -> Segment {
    Segment {
        kind: 1,
        flags,
        file_offset: FileOffset(file_offset),
        address: Svma(address),
        file_bytes: bytes,
        memory_bytes: bytes,
    }
}

/// A module with these segments and nothing else.
pub(crate) fn module(segments: Vec<Segment>) -> Module {
    Module {
        id: ModuleId(0),
        key: ModuleKey::Content([0; 16]),
        mapped_as: Vec::new(),
        machine: 62,
        elf_type: 3,
        file_bytes: 0,
        segments,
        sections: Vec::new(),
        debug_files: Vec::new(),
        notes: Vec::new(),
    }
}

/// A mapping of `path`.
pub(crate) fn mapping(path: &str, start: u64, len: u64, file_offset: u64) -> Mapping {
    Mapping {
        start: Avma(start),
        len,
        file_offset: FileOffset(file_offset),
        protection: 5,
        file: FileIdentity::default(),
        path: path.as_bytes().to_vec(),
    }
}

/// A record of a process's main thread.
pub(crate) fn record(time_ns: u64, pid: u32, event: ModuleEvent) -> ModuleRecord {
    ModuleRecord {
        time_ns,
        pid: Pid(pid),
        tid: Tid(pid),
        event,
    }
}
