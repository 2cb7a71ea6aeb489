//! Stacks that consist of the same frames are one stack.
//!
//! Capture may ship a stack several times (its keys are finer than frames, and
//! a full map ships again); costs are gathered by what the stack *is*, its
//! frames and the reason why it ends.

use memtrack_artifact::{FrameId, StackId, Symbols};
use std::collections::HashMap;

/// The merged stack of everything that has no frames: stacks were off, lost,
/// or not in the symbol file.
pub(crate) const UNRECORDED: u32 = 0;

/// From stack ids to merged stacks.
#[derive(Debug)]
pub(crate) struct MergedStacks {
    /// By [`StackId`].
    merged: Vec<u32>,
    /// By merged stack: the first id with these frames. Position 0 is
    /// [`UNRECORDED`] and has none.
    first: Vec<Option<StackId>>,
}

impl MergedStacks {
    /// Merges the stacks of `symbols`.
    pub(crate) fn new(symbols: &Symbols) -> Self {
        let mut known: HashMap<(&[FrameId], &str), u32, foldhash::fast::RandomState> =
            HashMap::default();
        let mut first = vec![None];
        let merged = (0u32..)
            .zip(&symbols.stacks)
            .map(|(id, stack)| {
                let frames = symbols.stack(StackId(id));
                if frames.is_empty() {
                    return UNRECORDED;
                }
                *known
                    .entry((frames, stack.termination.describe()))
                    .or_insert_with(|| {
                        first.push(Some(StackId(id)));
                        // There are no more merged stacks than ids, which are
                        // 32 bits wide.
                        (first.len() - 1) as u32
                    })
            })
            .collect();
        Self { merged, first }
    }

    /// The merged stack of an event's stack id (`u32::MAX`: it has none).
    pub(crate) fn merged(&self, stack: u32) -> u32 {
        self.merged
            .get(stack as usize)
            .copied()
            .unwrap_or(UNRECORDED)
    }

    /// The number of merged stacks.
    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// A stack id that shows the frames of a merged stack.
    pub(crate) fn first(&self, merged: usize) -> Option<StackId> {
        self.first.get(merged).copied().flatten()
    }
}
