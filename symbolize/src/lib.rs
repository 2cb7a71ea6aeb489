//! Stacks to frames, and addresses to names, from the artifact alone.
//!
//! This room unwinds each distinct stack once, by `.eh_frame` or
//! `.debug_frame`, and names each distinct address once, by DWARF or the symbol
//! tables, with every inlined call. It opens no file but the artifact (and, where
//! it is told to, debug files whose build id is a module's), takes no name from
//! the machine it runs on, and judges nothing: what a stack costs is asked
//! elsewhere.
//!
//! Every stack ends with a reason ([`Termination`](memtrack_artifact::Termination));
//! no frame is guessed. Where unwinding gives nothing the recorded chain of
//! frame pointers is used, and its frames are marked.
//!
//! ```
//! use memtrack_artifact::{
//!     Architecture, Artifact, ArtifactWriter, Avma, ByteString, Ending, Header, Losses, Pid,
//!     Silent, StackForm, StackId, StackRecord, Termination, Tid,
//! };
//! use memtrack_symbolize::{Options, symbolize};
//!
//! // An artifact with one stack, of a process whose mappings nobody recorded.
//! let header = Header {
//!     memtrack_version: "1".into(),
//!     architecture: Architecture::X86_64,
//!     page_bytes: 4096,
//!     start_monotonic_ns: 0,
//!     start_wall_ns: 0,
//!     kernel: String::new(),
//!     command: vec![],
//!     environment_names: vec![],
//!     working_directory: ByteString::default(),
//!     options: vec![],
//!     backend: "bpf".into(),
//! };
//! let mut writer = ArtifactWriter::new(Vec::new(), &header)?;
//! let mut registers = [0; 17];
//! registers[16] = 0x40_1000;
//! writer.stack(&StackRecord {
//!     id: StackId(0),
//!     pid: Pid(7),
//!     tid: Tid(7),
//!     time_ns: 1,
//!     form: StackForm::Raw,
//!     registers: &registers,
//!     stack_pointer: Avma(0x7ffc_0000_0000),
//!     window: &[0; 64],
//!     available_bytes: 64,
//!     frame_pointer_chain: &[],
//! })?;
//! let ending = Ending { end_monotonic_ns: 2, status: None, root_pid: None, null_frees: 0 };
//! let (bytes, _) = writer.finish(&Losses::default(), &ending)?;
//!
//! let artifact = Artifact::from_bytes("example", bytes)?;
//! let symbols = symbolize(&artifact, &Options::default(), &Silent)?;
//! assert_eq!(symbols.stacks[0].termination, Termination::NoModule);
//! let frame = symbols.frame(symbols.stack(StackId(0))[0]).unwrap();
//! assert_eq!((frame.address.0, frame.function), (0x40_1000, None));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Threads
//!
//! Stacks are spread over the workers by chunk, addresses by module. Workers
//! share the artifact's bytes, the address spaces and the unwind tables (each
//! built once); they own their caches and their readers of debug information.
//! Ids are given after the parallel steps in the order of the input: the result
//! is the same for any number of threads.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod assemble;
mod demangle;
mod error;
mod names;
mod segments;
mod shield;
mod spaces;
mod stacks;
#[cfg(test)]
mod testing;
mod unwind;

pub use error::Error;

use memtrack_artifact::{Artifact, Progress, Symbols};
use unwind::{Arch, Shared, Tables};

/// Settings of [`symbolize`].
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Worker threads; 0 takes one per core.
    pub threads: usize,
    /// Folders of debug files by build id (`.build-id/xx/yyyy.debug`), for
    /// modules whose debug information is not in the artifact. None by default:
    /// the result then depends on the artifact alone.
    pub debug_dirs: Vec<std::path::PathBuf>,
}

/// Stack of a worker. Readers of debug information recurse with the depth of
/// inlined calls, which is bounded (`names::nesting`); this is ample for it.
const WORKER_STACK_BYTES: usize = 16 << 20;

/// Unwinds every distinct stack and names every distinct address.
///
/// # Errors
///
/// When the worker threads cannot be started, or the artifact has ids or
/// numbers that cannot be right. Stacks that end early, addresses without name
/// and modules that cannot be read are part of the result.
pub fn symbolize(
    artifact: &Artifact,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Symbols, Error> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads)
        .stack_size(WORKER_STACK_BYTES)
        .thread_name(|worker| format!("symbolize-{worker}"))
        .build()
        .map_err(|error| Error::Threads {
            threads: options.threads,
            reason: error.to_string(),
        })?;
    pool.install(|| run(artifact, options, progress))
}

fn run(artifact: &Artifact, options: &Options, progress: &dyn Progress) -> Result<Symbols, Error> {
    let spaces = spaces::Spaces::replay(artifact.module_records(), |mapping| {
        artifact.module_of(mapping)
    });
    let arch = Arch::of(artifact.header().architecture);
    let tables = Tables::new(artifact, arch);
    let shared = Shared {
        artifact,
        spaces: &spaces,
        tables: &tables,
        arch,
        exact_only: false,
    };
    let stacks = stacks::unwind_all(&shared, &artifact.stack_chunks(), progress)?;
    let requests = assemble::requests(&stacks, artifact.modules().len());
    let names = names::name_all(artifact, &requests, &options.debug_dirs, progress);
    let mut symbols = assemble::assemble(artifact, &spaces, &stacks, &requests, &names)?;
    for (id, audit) in assemble::module_ids(symbols.audits.len()).zip(&mut symbols.audits) {
        audit.notes.extend(tables.notes(id));
    }
    Ok(symbols)
}

