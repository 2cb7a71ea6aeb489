//! The counters of the BPF programs.

use crate::error::{Error, Result};
use libbpf_rs::{MapCore, MapFlags};
use memtrack_artifact::{LossCount, LossReason, Losses};

/// `enum counter` of `bpf/abi.h`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Counter {
    EventRingFull,
    StackRingFull,
    StackCopyFailed,
    NoScratch,
    CallMapFull,
    UnmatchedReturn,
    ProcessMapFull,
    AttachMissed,
    NullFrees,
    Abandoned,
    StackMapFull,
    ImageMapFull,
    StopFailed,
}

/// Counters that are losses.
const LOSSES: [(Counter, LossReason); 8] = [
    (Counter::EventRingFull, LossReason::EventRingFull),
    (Counter::StackRingFull, LossReason::StackRingFull),
    (Counter::StackCopyFailed, LossReason::StackCopyFailed),
    (Counter::NoScratch, LossReason::NoScratch),
    (Counter::CallMapFull, LossReason::CallMapFull),
    (Counter::UnmatchedReturn, LossReason::UnmatchedReturn),
    (Counter::ProcessMapFull, LossReason::ProcessMapFull),
    (Counter::AttachMissed, LossReason::AttachFailed),
];

/// Counters that are remarks.
const REMARKS: [(Counter, &str); 4] = [
    (
        Counter::Abandoned,
        "allocator calls were left without a return (longjmp or the like)",
    ),
    (
        Counter::StackMapFull,
        "stacks were recorded again, since the map of known ones was full (--stack-keys)",
    ),
    (
        Counter::ImageMapFull,
        "programs were started beyond those whose code is mapped: their stacks cost more",
    ),
    (
        Counter::StopFailed,
        "times a process could not be held when it should have been",
    ),
];

/// Adds what the programs counted; returns the calls of `free(NULL)`.
pub(crate) fn gather(map: &impl MapCore, losses: &mut Losses) -> Result<u64> {
    for (counter, reason) in LOSSES {
        let read = read(map, counter)?;
        losses.add(reason, read.count, read.first_ns);
        losses.add(reason, 0, read.last_ns);
        if let Some(entry) = losses.counts.get_mut(&reason) {
            entry.last_ns = entry.last_ns.max(read.last_ns);
        }
    }
    for (counter, remark) in REMARKS {
        let count = read(map, counter)?.count;
        if count > 0 {
            losses.notes.push(format!("{count} {remark}"));
        }
    }
    Ok(read(map, Counter::NullFrees)?.count)
}

/// One counter, over all CPUs.
fn read(map: &impl MapCore, counter: Counter) -> Result<LossCount> {
    let per_cpu = map
        .lookup_percpu(&(counter as u32).to_ne_bytes(), MapFlags::ANY)
        .map_err(|source| Error::Map {
            map: "counters",
            source,
        })?
        .unwrap_or_default();
    Ok(per_cpu.iter().fold(LossCount::default(), |sum, bytes| {
        let word = |index: usize| {
            bytes
                .get(index * 8..index * 8 + 8)
                .and_then(|word| word.try_into().ok())
                .map_or(0, u64::from_ne_bytes)
        };
        let (count, first_ns, last_ns) = (word(0), word(1), word(2));
        if count == 0 {
            return sum;
        }
        LossCount {
            count: sum.count + count,
            first_ns: match sum.first_ns {
                0 => first_ns,
                earlier => earlier.min(first_ns),
            },
            last_ns: sum.last_ns.max(last_ns),
        }
    }))
}
