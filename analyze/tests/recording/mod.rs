//! Artifacts and symbols made in memory.

use memtrack_artifact::{
    Architecture, Artifact, ArtifactWriter, ByteString, Ending, Event, EventFlags, EventKind,
    ExitStatus, Frame, FrameId, Header, Losses, ModuleEvent, ModuleRecord, NameSource, Pid,
    StackId, StringId, Svma, SymbolizedStack, Symbols, Termination, Tid,
};
use std::collections::HashMap;

const START_NS: u64 = 1_000_000_000;

/// Events at a clock that goes on by 1 us with each.
pub(crate) struct Recording {
    writer: ArtifactWriter<Vec<u8>>,
    clock_ns: u64,
    pub(crate) losses: Losses,
}

impl Recording {
    pub(crate) fn new() -> Self {
        let header = Header {
            memtrack_version: "0.1.0".into(),
            architecture: Architecture::X86_64,
            page_bytes: 4096,
            start_monotonic_ns: START_NS,
            start_wall_ns: 1_700_000_000_000_000_000,
            kernel: "6.1.0".into(),
            command: vec![
                ByteString(b"./server".to_vec()),
                ByteString(b"\xff".to_vec()),
            ],
            environment_names: Vec::new(),
            working_directory: ByteString::default(),
            options: Vec::new(),
            backend: "bpf".into(),
        };
        Self {
            writer: ArtifactWriter::new(Vec::new(), &header).unwrap(),
            clock_ns: START_NS,
            losses: Losses::default(),
        }
    }

    pub(crate) fn event(&mut self, kind: EventKind, pid: u32, fill: impl FnOnce(&mut Event)) {
        self.clock_ns += 1_000;
        let mut event = Event {
            kind,
            flags: EventFlags::default(),
            start_ns: self.clock_ns,
            time_ns: self.clock_ns,
            pid: Pid(pid),
            tid: Tid(pid),
            address: 0,
            size: 0,
            old_address: 0,
            alignment: 0,
            stack: None,
        };
        fill(&mut event);
        self.writer.event(&event).unwrap();
    }

    pub(crate) fn malloc(&mut self, pid: u32, address: u64, size: u64, stack: Option<u32>) {
        self.event(EventKind::Malloc, pid, |event| {
            event.address = address;
            event.size = size;
            event.stack = stack.map(StackId);
        });
    }

    pub(crate) fn failed(&mut self, kind: EventKind, pid: u32, size: u64, stack: Option<u32>) {
        self.event(kind, pid, |event| {
            event.flags = EventFlags::FAILED;
            event.size = size;
            event.stack = stack.map(StackId);
        });
    }

    pub(crate) fn free(&mut self, pid: u32, address: u64) {
        self.event(EventKind::Free, pid, |event| event.address = address);
    }

    pub(crate) fn fork(&mut self, pid: u32, child: u32) {
        self.event(EventKind::Fork, pid, |event| {
            event.address = u64::from(child);
        });
    }

    pub(crate) fn exec(&mut self, pid: u32) {
        self.event(EventKind::Exec, pid, |_| {});
    }

    pub(crate) fn exit(&mut self, pid: u32) {
        self.event(EventKind::Exit, pid, |_| {});
    }

    pub(crate) fn module(&mut self, pid: u32, event: ModuleEvent) {
        self.clock_ns += 1_000;
        self.module_at_the_same_time(pid, event);
    }

    pub(crate) fn module_at_the_same_time(&mut self, pid: u32, event: ModuleEvent) {
        self.writer
            .module_record(&ModuleRecord {
                time_ns: self.clock_ns,
                pid: Pid(pid),
                tid: Tid(pid),
                event,
            })
            .unwrap();
    }

    pub(crate) fn finish_bytes(self) -> Vec<u8> {
        let ending = Ending {
            end_monotonic_ns: START_NS + 1_000_000_000,
            status: Some(ExitStatus::Code(3)),
            root_pid: Some(Pid(1)),
            null_frees: 7,
        };
        self.writer.finish(&self.losses, &ending).unwrap().0
    }

    pub(crate) fn finish(self) -> Artifact {
        Artifact::from_bytes("recording", self.finish_bytes()).unwrap()
    }
}

/// Symbols, written as lists of frames.
#[derive(Default)]
pub(crate) struct Frames {
    pub(crate) symbols: Symbols,
    ids: HashMap<String, FrameId>,
}

impl Frames {
    /// A stack whose root was reached, innermost frame first: `name` or
    /// `name@file:line`, with `<` in front for an inlined call.
    pub(crate) fn stack(&mut self, frames: &[&str]) -> u32 {
        self.ended(frames, Termination::Root)
    }

    /// The same, cut.
    pub(crate) fn cut_stack(&mut self, frames: &[&str]) -> u32 {
        self.ended(frames, Termination::CopyTooShort { needed_bytes: 8 })
    }

    fn ended(&mut self, frames: &[&str], termination: Termination) -> u32 {
        let start = self.symbols.stack_frames.len() as u32;
        for text in frames {
            let id = self.frame(text);
            self.symbols.stack_frames.push(id);
        }
        self.symbols.stacks.push(SymbolizedStack {
            start,
            len: frames.len() as u32,
            termination,
        });
        self.symbols.stacks.len() as u32 - 1
    }

    fn frame(&mut self, text: &str) -> FrameId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let (inline, shown) = match text.strip_prefix('<') {
            Some(shown) => (true, shown),
            None => (false, text),
        };
        let (name, place) = match shown.split_once('@') {
            Some((name, place)) => (name, place.rsplit_once(':')),
            None => (shown, None),
        };
        let id = FrameId(self.symbols.frames.len() as u32);
        let frame = Frame {
            function: Some(self.string(name)),
            file: place.map(|(file, _)| self.string(file)),
            line: place.map_or(0, |(_, line)| line.parse().unwrap()),
            module: None,
            address: Svma(u64::from(id.0) * 16),
            module_name: None,
            inline,
            signal: false,
            frame_pointer: false,
            source: NameSource::Dwarf,
        };
        self.symbols.frames.push(frame);
        self.ids.insert(text.to_owned(), id);
        id
    }

    fn string(&mut self, text: &str) -> StringId {
        self.symbols.strings.push(text.to_owned());
        StringId(self.symbols.strings.len() as u32 - 1)
    }
}
