//! What was lost, cut or refused, by reason: carried through every stage and
//! shown before any number.

use crate::id::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why something is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LossReason {
    /// An event found the event ring full.
    EventRingFull,
    /// A stack found the stack ring full.
    StackRingFull,
    /// The user stack could not be read.
    StackCopyFailed,
    /// No scratch slot was free for the stack copy.
    NoScratch,
    /// A call's entry could not be remembered until its return.
    CallMapFull,
    /// A return was seen without its entry.
    UnmatchedReturn,
    /// A process could not be tracked: the map of processes was full.
    ProcessMapFull,
    /// The kernel dropped module records (`PERF_RECORD_LOST`).
    ModuleRecordLost,
    /// A probe could not be attached.
    AttachFailed,
    /// memtrack could not write a record to the file.
    WriteFailed,
}

impl LossReason {
    /// Whether numbers of the report can be wrong because of it (otherwise
    /// only stacks or names are missing).
    #[must_use]
    pub fn affects_counts(self) -> bool {
        matches!(
            self,
            Self::EventRingFull
                | Self::CallMapFull
                | Self::UnmatchedReturn
                | Self::ProcessMapFull
                | Self::AttachFailed
                | Self::WriteFailed
        )
    }

    /// In words, after a number: "1,204 events: the event ring was full".
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::EventRingFull => "events: the event ring was full",
            Self::StackRingFull => "stacks: the stack ring was full",
            Self::StackCopyFailed => "stacks: the user stack could not be read",
            Self::NoScratch => "stacks: no scratch slot was free",
            Self::CallMapFull => "events: the map of calls in progress was full",
            Self::UnmatchedReturn => "events: a return without its entry",
            Self::ProcessMapFull => "processes: the map of processes was full",
            Self::ModuleRecordLost => "module records dropped by the kernel",
            Self::AttachFailed => "probes could not be attached",
            Self::WriteFailed => "records could not be written",
        }
    }
}

/// A counter of one reason and the span of time it touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossCount {
    /// How many.
    pub count: u64,
    /// First and last time of it, `CLOCK_MONOTONIC` ns; zeros when unknown.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
}

/// A stretch of time in which memtrack held a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The process.
    pub pid: Pid,
    /// Why.
    pub reason: PauseReason,
    /// `CLOCK_MONOTONIC` ns.
    pub start_ns: u64,
    /// `CLOCK_MONOTONIC` ns.
    pub end_ns: u64,
}

/// Why a process was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PauseReason {
    /// A ring was filling faster than it was drained.
    Pressure,
    /// A new file was mapped and had to be probed first.
    Attach,
}

/// All losses, pauses, remarks of one capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Counters; a reason that is absent is zero.
    pub counts: BTreeMap<LossReason, LossCount>,
    /// Everybody who was held, and how long.
    pub pauses: Vec<Pause>,
    /// Remarks for people that are no loss ("stacks were switched off: ...").
    pub notes: Vec<String>,
}

impl Losses {
    /// Adds `count` to a reason; the span is widened by `time_ns` unless 0.
    pub fn add(&mut self, reason: LossReason, count: u64, time_ns: u64) {
        if count == 0 {
            return;
        }
        let entry = self.counts.entry(reason).or_default();
        entry.count = entry.count.saturating_add(count);
        if time_ns != 0 {
            entry.first_ns = match entry.first_ns {
                0 => time_ns,
                first => first.min(time_ns),
            };
            entry.last_ns = entry.last_ns.max(time_ns);
        }
    }

    /// The sum of all counters.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts
            .values()
            .fold(0, |sum, loss| sum.saturating_add(loss.count))
    }
}