/// Single stages, for benches and for tests that compare.
#[doc(hidden)]
pub mod stages {
    use super::{Arch, Artifact, Error, Shared, Tables, assemble, names, spaces, stacks};
    use crate::unwind::Walker;
    use memtrack_artifact::{Module, Silent, StackBatch, Svma, SymbolizedStack};

    /// Walked stacks.
    pub struct Walked(stacks::Stacks);

    /// Walks every stack on the current thread pool. `exact_only` leaves the
    /// compact rows aside.
    pub fn unwind(artifact: &Artifact, exact_only: bool) -> Result<Walked, Error> {
        let spaces = spaces::Spaces::replay(artifact.module_records(), |mapping| {
            artifact.module_of(mapping)
        });
        let arch = Arch::of(artifact.header().architecture);
        let tables = Tables::new(artifact, arch);
        let shared = Shared {
            artifact,
            spaces: &spaces,
            tables: &tables,
            arch,
            exact_only,
        };
        stacks::unwind_all(&shared, &artifact.stack_chunks(), &Silent).map(Walked)
    }

    /// Decoded stacks with everything that walking them needs.
    pub struct Decoded<'a> {
        artifact: &'a Artifact,
        batches: Vec<StackBatch>,
        spaces: spaces::Spaces,
        tables: Tables<'a>,
    }

    impl<'a> Decoded<'a> {
        /// Decodes all stacks.
        pub fn new(artifact: &'a Artifact) -> Result<Self, Error> {
            let chunks = artifact.stack_chunks();
            let batches: Result<_, _> = chunks.iter().map(|chunk| chunk.decode()).collect();
            Ok(Self {
                artifact,
                batches: batches?,
                spaces: spaces::Spaces::replay(artifact.module_records(), |mapping| {
                    artifact.module_of(mapping)
                }),
                tables: Tables::new(artifact, Arch::of(artifact.header().architecture)),
            })
        }

        /// Walks all stacks with a new walker: their frames.
        pub fn walk(&self) -> usize {
            let shared = Shared {
                artifact: self.artifact,
                spaces: &self.spaces,
                tables: &self.tables,
                arch: Arch::of(self.artifact.header().architecture),
                exact_only: false,
            };
            let mut walker = Walker::new(&shared);
            let mut frames = Vec::new();
            let mut count = 0;
            for record in self.batches.iter().flat_map(StackBatch::iter) {
                walker.walk(&record, &mut frames);
                count += frames.len();
            }
            count
        }
    }

    impl Walked {
        /// Frames of all stacks.
        pub fn frame_count(&self) -> usize {
            self.0.stack_frames.len()
        }

        /// Each stack's addresses, innermost first, with its end.
        pub fn stacks(&self) -> impl Iterator<Item = (&SymbolizedStack, Vec<Svma>)> {
            self.0.stacks.iter().map(|stack| {
                let frames = self.0.stack_frames.iter().skip(stack.start as usize);
                let addresses = frames
                    .take(stack.len as usize)
                    .filter_map(|frame| self.0.frames.get(*frame as usize))
                    .map(|frame| frame.address);
                (stack, addresses.collect())
            })
        }
    }

    /// Addresses to name, per module.
    pub struct Requests(Vec<Vec<Svma>>);

    /// The distinct addresses of walked stacks.
    pub fn requests(artifact: &Artifact, walked: &Walked) -> Requests {
        Requests(assemble::requests(&walked.0, artifact.modules().len()))
    }

    /// Names addresses: how many there were.
    pub fn name(artifact: &Artifact, requests: &Requests) -> usize {
        names::name_all(artifact, &requests.0, &[], &Silent);
        requests.0.iter().map(Vec::len).sum()
    }

    /// Names addresses of one module in so many parallel parts: the answer as
    /// text.
    pub fn name_module(
        artifact: &Artifact,
        module: &Module,
        addresses: &[Svma],
        pieces: usize,
    ) -> String {
        let names = names::name_module(artifact, module, addresses, &[], pieces);
        (0..addresses.len())
            .flat_map(|position| names.calls(position))
            .map(|call| {
                let text = |id: Option<u32>| {
                    id.and_then(|id| names.strings.get(id as usize))
                        .map_or("?", String::as_str)
                };
                let (function, file) = (text(call.function), text(call.file));
                format!("{function} {file}:{} {:?}\n", call.line, call.source)
            })
            .chain(names.notes.iter().cloned())
            .collect()
    }

    /// Builds the whole unwind table of a module: its rows.
    pub fn compile(artifact: &Artifact, module: &Module) -> usize {
        let arch = Arch::of(artifact.header().architecture);
        Tables::new(artifact, arch).row_count(module.id)
    }
}
