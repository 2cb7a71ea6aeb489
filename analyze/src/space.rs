//! The live blocks of one address space, shared with forked children until
//! somebody changes something.
//!
//! A fork must not copy a million blocks, and fifty thousand forks of one shell
//! must not make look-ups slow. So a space is a stack of maps: the top one is
//! written, the ones below are frozen and shared.
//!
//! ```text
//!   parent:  top P2 ──▶ P1 ─┐                 P1, P0: frozen at forks
//!                           ├──▶ P0
//!   child:   top C0 ────────┘                 P0 is foreign to the child
//! ```
//!
//! A slot holds a block, or `None`: what a lower map has at this address has
//! ended. Each frozen map belongs to one space; a block found in another's map
//! is *inherited*. Frozen maps of one owner are merged when their sizes come
//! within a factor of two, so their number is logarithmic, and taken back when
//! the last child that shared them is gone.

use std::{collections::HashMap, num::NonZeroU32, rc::Rc};

type Slots = HashMap<u64, Option<Block>, foldhash::fast::RandomState>;

/// More frozen maps than this are merged whoever owns them. Only a long chain
/// of generations gets here.
const MAX_LAYERS: usize = 64;

/// The owner of maps that were merged across owners: nobody alive.
const NOBODY: u32 = u32::MAX;

/// Who made a block and by which function; never zero, so that an empty slot
/// costs no space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Origin(pub(crate) NonZeroU32);

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Bytes requested.
    pub(crate) size: u64,
    /// Position of its stack among the merged stacks.
    pub(crate) stack: u32,
    /// Process and function.
    pub(crate) origin: Origin,
}

/// A block that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The block.
    pub(crate) block: Block,
    /// It was a forked child's copy of an ancestor's block.
    pub(crate) inherited: bool,
}

#[derive(Clone, Debug)]
struct Layer {
    owner: u32,
    slots: Rc<Slots>,
}

/// The live blocks of one address space.
#[derive(Debug)]
pub(crate) struct Space {
    id: u32,
    top: Slots,
    /// Oldest first; those of this space's own are the last ones.
    layers: Vec<Layer>,
}

impl Space {
    /// An empty space. `id` is used for no other space.
    pub(crate) fn new(id: u32) -> Self {
        Self {
            id,
            top: Slots::default(),
            layers: Vec::new(),
        }
    }

    /// Its id.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Begins a block. Returns the one that was live at this address, if any:
    /// its end was not seen.
    pub(crate) fn begin(&mut self, address: u64, block: Block) -> Option<Ended> {
        let hidden = match self.top.insert(address, Some(block)) {
            Some(slot) => slot.map(|block| (block, self.id)),
            None => self.find_below(address),
        };
        hidden.map(|found| self.ended(found))
    }

    /// Ends the block at `address`.
    pub(crate) fn end(&mut self, address: u64) -> Option<Ended> {
        if self.layers.is_empty() {
            let block = self.top.remove(&address).flatten()?;
            return Some(Ended {
                block,
                inherited: false,
            });
        }
        let below = self.find_below(address);
        let found = match self.top.remove(&address) {
            Some(slot) => slot.map(|block| (block, self.id)),
            None => below,
        };
        if below.is_some() {
            self.top.insert(address, None);
        }
        found.map(|found| self.ended(found))
    }

    /// What the written map has at an address.
    pub(crate) fn probe(&self, address: u64) -> Option<&Block> {
        self.top.get(&address)?.as_ref()
    }

    fn ended(&self, (block, owner): (Block, u32)) -> Ended {
        Ended {
            block,
            inherited: owner != self.id,
        }
    }

    fn find_below(&self, address: u64) -> Option<(Block, u32)> {
        self.layers.iter().rev().find_map(|layer| {
            let slot = layer.slots.get(&address)?;
            Some(slot.map(|block| (block, layer.owner)))
        })?
    }

    /// A child with a copy of everything. Takes time for what changed since
    /// the last fork, not for what is live.
    pub(crate) fn fork(&mut self, id: u32) -> Self {
        self.settle();
        while let Some(layer) = self.own_layer() {
            if layer.slots.len() > self.top.len().saturating_mul(2) {
                break;
            }
            self.pull_up();
        }
        if !self.top.is_empty() {
            self.layers.push(Layer {
                owner: self.id,
                slots: Rc::new(std::mem::take(&mut self.top)),
            });
        }
        let mut layers = self.layers.clone();
        if layers.len() > MAX_LAYERS {
            layers = merge_foreign(layers);
        }
        Self {
            id,
            top: Slots::default(),
            layers,
        }
    }

    /// Takes back own frozen maps that no child shares any more.
    pub(crate) fn settle(&mut self) {
        while self
            .own_layer()
            .is_some_and(|layer| Rc::strong_count(&layer.slots) == 1)
        {
            self.pull_up();
        }
    }

    fn own_layer(&self) -> Option<&Layer> {
        self.layers.last().filter(|layer| layer.owner == self.id)
    }

    /// Merges the last frozen map into the top.
    fn pull_up(&mut self) {
        let Some(layer) = self.layers.pop() else {
            return;
        };
        let top = std::mem::take(&mut self.top);
        self.top = overlay(layer.slots, top, self.layers.is_empty());
    }

    /// Ends every block that this space did not inherit.
    pub(crate) fn drain_own(mut self, ended: impl FnMut(Block)) {
        while self.own_layer().is_some() {
            self.pull_up();
        }
        self.top.into_values().flatten().for_each(ended);
    }
}

/// `upper` over `lower`. At the `bottom` an ended slot hides nothing and goes.
fn overlay(lower: Rc<Slots>, mut upper: Slots, bottom: bool) -> Slots {
    match Rc::try_unwrap(lower) {
        Ok(mut lower) if lower.len() >= upper.len() => {
            for (address, slot) in upper {
                if slot.is_none() && bottom {
                    lower.remove(&address);
                } else {
                    lower.insert(address, slot);
                }
            }
            lower
        }
        lower => {
            let lower = lower.unwrap_or_else(|shared| (*shared).clone());
            for (address, slot) in lower {
                upper.entry(address).or_insert(slot);
            }
            if bottom {
                upper.retain(|_, slot| slot.is_some());
            }
            upper
        }
    }
}

/// The same blocks in fewer maps, for a space that owns none of them.
fn merge_foreign(layers: Vec<Layer>) -> Vec<Layer> {
    let mut merged: Vec<Layer> = Vec::new();
    let mut rest = layers;
    while let Some(layer) = rest.pop() {
        let mut slots = layer.slots;
        while let Some(next) = rest.pop_if(|next| next.slots.len() <= slots.len().saturating_mul(2))
        {
            let upper = Rc::unwrap_or_clone(slots);
            slots = Rc::new(overlay(next.slots, upper, rest.is_empty()));
        }
        merged.push(Layer {
            owner: NOBODY,
            slots,
        });
    }
    merged.reverse();
    merged
}
