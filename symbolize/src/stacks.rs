//! Every distinct stack, walked once.

use crate::{
    Error,
    unwind::{PhysicalFrame, Shared, Walker},
};
use memtrack_artifact::{Progress, StackChunk, StackId, SymbolizedStack, Termination};
use rayon::prelude::*;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::{
    hash::BuildHasher,
    sync::{Mutex, PoisonError},
};

/// All stacks as lists of distinct frames.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    /// Distinct frames, in the order of first use.
    pub(crate) frames: Vec<PhysicalFrame>,
    /// Positions in `frames`, stack after stack.
    pub(crate) stack_frames: Vec<u32>,
    /// By stack id: ranges of `stack_frames`, one range for all stacks of the
    /// same frames.
    pub(crate) stacks: Vec<SymbolizedStack>,
}

/// A stack that no record describes.
pub(crate) const NOT_RECORDED: SymbolizedStack = SymbolizedStack {
    start: 0,
    len: 0,
    termination: Termination::NotRecorded,
};

/// The stacks of one chunk; frames are numbered by first use in the chunk, so
/// that the numbers do not depend on which worker did what before.
#[derive(Debug, Default)]
struct ChunkStacks {
    frames: Vec<PhysicalFrame>,
    stack_frames: Vec<u32>,
    stacks: Vec<(StackId, usize, Termination)>,
}

