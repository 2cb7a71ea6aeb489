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

/// Single stages, for the benches.
#[doc(hidden)]
pub mod stages {
    use super::{Arch, Artifact, Error, Shared, Tables, assemble, names, spaces, stacks};
    use memtrack_artifact::{Module, ModuleId, Silent, Svma};

    /// Addresses to name, per module.
    pub struct Requests(Vec<Vec<Svma>>);

    /// Walks every stack on the calling thread pool: the distinct addresses,
    /// and the number of frames.
    pub fn unwind(artifact: &Artifact) -> Result<(Requests, usize), Error> {
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
        };
        let stacks = stacks::unwind_all(&shared, &artifact.stack_chunks(), &Silent)?;
        let requests = assemble::requests(&stacks, artifact.modules().len());
        Ok((Requests(requests), stacks.stack_frames.len()))
    }

    /// Names addresses: how many there were.
    pub fn name(artifact: &Artifact, requests: &Requests) -> usize {
        names::name_all(artifact, &requests.0, &Silent).len();
        requests.0.iter().map(Vec::len).sum()
    }

    /// Builds the unwind table of a module: its rows.
    pub fn compile(artifact: &Artifact, module: &Module) -> usize {
        let arch = Arch::of(artifact.header().architecture);
        Tables::new(artifact, arch).row_count(ModuleId(module.id.0))
    }
}
