//! Stacks to frames, and addresses to names, from the artifact alone.
//!
//! This room unwinds each distinct stack once, by `.eh_frame` or
//! `.debug_frame`, and names each distinct address once, by DWARF or the symbol
//! tables, with every inlined call. It opens no file but the artifact, takes no
//! name from the machine it runs on, and judges nothing: what a stack costs is
//! asked elsewhere.
//!
//! Every stack ends with a reason ([`Termination`](memtrack_artifact::Termination));
//! no frame is guessed. Where unwinding gives nothing the recorded chain of
//! frame pointers is used, and its frames are marked.
//!
//! ```no_run
//! use memtrack_artifact::{Artifact, Silent};
//! use memtrack_symbolize::{Options, symbolize};
//!
//! let artifact = Artifact::open("run.mtk".as_ref())?;
//! let symbols = symbolize(&artifact, &Options::default(), &Silent)?;
//! for (id, stack) in symbols.stacks.iter().enumerate() {
//!     println!("stack {id}: {} frames, {}", stack.len, stack.termination.describe());
//! }
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
    pool.install(|| run(artifact, progress))
}

fn run(artifact: &Artifact, progress: &dyn Progress) -> Result<Symbols, Error> {
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
    let names = names::name_all(artifact, &requests, progress);
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
        names::name_all(artifact, &requests.0, &Silent);
        requests.0.iter().map(Vec::len).sum()
    }

    /// Builds the whole unwind table of a module: its rows.
    pub fn compile(artifact: &Artifact, module: &Module) -> usize {
        let arch = Arch::of(artifact.header().architecture);
        Tables::new(artifact, arch).row_count(module.id)
    }
}
