//! Allocations by stack, function, size and process, gathered on demand.

use crate::{ledger::add, space::Origin};
use std::collections::HashMap;

/// What is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Merged stack.
    pub(crate) stack: u32,
    /// Process and function.
    pub(crate) origin: Origin,
    /// Bytes requested.
    pub(crate) size: u64,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    /// Successful calls.
    pub(crate) calls: u64,
    /// Of these, leaked.
    pub(crate) leaked: u64,
    /// Calls that returned no memory.
    pub(crate) failed: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Details {
    by_key: HashMap<Key, Calls, foldhash::fast::RandomState>,
}

impl Details {
    fn entry(&mut self, stack: u32, origin: Origin, size: u64) -> &mut Calls {
        self.by_key
            .entry(Key {
                stack,
                origin,
                size,
            })
            .or_default()
    }

    pub(crate) fn call(&mut self, stack: u32, origin: Origin, size: u64) {
        add(&mut self.entry(stack, origin, size).calls, 1);
    }

    pub(crate) fn failed(&mut self, stack: u32, origin: Origin, size: u64) {
        add(&mut self.entry(stack, origin, size).failed, 1);
    }

    pub(crate) fn leaked(&mut self, stack: u32, origin: Origin, size: u64) {
        add(&mut self.entry(stack, origin, size).leaked, 1);
    }

    /// In a fixed order.
    pub(crate) fn into_sorted(self) -> Vec<(Key, Calls)> {
        let mut sorted: Vec<_> = self.by_key.into_iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        sorted
    }
}
