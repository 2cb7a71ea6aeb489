//! What an analysis found: plain data, ready to be shown. Nothing here refers
//! to an artifact any more.

use serde::Serialize;

/// Everything a report shows of one artifact.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Findings {
    /// Whether the numbers below are the whole truth; shown before them.
    pub verdict: Verdict,
    /// What was recorded.
    pub run: Run,
    /// Sums over all processes.
    pub totals: Totals,
    /// Live memory over time.
    pub timeline: Vec<TimelinePoint>,
    /// Distinct frames that `stacks` and `sites` refer to by position.
    pub frames: Vec<FrameInfo>,
    /// Distinct call stacks with their costs, by descending peak bytes.
    pub stacks: Vec<StackCost>,
    /// Call sites (the innermost frame that is not an allocation function),
    /// by descending peak bytes.
    pub sites: Vec<Site>,
    /// Processes in order of appearance.
    pub processes: Vec<ProcessInfo>,
    /// Modules and how well their addresses were named.
    pub modules: Vec<ModuleInfo>,
    /// Why stacks ended, with their number, by descending number.
    pub terminations: Vec<(String, u64)>,
    /// Allocations by stack, function, size and process; filled on demand
    /// (`Options::detail`).
    pub detail: Vec<Detail>,
}

/// Whether the data are complete.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Nothing that affects counts is missing and the file is whole.
    pub complete: bool,
    /// One line: "complete: 1,204,331 allocations, 0 lost".
    pub headline: String,
    /// One line for everything that is missing.
    pub problems: Vec<String>,
    /// Remarks that are no loss.
    pub notes: Vec<String>,
}

/// The recorded run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Run {
    /// The command line; bytes that are not UTF-8 are replaced.
    pub command: Vec<String>,
    /// Wall time of the start, ns since 1970-01-01 UTC.
    pub start_wall_ns: u64,
    /// From start to end, ns.
    pub duration_ns: u64,
    /// Kernel release and version.
    pub kernel: String,
    /// "x86_64" or "aarch64".
    pub architecture: String,
    /// Which backend recorded.
    pub backend: String,
    /// Version of the memtrack that recorded.
    pub memtrack_version: String,
    /// "exit code 0", "signal 11".
    pub ended: Option<String>,
    /// Options that were in force.
    pub options: Vec<String>,
}

/// Sums over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Successful allocation calls (`realloc` included).
    pub allocations: u64,
    /// Blocks that ended by `free` or `realloc`.
    pub frees: u64,
    /// Requested bytes over all successful calls.
    pub allocated_bytes: u64,
    /// Calls that returned no memory.
    pub failed: u64,
    /// `free(NULL)`.
    pub null_frees: u64,
    /// Frees of blocks that were not seen to begin.
    pub unknown_frees: u64,
    /// Frees that a C library made for itself at the end of a thread, of
    /// blocks that the thread had freed before (glibc's thread cache).
    pub thread_end_frees: u64,
    /// Frees, in a forked child, of its copy of a block that an ancestor
    /// allocated; not part of `frees`.
    pub inherited_frees: u64,
    /// Blocks whose address was allocated again while they were live: their
    /// end was not seen.
    pub ended_unseen: u64,
    /// The greatest number of live bytes at one time, all processes together.
    pub peak_bytes: u64,
    /// Live blocks at that time.
    pub peak_blocks: u64,
    /// When, ns after the start.
    pub peak_at_ns: u64,
    /// Live when their process ended ("leaked").
    pub leaked_bytes: u64,
    /// Blocks live when their process ended.
    pub leaked_blocks: u64,
    /// Live when their process replaced its image; not leaked.
    pub exec_bytes: u64,
    /// Blocks live when their process replaced its image. Always: allocations
    /// = frees + `leaked_blocks` + `exec_blocks` + `ended_unseen`.
    pub exec_blocks: u64,
    /// Distinct call stacks.
    pub distinct_stacks: u64,
}

/// Live memory at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimelinePoint {
    /// ns after the start.
    pub time_ns: u64,
    /// Live bytes, all processes.
    pub live_bytes: u64,
    /// Live blocks, all processes.
    pub live_blocks: u64,
    /// Allocations so far.
    pub allocations: u64,
    /// Bytes allocated so far.
    pub allocated_bytes: u64,
}

