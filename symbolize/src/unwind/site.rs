//! Code addresses: which frame one stands for, and by which rule it is left.

use super::{rule::Rule, walk::Shared};
use crate::{
    segments,
    spaces::{Epoch, EpochId, MappingId},
};
use memtrack_artifact::{Avma, ModuleId, Svma};
use rustc_hash::FxHashMap;

/// Entries of the cache from code address to rule: a power of two. A large
/// program has a few thousand distinct call sites on its allocation paths.
const CACHE_ENTRIES: usize = 16_384;

/// One frame of the machine's stack. Inlined calls are added when it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PhysicalFrame {
    /// The module that holds the code.
    pub(crate) module: Option<ModuleId>,
    /// The address to name: in the module's terms, or the process's where
    /// there is no module. For a caller it lies inside the call instruction.
    pub(crate) address: Svma,
    /// The mapping, where it shows no keyed module.
    pub(crate) mapping: Option<MappingId>,
    /// A signal trampoline.
    pub(crate) signal: bool,
    /// Found by the frame-pointer chain.
    pub(crate) frame_pointer: bool,
}

/// A frame of [`Sites`]: position in [`Sites::frames`].
pub(crate) type FrameIndex = u32;

/// The code addresses that one worker has met.
pub(crate) struct Sites<'a> {
    shared: &'a Shared<'a>,
    cache: Box<[Slot]>,
    /// Distinct frames met so far.
    pub(crate) frames: Vec<PhysicalFrame>,
    index: FxHashMap<PhysicalFrame, FrameIndex>,
    /// By frame: the chunk that used it last, and its number there.
    numbers: Vec<(u32, u32)>,
    chunk: u32,
}

/// What is known of a code address in one state of an address space.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    address: u64,
    epoch: EpochId,
    pub(super) frame: FrameIndex,
    pub(super) rule: Rule,
}

impl Slot {
    /// No address space has this epoch, see [`EpochId`].
    const EMPTY: Self = Self {
        address: 0,
        epoch: EpochId(u32::MAX),
        frame: 0,
        rule: Rule::NONE,
    };
}

/// A code address in its module.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) module: ModuleId,
    pub(super) address: Svma,
}

impl<'a> Sites<'a> {
    /// None known yet.
    pub(super) fn new(shared: &'a Shared<'a>) -> Self {
        Self {
            shared,
            cache: vec![Slot::EMPTY; CACHE_ENTRIES].into_boxed_slice(),
            frames: Vec::new(),
            index: FxHashMap::default(),
            numbers: Vec::new(),
            chunk: 0,
        }
    }

    /// Begins a chunk: frames are numbered anew.
    pub(crate) fn begin_chunk(&mut self) {
        self.chunk += 1;
    }

    /// The number of a frame in this chunk: `next` if it is new there.
    pub(crate) fn number_in_chunk(&mut self, frame: FrameIndex, next: u32) -> u32 {
        match self.numbers.get_mut(frame as usize) {
            Some((chunk, number)) if *chunk == self.chunk => *number,
            Some(slot) => {
                *slot = (self.chunk, next);
                next
            }
            None => next,
        }
    }

    /// The frame and rule of a code address.
    #[inline]
    pub(super) fn slot(&mut self, epoch: &Epoch, address: u64) -> Slot {
        let hash =
            (address ^ u64::from(epoch.id.0).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = (hash >> (64 - CACHE_ENTRIES.trailing_zeros())) as usize;
        match self.cache.get(at) {
            Some(slot) if slot.address == address && slot.epoch == epoch.id => *slot,
            _ => {
                let slot = self.look_up(epoch, address);
                if let Some(place) = self.cache.get_mut(at) {
                    *place = slot;
                }
                slot
            }
        }
    }

    #[cold]
    fn look_up(&mut self, epoch: &Epoch, address: u64) -> Slot {
        let (frame, rule) = match self.place(epoch, address) {
            Some(place) => (
                PhysicalFrame {
                    module: Some(place.module),
                    address: place.address,
                    mapping: None,
                    signal: false,
                    frame_pointer: false,
                },
                self.shared.tables.rule(place.module, place.address),
            ),
            None => (
                PhysicalFrame {
                    module: None,
                    address: Svma(address),
                    mapping: epoch.locate(Avma(address)).map(|located| located.mapping),
                    signal: false,
                    frame_pointer: false,
                },
                Rule::NONE,
            ),
        };
        Slot {
            address,
            epoch: epoch.id,
            frame: self.intern(frame),
            rule,
        }
    }

    /// Where an address lies in its module.
    pub(super) fn place(&self, epoch: &Epoch, address: u64) -> Option<Place> {
        let located = epoch.locate(Avma(address))?;
        let mapping = self.shared.spaces.mapping(located.mapping)?;
        let id = mapping.module?;
        let module = self.shared.artifact.modules().get(id.index())?;
        let page_bytes = self.shared.artifact.header().page_bytes;
        segments::to_svma(module, mapping.file_offset, located.offset, page_bytes).map(|address| {
            Place {
                module: id,
                address,
            }
        })
    }

    /// The frame of an address of which nothing is known.
    pub(super) fn unmapped(&mut self, address: u64) -> FrameIndex {
        self.intern(PhysicalFrame {
            module: None,
            address: Svma(address),
            mapping: None,
            signal: false,
            frame_pointer: false,
        })
    }

    /// The number of a frame.
    pub(super) fn intern(&mut self, frame: PhysicalFrame) -> FrameIndex {
        if let Some(index) = self.index.get(&frame) {
            return *index;
        }
        // Each distinct frame costs a walk step to find; 2^32 of them are
        // beyond any artifact, and would repeat the last.
        let index = FrameIndex::try_from(self.frames.len()).unwrap_or(FrameIndex::MAX);
        self.frames.push(frame);
        self.numbers.push((0, 0));
        self.index.insert(frame, index);
        index
    }
}
