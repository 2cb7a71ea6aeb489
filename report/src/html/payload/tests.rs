use super::*;
use proptest::prelude::*;

/// The path of a node, outermost first, as the script walks it.
fn path_of(nodes: &Nodes, leaf: u32) -> Vec<u32> {
    let mut path = Vec::new();
    let mut node = leaf as usize;
    while node != 0 {
        path.push(nodes.frame[node]);
        node -= nodes.up[node] as usize;
    }
    path.reverse();
    path
}

proptest! {
    #[test]
    fn prefix_tree_keeps_every_path(
        paths in prop::collection::vec(prop::collection::vec(0_u32..5, 0..8), 0..40)
    ) {
        let (nodes, leaves) = prefix_tree(99, &paths);
        for (path, leaf) in paths.iter().zip(&leaves) {
            prop_assert_eq!(&path_of(&nodes, *leaf), path);
        }
        let mut prefixes: Vec<&[u32]> = paths
            .iter()
            .flat_map(|path| (1..=path.len()).map(|length| &path[..length]))
            .collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        prop_assert_eq!(nodes.frame.len(), prefixes.len() + 1);
    }
}

#[test]
fn example_of_the_module_documentation() {
    let [main, parse, grow, run, malloc] = [0, 1, 2, 3, 4];
    let (nodes, leaves) = prefix_tree(
        9,
        &[
            vec![main, parse, grow, malloc],
            vec![main, parse, malloc],
            vec![main, run, malloc],
        ],
    );
    assert_eq!(nodes.frame, [9, 0, 1, 2, 4, 4, 3, 4]);
    assert_eq!(nodes.up, [0, 1, 1, 1, 1, 3, 5, 1]);
    assert_eq!(leaves, [4, 5, 7]);
}

fn stack(frames: &[u32], bytes: u64) -> StackCost {
    StackCost {
        frames: frames.to_vec(),
        allocator_frames: 1,
        costs: Costs {
            allocations: 1,
            allocated_bytes: bytes,
            peak_bytes: bytes,
            ..Costs::default()
        },
        ..StackCost::default()
    }
}

fn name(payload: &Payload<'_>, frame: u32) -> String {
    payload.strings[payload.frames.name[frame as usize] as usize - 1].to_string()
}

#[test]
fn what_no_stack_holds_is_shown_as_such() {
    let mut findings = Findings {
        frames: vec![FrameInfo::default(); 2],
        stacks: vec![stack(&[0, 1], 10)],
        ..Findings::default()
    };
    findings.totals.allocations = 3;
    findings.totals.allocated_bytes = 25;
    findings.totals.peak_bytes = 10;
    let payload = Payload::new(&findings);
    assert_eq!(payload.stacks.costs.allocations, [1, 2]);
    assert_eq!(payload.stacks.costs.allocated_bytes, [10, 15]);
    assert_eq!(payload.stacks.costs.peak_bytes, [10, 0]);
    let last = payload.stacks.node[1] as usize;
    assert_eq!(name(&payload, payload.nodes.frame[last]), NO_STACK);
}

#[test]
fn odd_stacks_stay_in_bounds() {
    let mut cut = stack(&[0], 1);
    cut.truncated = Some("copy too short".to_owned());
    let mut empty = stack(&[], 1);
    empty.allocator_frames = 7;
    let findings = Findings {
        frames: vec![FrameInfo::default()],
        stacks: vec![cut, empty, stack(&[77], 1)],
        sites: vec![memtrack_analyze::findings::Site {
            frame: 99,
            ..Default::default()
        }],
        ..Findings::default()
    };
    let payload = Payload::new(&findings);
    let outermost: Vec<String> = payload
        .stacks
        .node
        .iter()
        .map(|node| name(&payload, path_of(&payload.nodes, *node)[0]))
        .collect();
    assert_eq!(
        outermost,
        ["[stack cut: copy too short]", NO_STACK, "[unknown frame]"]
    );
    assert_eq!(payload.stacks.allocator, [1, 0, 0]);
    assert_eq!(name(&payload, payload.sites.frame[0]), NO_STACK);
}
