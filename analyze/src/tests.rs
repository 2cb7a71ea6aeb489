//! Scripted events with known answers, and a naive model for random ones.

mod model;
mod script;

use crate::order::{Action, MAX_HELD, Order, horizons};
use memtrack_artifact::EventKind;
use proptest::prelude::*;
use script::{Script, blank, replay};

#[test]
fn horizons_are_the_smallest_start_of_what_follows() {
    assert_eq!(horizons(&[3, 7, 5, 20]), [5, 5, 20, u64::MAX]);
    assert_eq!(horizons(&[]), [0u64; 0]);
}

#[test]
fn a_realloc_ends_its_old_block_when_it_is_entered() {
    // Thread 2 is given the old address while thread 1 is still in realloc.
    let mut script = Script::default();
    script.malloc(1, 10, 0xa0, 100);
    script.at(20).malloc_in(1, 2, 30, 0xa0, 8);
    script.realloc_from(1, 25, 40, 0xa0, 0xb0, 200);
    let outcome = replay(&script.events);
    assert_eq!(outcome.counts.ended_unseen, 0);
    assert_eq!(outcome.counts.frees, 1);
    assert_eq!(outcome.counts.leaked_bytes, 208);
    assert_eq!(outcome.peak.live_bytes, 208);
}

#[test]
fn the_order_holds_what_a_later_chunk_may_precede() {
    let mut script = Script::default();
    script.malloc(1, 10, 0xa0, 1);
    script.malloc(1, 30, 0xb0, 2);
    // Entered at 20, before the second malloc; recorded after it.
    script.realloc_from(1, 20, 40, 0xa0, 0xc0, 3);
    let mut order = Order::default();
    let mut seen = Vec::new();
    order.push(&script.events[0]);
    order.push(&script.events[1]);
    order.release(20, |effects| seen.extend(effects.iter().map(|e| e.action)));
    assert_eq!(seen.len(), 1);
    order.push(&script.events[2]);
    order.release(u64::MAX, |effects| {
        seen.extend(effects.iter().map(|e| e.action))
    });
    assert_eq!(
        seen,
        [
            Action::Begin(EventKind::Malloc),
            Action::Replace,
            Action::Begin(EventKind::Malloc),
            Action::Begin(EventKind::Realloc),
        ]
    );
    assert_eq!(order.late(), 0);
}

#[test]
fn a_horizon_that_does_not_move_bounds_what_is_held() {
    let mut script = Script::default();
    script.malloc(1, 1_000_000_000, 0xa0, 1);
    let mut order = Order::default();
    let mut released = 0;
    let mut event = script.events[0];
    for time_ns in 0..=MAX_HELD as u64 {
        event.time_ns = 1_000 + time_ns;
        order.push(&event);
    }
    order.release(10, |effects| released += effects.len());
    assert!(released > MAX_HELD / 4, "{released}");
    // What the wait was for comes late, and is counted.
    event.time_ns = 20;
    order.push(&event);
    order.release(u64::MAX, |effects| released += effects.len());
    assert_eq!(released, MAX_HELD + 2);
    assert_eq!(order.late(), 1);
}

proptest! {
    /// However far events are from their place, in whatever chunks.
    #[test]
    fn the_order_is_that_of_a_sort(
        calls in prop::collection::vec((0u64..1_000, 0u64..300, any::<bool>()), 0..400),
        chunk in 1usize..100,
    ) {
        let events: Vec<_> = calls
            .iter()
            .zip(1..)
            .map(|(&(start_ns, length_ns, realloc), address)| {
                let kind = if realloc { EventKind::Realloc } else { EventKind::Malloc };
                let mut event = blank(kind, 1, start_ns + length_ns);
                event.start_ns = start_ns;
                event.address = address;
                event.old_address = u64::from(realloc) * address;
                event
            })
            .collect();
        let mut expected: Vec<_> = events
            .iter()
            .flat_map(|event| {
                let old = (event.old_address != 0).then_some((event.start_ns, event.address, 0));
                [old, Some((event.time_ns, event.address, 1))]
            })
            .flatten()
            .collect();
        expected.sort_unstable();

        let chunks: Vec<_> = events.chunks(chunk).collect();
        let starts: Vec<_> = chunks
            .iter()
            .map(|chunk| chunk.iter().map(|event| event.start_ns).min().unwrap_or(0))
            .collect();
        let mut order = Order::default();
        let mut seen = Vec::new();
        for (chunk, horizon_ns) in chunks.iter().zip(horizons(&starts)) {
            chunk.iter().for_each(|event| order.push(event));
            order.release(horizon_ns, |effects| {
                seen.extend(effects.iter().map(|effect| {
                    let half = u32::from(effect.action != Action::Replace);
                    (effect.time_ns, effect.address, half)
                }));
            });
        }
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(order.late(), 0);
    }
}

