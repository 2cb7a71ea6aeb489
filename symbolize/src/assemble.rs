//! The symbol file's tables, from walked stacks and named addresses. Ids are
//! given here, one after another in the order of the input, so that they do not
//! depend on the number of threads.

use crate::{
    Error,
    names::{ModuleNames, Strings},
    spaces::{self, Spaces},
    stacks::Stacks,
    unwind::PhysicalFrame,
};
use memtrack_artifact::{
    Artifact, Frame, FrameId, ModuleAudit, ModuleId, NameSource, StringId, Svma, SymbolizedStack,
    Symbols, Termination,
};
use rustc_hash::FxHashMap;

/// Functions at which every stack ends, though some C libraries give them no
/// unwind information that says so.
const ROOTS: [&str; 6] = [
    "_start",
    "__clone",
    "clone",
    "__clone3",
    "clone3",
    "_dl_start_user",
];

/// The distinct addresses to name, per module, sorted.
pub(crate) fn requests(stacks: &Stacks, modules: usize) -> Vec<Vec<Svma>> {
    let mut requests = vec![Vec::new(); modules];
    for frame in &stacks.frames {
        if let Some(request) = frame.module.and_then(|id| requests.get_mut(id.index())) {
            request.push(frame.address);
        }
    }
    for request in &mut requests {
        request.sort_unstable();
        request.dedup();
    }
    requests
}

/// Puts the parts together.
pub(crate) fn assemble(
    artifact: &Artifact,
    spaces: &Spaces,
    stacks: &Stacks,
    requests: &[Vec<Svma>],
    names: &[ModuleNames],
) -> Result<Symbols, Error> {
    let mut assembly = Assembly {
        artifact,
        spaces,
        requests,
        names,
        strings: Strings::default(),
        frames: Vec::new(),
        index: FxHashMap::default(),
    };
    // The logical frames of each physical one.
    let mut logical: Vec<FrameId> = Vec::new();
    let mut ends: Vec<usize> = Vec::with_capacity(stacks.frames.len());
    for frame in &stacks.frames {
        assembly.add(frame, &mut logical)?;
        ends.push(logical.len());
    }
    let frames_of = |physical: u32| {
        let at = physical as usize;
        let start = at
            .checked_sub(1)
            .and_then(|before| ends.get(before).copied())
            .unwrap_or(0);
        let end = ends.get(at).copied().unwrap_or(start);
        logical.get(start..end).unwrap_or_default()
    };

    let mut stack_frames = Vec::new();
    let mut out = Vec::with_capacity(stacks.stacks.len());
    // Stacks of the same physical frames share their logical ones.
    let mut expanded: FxHashMap<(u32, u32), (usize, usize)> = FxHashMap::default();
    for stack in &stacks.stacks {
        let (start, end) = *expanded.entry((stack.start, stack.len)).or_insert_with(|| {
            let start = stack_frames.len();
            let range = stack.start as usize..stack.start as usize + stack.len as usize;
            for physical in stacks.stack_frames.get(range).unwrap_or_default() {
                stack_frames.extend_from_slice(frames_of(*physical));
            }
            (start, stack_frames.len())
        });
        let too_many = |_| Error::TooMany {
            what: "frames of stacks",
        };
        let last = stack_frames.get(start..end).and_then(<[FrameId]>::last);
        out.push(SymbolizedStack {
            start: u32::try_from(start).map_err(too_many)?,
            len: u32::try_from(end - start).map_err(too_many)?,
            termination: match stack.termination {
                Termination::NoRule if last.is_some_and(|id| assembly.is_root(*id)) => {
                    Termination::Root
                }
                other => other,
            },
        });
    }
    let Assembly {
        strings, frames, ..
    } = assembly;
    Ok(Symbols {
        artifact_fingerprint: artifact.fingerprint(),
        strings: strings.into_inner(),
        frames,
        stack_frames,
        stacks: out,
        audits: audits(requests, names),
    })
}