/// A frame as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct FrameInfo {
    /// Function name, or `None` when nothing names the address.
    pub function: Option<String>,
    /// Source file, whole path.
    pub file: Option<String>,
    /// Source line, 0 when unknown.
    pub line: u32,
    /// File name of the module, where known.
    pub module: Option<String>,
    /// Offset in the module's link-time addresses (or the address itself).
    pub address: u64,
    /// An inlined call.
    pub inline: bool,
    /// A signal trampoline.
    pub signal: bool,
}

impl FrameInfo {
    /// The function's name, or `module+0xoffset`, or the bare address.
    #[must_use]
    pub fn display_name(&self) -> String {
        match (&self.function, &self.module) {
            (Some(function), _) => function.clone(),
            (None, Some(module)) => format!("{module}+{:#x}", self.address),
            (None, None) => format!("{:#x}", self.address),
        }
    }
}

/// What a stack, site or function costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Costs {
    /// Successful allocation calls.
    pub allocations: u64,
    /// Bytes requested by them.
    pub allocated_bytes: u64,
    /// Bytes live at the global peak.
    pub peak_bytes: u64,
    /// Blocks live at the global peak.
    pub peak_blocks: u64,
    /// Bytes live when their process ended.
    pub leaked_bytes: u64,
    /// Blocks live when their process ended.
    pub leaked_blocks: u64,
    /// Calls that returned no memory.
    pub failed: u64,
}

/// What a flame graph or table is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Bytes live at the global peak.
    PeakBytes,
    /// Bytes allocated over the whole run.
    AllocatedBytes,
    /// Number of allocations.
    Allocations,
    /// Bytes live at the end.
    LeakedBytes,
}

impl Costs {
    /// The value of one measure.
    #[must_use]
    pub fn get(&self, measure: Measure) -> u64 {
        match measure {
            Measure::PeakBytes => self.peak_bytes,
            Measure::AllocatedBytes => self.allocated_bytes,
            Measure::Allocations => self.allocations,
            Measure::LeakedBytes => self.leaked_bytes,
        }
    }
}

/// One distinct call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StackCost {
    /// Positions in [`Findings::frames`], innermost first. The first physical
    /// frame is the allocation function itself.
    pub frames: Vec<u32>,
    /// How many of `frames` belong to allocation functions, from the front.
    pub allocator_frames: u32,
    /// Why the stack ends where it ends, `None` when its root was reached.
    pub truncated: Option<String>,
    /// Its costs.
    pub costs: Costs,
}

/// One call site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Site {
    /// Position in [`Findings::frames`].
    pub frame: u32,
    /// Number of distinct stacks through it.
    pub stacks: u32,
    /// Position in [`Findings::stacks`] of its costliest stack.
    pub example: u32,
    /// Sum over its stacks.
    pub costs: Costs,
}

/// A process of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessInfo {
    /// Process id.
    pub pid: u32,
    /// The process that forked it.
    pub parent: Option<u32>,
    /// Names in order: the name at fork, then one for each exec.
    pub names: Vec<String>,
    /// Allocation calls.
    pub allocations: u64,
    /// Bytes requested.
    pub allocated_bytes: u64,
    /// Its own peak of live bytes.
    pub peak_bytes: u64,
    /// Live at its end.
    pub leaked_bytes: u64,
    /// Blocks dropped by an exec; they are not leaks.
    pub ended_by_exec_blocks: u64,
}

/// A module and how well it was named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModuleInfo {
    /// Path; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Build id or content hash; empty when the file could not be taken.
    pub key: String,
    /// Distinct addresses asked.
    pub asked: u64,
    /// Of these, with a function name.
    pub named: u64,
    /// With file and line.
    pub with_lines: u64,
    /// What is missing and what to do.
    pub notes: Vec<String>,
}

/// Allocations of one stack, function, size and process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// Position in [`Findings::stacks`]; `None` without a stack.
    pub stack: Option<u32>,
    /// Allocation function.
    pub function: String,
    /// Requested bytes.
    pub size: u64,
    /// Process.
    pub pid: u32,
    /// Successful calls.
    pub calls: u64,
    /// Of these, live when the process ended.
    pub live_calls: u64,
    /// Calls that returned no memory.
    pub failed: u64,
}