#[test]
fn realloc_in_all_its_forms() {
    let mut script = Script::default();
    script.realloc(1, 0, 0xa0, 5101);
    script.realloc(1, 0xa0, 0xa0, 5102);
    script.free(1, 0xa0);
    // realloc(p, 0) returns nothing and frees.
    script.malloc(1, 0, 0xb0, 5103);
    script.realloc(1, 0xb0, 0, 0);
    // A failed one leaves the old block.
    script.malloc(1, 0, 0xc0, 5108);
    script.failed_realloc(1, 0xc0, u64::MAX / 2);
    script.free(1, 0xc0);
    // A block of size 0 is a block.
    script.malloc(1, 0, 0xd0, 0);
    script.free(1, 0xd0);
    script.malloc(1, 0, 0xe0, 5111);
    let outcome = replay(&script.events);
    assert_eq!(outcome.total.allocations, 6);
    assert_eq!(outcome.counts.frees, 5);
    assert_eq!(outcome.counts.failed, 1);
    assert_eq!(outcome.counts.leaked_bytes, 5111);
    assert_eq!(outcome.peak.live_bytes, 5111);
    assert_eq!(outcome.counts.unknown_frees, 0);
}

#[test]
fn frees_count_when_they_release_something() {
    let mut script = Script::default();
    script.free(1, 0x10); // before recording
    script.malloc(1, 0, 0xa0, 7);
    script.free(1, 0xa0);
    script.free(1, 0xa0); // one call, seen twice
    script.malloc(1, 0, 0xa0, 9);
    script.malloc(1, 0, 0xa0, 11); // its free was lost
    let counts = replay(&script.events).counts;
    assert_eq!(counts.frees, 1);
    assert_eq!(counts.unknown_frees, 1);
    assert_eq!(counts.doubled_frees, 1);
    assert_eq!(counts.ended_unseen, 1);
    assert_eq!((counts.leaked_blocks, counts.leaked_bytes), (1, 11));
}

#[test]
fn a_forked_child_has_copies_that_cost_nothing() {
    let mut script = Script::default();
    script.malloc(1, 0, 0xa0, 100);
    script.malloc(1, 0, 0xb0, 50);
    script.fork(1, 2, false);
    script.free(2, 0xa0); // a copy
    script.malloc(2, 0, 0xa0, 30); // the child's own, at the same address
    script.realloc(2, 0xb0, 0xc0, 5); // a copy again
    script.free(1, 0xa0); // the parent's own is another block
    script.exit(2);
    script.free(1, 0xb0);
    script.exit(1);
    let outcome = replay(&script.events);
    assert_eq!(outcome.counts.inherited_frees, 2);
    assert_eq!(outcome.counts.unknown_frees, 0);
    assert_eq!(outcome.counts.ended_unseen, 0);
    assert_eq!(outcome.counts.frees, 2);
    assert_eq!(outcome.peak.live_bytes, 185);
    assert_eq!(outcome.counts.leaked_bytes, 35);
    assert_eq!(outcome.processes[1].leaked_bytes, 35);
    assert_eq!(outcome.processes[1].peak_bytes, 35);
    assert_eq!(outcome.processes[0].peak_bytes, 150);
    assert_eq!(outcome.processes[1].parent, Some(1));
}

#[test]
fn an_exec_drops_and_an_exit_leaks() {
    let mut script = Script::default();
    script.malloc(1, 0, 0xa0, 100);
    script.fork(1, 2, false);
    script.malloc(2, 0, 0xb0, 10);
    script.exec(2);
    script.free(2, 0xb0); // unknown to the new image
    script.malloc(2, 0, 0xb0, 1);
    script.exit(2);
    let outcome = replay(&script.events);
    assert_eq!(outcome.processes[1].exec_blocks, 1);
    assert_eq!(outcome.counts.exec_bytes, 10);
    assert_eq!(outcome.counts.unknown_frees, 1);
    // Process 1 outlives the recording: its live block counts as leaked.
    assert_eq!(outcome.counts.leaked_bytes, 101);
    assert_eq!(outcome.processes[0].leaked_bytes, 100);
}

