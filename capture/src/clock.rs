//! The clocks.

use nix::time::{ClockId, clock_gettime};

fn read_ns(clock: ClockId) -> u64 {
    // Neither clock can fail: both are always there.
    clock_gettime(clock).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        let nanoseconds = u64::try_from(time.tv_nsec()).unwrap_or(0);
        seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(nanoseconds)
    })
}

/// `CLOCK_MONOTONIC`, ns: the clock of all records (`bpf_ktime_get_ns`).
pub(crate) fn monotonic_ns() -> u64 {
    read_ns(ClockId::CLOCK_MONOTONIC)
}

/// The wall clock, ns since 1970.
pub(crate) fn wall_ns() -> u64 {
    read_ns(ClockId::CLOCK_REALTIME)
}