struct Assembly<'a> {
    artifact: &'a Artifact,
    spaces: &'a Spaces,
    requests: &'a [Vec<Svma>],
    names: &'a [ModuleNames],
    strings: Strings,
    frames: Vec<Frame>,
    index: FxHashMap<Frame, FrameId>,
}

impl Assembly<'_> {
    /// Appends the logical frames of a physical one, innermost first.
    fn add(&mut self, physical: &PhysicalFrame, out: &mut Vec<FrameId>) -> Result<(), Error> {
        let module_name = self.module_name(physical)?;
        let bare = Frame {
            function: None,
            file: None,
            line: 0,
            module: physical.module,
            address: physical.address,
            module_name,
            inline: false,
            signal: physical.signal,
            frame_pointer: physical.frame_pointer,
            source: NameSource::None,
        };
        let names = physical
            .module
            .and_then(|id| Some((self.names.get(id.index())?, self.requests.get(id.index())?)));
        let calls = names
            .and_then(|(names, request)| {
                let position = request.binary_search(&physical.address).ok()?;
                Some(names.calls(position))
            })
            .unwrap_or_default();
        if calls.is_empty() {
            out.push(self.frame(bare)?);
        }
        for call in calls {
            let strings = names.map_or(&[][..], |(names, _)| &names.strings);
            let text = |id: Option<u32>| id.and_then(|id| strings.get(id as usize));
            let frame = Frame {
                function: self.string(text(call.function))?,
                file: self.string(text(call.file))?,
                line: call.line,
                inline: call.inline,
                source: call.source,
                ..bare
            };
            out.push(self.frame(frame)?);
        }
        Ok(())
    }

    fn module_name(&mut self, physical: &PhysicalFrame) -> Result<Option<StringId>, Error> {
        let name = match physical.module {
            Some(id) => self.artifact.modules().get(id.index()).and_then(|module| {
                let first = module.mapped_as.first()?;
                Some(spaces::display_name(&first.path))
            }),
            None => physical
                .mapping
                .and_then(|id| self.spaces.mapping(id))
                .map(|mapping| mapping.name.clone()),
        };
        self.string(name.as_ref())
    }

    fn string(&mut self, text: Option<&String>) -> Result<Option<StringId>, Error> {
        text.map(|text| {
            self.strings
                .intern(text)
                .map(StringId)
                .ok_or(Error::TooMany { what: "strings" })
        })
        .transpose()
    }

    fn frame(&mut self, frame: Frame) -> Result<FrameId, Error> {
        if let Some(id) = self.index.get(&frame) {
            return Ok(*id);
        }
        let id = u32::try_from(self.frames.len())
            .map(FrameId)
            .map_err(|_| Error::TooMany {
                what: "distinct frames",
            })?;
        self.frames.push(frame);
        self.index.insert(frame, id);
        Ok(id)
    }

    fn is_root(&self, id: FrameId) -> bool {
        self.frames
            .get(id.index())
            .and_then(|frame| self.strings.get(frame.function?.0))
            .is_some_and(|name| ROOTS.contains(&name))
    }
}

fn audits(requests: &[Vec<Svma>], names: &[ModuleNames]) -> Vec<ModuleAudit> {
    requests
        .iter()
        .zip(names)
        .map(|(request, names)| {
            let mut audit = ModuleAudit {
                asked: request.len() as u64,
                notes: names.notes.clone(),
                ..ModuleAudit::default()
            };
            for position in 0..request.len() {
                let calls = names.calls(position);
                let count = |holds: bool| u64::from(holds);
                audit.named += count(calls.iter().any(|call| call.function.is_some()));
                audit.with_lines += count(calls.iter().any(|call| call.line > 0));
                audit.with_inlines += count(calls.iter().any(|call| call.inline));
            }
            audit
        })
        .collect()
}

/// The position of a module in tables by module.
pub(crate) fn module_ids(modules: usize) -> impl Iterator<Item = ModuleId> {
    (0..u32::try_from(modules).unwrap_or(u32::MAX)).map(ModuleId)
}
