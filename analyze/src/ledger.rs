//! What each stack costs, and what was live at the peak.
//!
//! The peak's composition is exact in one pass, at constant work an event. The
//! ledger counts new peaks; each entry remembers which peak its `peak_*`
//! values belong to. An entry that has not changed since the last peak needs
//! none: its live values are the peak's. So only the first change after a peak
//! saves:
//!
//! ```text
//! event        live a  live b  total  peak no.   a: (peak, no.)  b: (peak, no.)
//! a +10            10       0     10  1          live            live
//! b +5             10       5     15  2          live            live
//! a -10             0       5      5  2          (10, 2)         live
//! a +4              4       5      9  2          (10, 2)         live
//! at the end: a had 10, b had 5 at peak number 2
//! ```

use crate::findings::Costs;

/// What changes with each block of one stack. One cache line: with many stacks
/// the replay waits for little else.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Entry {
    live_bytes: u64,
    live_blocks: u64,
    allocations: u64,
    allocated_bytes: u64,
    peak_bytes: u64,
    peak_blocks: u64,
    /// The peak that `peak_*` were saved for.
    saved_for: u64,
}

/// What changes seldom.
#[derive(Clone, Copy, Debug, Default)]
struct Rare {
    leaked_bytes: u64,
    leaked_blocks: u64,
    failed: u64,
}

impl Entry {
    /// To be called before live values change.
    fn save(&mut self, peak_number: u64) {
        if self.saved_for != peak_number {
            self.peak_bytes = self.live_bytes;
            self.peak_blocks = self.live_blocks;
            self.saved_for = peak_number;
        }
    }
}

/// Sums over everything live and everything so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    /// Live now.
    pub(crate) live_bytes: u64,
    /// Live now.
    pub(crate) live_blocks: u64,
    /// Successful calls so far.
    pub(crate) allocations: u64,
    /// Bytes of them.
    pub(crate) allocated_bytes: u64,
}

/// Costs by stack.
#[derive(Debug)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    rare: Vec<Rare>,
    level: Level,
    peak: Level,
    peak_at_ns: u64,
    peak_number: u64,
}

impl Ledger {
    /// For stacks numbered below `stacks`.
    pub(crate) fn new(stacks: usize) -> Self {
        Self {
            entries: vec![Entry::default(); stacks],
            rare: vec![Rare::default(); stacks],
            level: Level::default(),
            peak: Level::default(),
            peak_at_ns: 0,
            peak_number: 0,
        }
    }

    /// A block begins.
    pub(crate) fn begin(&mut self, time_ns: u64, stack: u32, size: u64) {
        let Some(entry) = self.entries.get_mut(stack as usize) else {
            return;
        };
        entry.save(self.peak_number);
        add(&mut entry.allocations, 1);
        add(&mut entry.allocated_bytes, size);
        add(&mut entry.live_bytes, size);
        add(&mut entry.live_blocks, 1);
        add(&mut self.level.allocations, 1);
        add(&mut self.level.allocated_bytes, size);
        add(&mut self.level.live_bytes, size);
        add(&mut self.level.live_blocks, 1);
        if self.level.live_bytes > self.peak.live_bytes {
            self.peak = self.level;
            self.peak_at_ns = time_ns;
            self.peak_number += 1;
        }
    }

    /// A block ends.
    pub(crate) fn end(&mut self, stack: u32, size: u64) {
        let Some(entry) = self.entries.get_mut(stack as usize) else {
            return;
        };
        entry.save(self.peak_number);
        subtract(&mut entry.live_bytes, size);
        subtract(&mut entry.live_blocks, 1);
        subtract(&mut self.level.live_bytes, size);
        subtract(&mut self.level.live_blocks, 1);
    }

    /// A block ends with its process.
    pub(crate) fn leak(&mut self, stack: u32, size: u64) {
        self.end(stack, size);
        if let Some(rare) = self.rare.get_mut(stack as usize) {
            add(&mut rare.leaked_bytes, size);
            add(&mut rare.leaked_blocks, 1);
        }
    }

    /// A call returned no memory.
    pub(crate) fn fail(&mut self, stack: u32) {
        if let Some(rare) = self.rare.get_mut(stack as usize) {
            add(&mut rare.failed, 1);
        }
    }

    /// Live bytes of one stack.
    pub(crate) fn live_bytes(&self, stack: u32) -> u64 {
        self.entries
            .get(stack as usize)
            .map_or(0, |entry| entry.live_bytes)
    }

    /// Sums now.
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Sums at the peak, and when it was (`CLOCK_MONOTONIC` ns).
    pub(crate) fn peak(&self) -> (Level, u64) {
        (self.peak, self.peak_at_ns)
    }

    /// Final costs, by stack.
    pub(crate) fn into_costs(mut self) -> Vec<Costs> {
        self.entries
            .iter_mut()
            .zip(&self.rare)
            .map(|(entry, rare)| {
                entry.save(self.peak_number);
                Costs {
                    allocations: entry.allocations,
                    allocated_bytes: entry.allocated_bytes,
                    peak_bytes: entry.peak_bytes,
                    peak_blocks: entry.peak_blocks,
                    leaked_bytes: rare.leaked_bytes,
                    leaked_blocks: rare.leaked_blocks,
                    failed: rare.failed,
                }
            })
            .collect()
    }
}

/// Sums of hostile sizes stay at the top instead of wrapping.
pub(crate) fn add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}

/// The counterpart of [`add`].
pub(crate) fn subtract(sum: &mut u64, value: u64) {
    *sum = sum.saturating_sub(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_composed_of_what_was_live_then() {
        let mut ledger = Ledger::new(3);
        ledger.begin(1, 0, 10);
        ledger.begin(2, 1, 5);
        ledger.end(0, 10);
        ledger.begin(3, 0, 4);
        // Touches a stack first after the peak, and equals the peak once more:
        // the first time counts.
        ledger.begin(4, 2, 6);
        ledger.end(2, 6);
        let (peak, at_ns) = ledger.peak();
        assert_eq!((peak.live_bytes, peak.live_blocks, at_ns), (15, 2, 2));
        let costs = ledger.into_costs();
        assert_eq!(
            costs.iter().map(|c| c.peak_bytes).collect::<Vec<_>>(),
            [10, 5, 0]
        );
        assert_eq!(costs[0].allocations, 2);
    }

    #[test]
    fn sizes_of_nonsense_do_not_wrap() {
        let mut ledger = Ledger::new(1);
        ledger.begin(1, 0, u64::MAX);
        ledger.begin(2, 0, u64::MAX);
        assert_eq!(ledger.level().live_bytes, u64::MAX);
        ledger.end(0, u64::MAX);
        ledger.end(0, u64::MAX);
        ledger.end(0, 1);
        assert_eq!(ledger.level().live_bytes, 0);
    }
}