/// Walks the stacks of all chunks.
pub(crate) fn unwind_all(
    shared: &Shared<'_>,
    chunks: &[StackChunk<'_>],
    progress: &dyn Progress,
) -> Result<Stacks, Error> {
    let total: usize = chunks.iter().map(|chunk| chunk.count).sum();
    progress.start("unwinding stacks", total as u64);
    let idle = Mutex::new(Vec::new());
    let mut merge = Merge {
        total,
        index: FxHashMap::default(),
        chains: FxHashMap::default(),
        out: Stacks::default(),
    };
    // Batches bound what is decoded and not yet merged.
    for batch in chunks.chunks(rayon::current_num_threads() * 4) {
        let walked: Vec<ChunkStacks> = batch
            .par_iter()
            .map(|chunk| {
                let walker = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let mut walker = walker.unwrap_or_else(|| Walker::new(shared));
                let stacks = walk_chunk(&mut walker, chunk);
                idle.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(walker);
                progress.advance(chunk.count as u64);
                stacks
            })
            .collect();
        for chunk in walked {
            merge.add(chunk)?;
        }
    }
    progress.finish();
    Ok(merge.out)
}

fn walk_chunk(walker: &mut Walker<'_>, chunk: &StackChunk<'_>) -> ChunkStacks {
    let mut out = ChunkStacks::default();
    // A damaged chunk is told by the artifact itself; its stacks stay "not
    // recorded".
    let Ok(batch) = chunk.decode() else {
        return out;
    };
    let mut frames = Vec::new();
    walker.sites.begin_chunk();
    for record in batch.iter() {
        let termination = walker.walk(&record, &mut frames);
        out.stacks.push((record.id, frames.len(), termination));
        for frame in &frames {
            let next = u32::try_from(out.frames.len()).unwrap_or(u32::MAX);
            let number = walker.sites.number_in_chunk(*frame, next);
            if number == next {
                out.frames.extend(walker.sites.frames.get(*frame as usize));
            }
            out.stack_frames.push(number);
        }
    }
    out
}

struct Merge {
    total: usize,
    index: FxHashMap<PhysicalFrame, u32>,
    /// Where a chain of frames with this hash begins in `out.stack_frames`.
    /// Different local variables make different stacks of one chain: most of
    /// them share theirs.
    chains: FxHashMap<u64, usize>,
    out: Stacks,
}

impl Merge {
    fn add(&mut self, chunk: ChunkStacks) -> Result<(), Error> {
        let out = &mut self.out;
        let mut numbers = Vec::with_capacity(chunk.frames.len());
        for frame in chunk.frames {
            let next = u32::try_from(out.frames.len()).map_err(|_| Error::TooMany {
                what: "distinct frames",
            })?;
            let number = *self.index.entry(frame).or_insert(next);
            if number == next {
                out.frames.push(frame);
            }
            numbers.push(number);
        }
        let mut rest = chunk.stack_frames.as_slice();
        let mut chain = Vec::new();
        for (id, len, termination) in chunk.stacks {
            let (frames, after) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            rest = after;
            let Some(slot) = slot(&mut out.stacks, id, self.total)? else {
                continue;
            };
            chain.clear();
            chain.extend(
                frames
                    .iter()
                    .filter_map(|frame| numbers.get(*frame as usize)),
            );
            let start = shared_start(&mut self.chains, &mut out.stack_frames, &chain);
            let (Ok(start), Ok(len)) = (u32::try_from(start), u32::try_from(chain.len())) else {
                return Err(Error::TooMany {
                    what: "frames of stacks",
                });
            };
            *slot = SymbolizedStack {
                start,
                len,
                termination,
            };
        }
        Ok(())
    }
}

/// Where `chain` stands in `stack_frames`; it is appended if it is new.
fn shared_start(
    chains: &mut FxHashMap<u64, usize>,
    stack_frames: &mut Vec<u32>,
    chain: &[u32],
) -> usize {
    let end = stack_frames.len();
    let start = *chains.entry(FxBuildHasher.hash_one(chain)).or_insert(end);
    let known = start
        .checked_add(chain.len())
        .and_then(|end| stack_frames.get(start..end));
    if known == Some(chain) {
        return start;
    }
    // New, or another chain of the same hash: then this one is not shared.
    stack_frames.extend_from_slice(chain);
    end
}

/// The place of a stack's answer; `None` when it has one already (a repeat).
fn slot(
    stacks: &mut Vec<SymbolizedStack>,
    id: StackId,
    total: usize,
) -> Result<Option<&mut SymbolizedStack>, Error> {
    // Ids are dense; gaps are lost records. Many can be lost, but not so many
    // that this table outgrows the artifact.
    let limit = total.saturating_mul(64).saturating_add(1 << 20);
    if id.index() >= limit {
        return Err(Error::ImplausibleStackId {
            id: id.0,
            stacks: total,
        });
    }
    if id.index() >= stacks.len() {
        stacks.resize(id.index() + 1, NOT_RECORDED);
    }
    Ok(stacks
        .get_mut(id.index())
        .filter(|stack| stack.termination == Termination::NotRecorded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_far_beyond_the_number_of_stacks_are_refused_before_anything_is_allocated() {
        let mut stacks = Vec::new();
        let error = slot(&mut stacks, StackId(u32::MAX), 10).unwrap_err();
        assert!(error.to_string().contains("4294967295"), "{error}");
        assert!(stacks.is_empty());
    }

    #[test]
    fn equal_chains_share_their_place() {
        let (mut chains, mut frames) = (FxHashMap::default(), Vec::new());
        let mut place = |chain: &[u32]| shared_start(&mut chains, &mut frames, chain);
        assert_eq!(place(&[1, 2, 3]), 0);
        assert_eq!(place(&[1, 2]), 3);
        assert_eq!(place(&[1, 2, 3]), 0);
        assert_eq!(place(&[1, 2]), 3);
        assert_eq!(place(&[]), 5);
        assert_eq!(place(&[]), 5);
        assert_eq!(frames, [1, 2, 3, 1, 2]);
    }

    #[test]
    fn a_repeat_does_not_replace_the_first() {
        let mut stacks = Vec::new();
        slot(&mut stacks, StackId(2), 3)
            .unwrap()
            .unwrap()
            .termination = Termination::Root;
        assert!(slot(&mut stacks, StackId(2), 3).unwrap().is_none());
        assert!(slot(&mut stacks, StackId(1), 3).unwrap().is_some());
        assert_eq!(stacks.len(), 3);
    }
}