#[test]
fn a_vfork_child_works_on_its_parents_blocks() {
    let mut script = Script::default();
    script.malloc(1, 0, 0xa0, 100);
    script.fork(1, 2, true);
    script.free(2, 0xa0);
    script.malloc(2, 0, 0xb0, 10);
    script.exec(2);
    script.malloc(2, 0, 0xb0, 3);
    script.exit(2);
    script.free(1, 0xb0);
    script.fork(1, 3, true);
    script.malloc(3, 0, 0xc0, 4);
    script.exit(3); // without exec: what it made stays with the parent
    script.exit(1);
    let outcome = replay(&script.events);
    assert_eq!(outcome.counts.frees, 2);
    assert_eq!(outcome.counts.inherited_frees, 0);
    assert_eq!(outcome.counts.exec_blocks, 0);
    assert_eq!(outcome.counts.leaked_blocks, 2);
    assert_eq!(outcome.processes[1].leaked_bytes, 3);
    assert_eq!(outcome.processes[2].leaked_bytes, 4);
    assert_eq!(outcome.processes[0].leaked_bytes, 0);
}

#[test]
fn a_pid_that_comes_back_is_another_process() {
    let mut script = Script::default();
    script.malloc(1, 0, 0xa0, 1);
    script.fork(1, 2, false);
    script.malloc(2, 0, 0xb0, 10);
    script.exit(2);
    script.fork(1, 2, false);
    script.malloc(2, 0, 0xb0, 20);
    script.fork(1, 2, false); // its exit was not seen
    let outcome = replay(&script.events);
    assert_eq!(outcome.processes.len(), 4);
    assert_eq!(outcome.counts.exits_unseen, 1);
    assert_eq!(outcome.counts.leaked_bytes, 31);
}

#[test]
fn forks_share_what_they_do_not_change() {
    // A shell with many blocks and many short children: copying the blocks at
    // each fork would be 400 million steps.
    let mut script = Script::default();
    for block in 0..20_000u64 {
        script.malloc(1, 0, 0x1000 + block * 16, 16);
    }
    for child in 2..20_002u32 {
        script.fork(1, child, false);
        script.malloc(child, 0, 0x10, 3);
        script.free(child, 0x1000);
        script.malloc(1, 0, 0x20, 1);
        script.exit(child);
        script.free(1, 0x20);
    }
    let counts = replay(&script.events).counts;
    assert_eq!(counts.inherited_frees, 20_000);
    assert_eq!(counts.frees, 20_000);
    assert_eq!(counts.leaked_blocks, 40_000);
    assert_eq!(counts.unknown_frees + counts.ended_unseen, 0);
}

#[test]
fn a_long_chain_of_generations_stays_shallow() {
    let mut script = Script::default();
    for pid in 1..2_000u32 {
        script.malloc(pid, 0, u64::from(pid) * 16, 1);
        script.fork(pid, pid + 1, false);
    }
    for pid in 1..2_000u32 {
        // Every ancestor's block is known to the last of the line.
        script.free(2_000, u64::from(pid) * 16);
    }
    let counts = replay(&script.events).counts;
    assert_eq!(counts.inherited_frees, 1_999);
    assert_eq!(counts.unknown_frees, 0);
    assert_eq!(counts.leaked_blocks, 1_999);
}

#[test]
fn the_timeline_keeps_the_peak_in_few_points() {
    for points in [1, 2, 3, 4, 5, 10, 100] {
        let mut script = Script::default();
        for n in 0..1_000u64 {
            script.malloc(1, 0, 0x1000 + n * 16, if n == 777 { 5_000 } else { 1 });
            if n > 0 {
                script.free(1, 0x1000 + (n - 1) * 16);
            }
        }
        script.exit(1);
        let outcome = script::replay_with(&script.events, points);
        let timeline = &outcome.timeline;
        assert!(timeline.len() <= points, "{} of {points}", timeline.len());
        let greatest = timeline.iter().map(|point| point.live_bytes).max();
        assert_eq!(greatest, Some(outcome.peak.live_bytes));
        assert!(timeline.is_sorted_by_key(|point| (point.time_ns, point.allocations)));
        if points > 1 {
            let last = timeline.last().unwrap();
            assert_eq!((last.live_bytes, last.allocations), (0, 1_000));
        }
    }
}
