//! Findings as a real program gives them, made from a small call graph and a
//! fixed seed: the parts add up to the totals, as those of an analysis do.

use memtrack_analyze::findings::{
    Costs, Findings, FrameInfo, ModuleInfo, ProcessInfo, Run, Site, StackCost, TimelinePoint,
    Totals, Verdict,
};
use std::collections::HashMap;

/// Function, file, line, module, inline.
type Function = (&'static str, &'static str, u32, &'static str, bool);

const PYTHON: &str = "python3.11";
const LIBC: &str = "libc.so.6";
const JSON: &str = "_json.cpython-311-x86_64-linux-gnu.so";
const SQLITE: &str = "libsqlite3.so.0.8.6";
const STDCXX: &str = "libstdc++.so.6.0.30";

/// From the entry to the interpreter's loop.
const TRUNK: [Function; 7] = [
    ("_start", "", 0, PYTHON, false),
    (
        "__libc_start_main_impl",
        "csu/libc-start.c",
        360,
        LIBC,
        false,
    ),
    (
        "__libc_start_call_main",
        "sysdeps/nptl/libc_start_call_main.h",
        58,
        LIBC,
        false,
    ),
    ("Py_BytesMain", "Modules/main.c", 734, PYTHON, false),
    ("Py_RunMain", "Modules/main.c", 680, PYTHON, false),
    ("pymain_run_python", "Modules/main.c", 592, PYTHON, true),
    ("_PyEval_Vector", "Python/ceval.c", 6439, PYTHON, false),
];

/// What the loop calls, any of them again and again.
const MIDDLE: [Function; 14] = [
    (
        "_PyEval_EvalFrameDefault",
        "Python/ceval.c",
        5381,
        PYTHON,
        false,
    ),
    ("PyObject_Vectorcall", "Objects/call.c", 299, PYTHON, false),
    (
        "_PyFunction_Vectorcall",
        "Objects/call.c",
        393,
        PYTHON,
        false,
    ),
    (
        "method_vectorcall_FASTCALL_KEYWORDS",
        "Objects/descrobject.c",
        364,
        PYTHON,
        false,
    ),
    ("scanner_call", "Modules/_json.c", 1118, JSON, false),
    ("scan_once_unicode", "Modules/_json.c", 1071, JSON, false),
    ("_parse_object_unicode", "Modules/_json.c", 711, JSON, false),
    ("_parse_array_unicode", "Modules/_json.c", 829, JSON, false),
    (
        "encoder_listencode_obj",
        "Modules/_json.c",
        1453,
        JSON,
        false,
    ),
    (
        "encoder_listencode_dict",
        "Modules/_json.c",
        1601,
        JSON,
        false,
    ),
    (
        "pysqlite_cursor_execute",
        "Modules/_sqlite/cursor.c",
        837,
        PYTHON,
        false,
    ),
    ("sqlite3_step", "sqlite3.c", 88754, SQLITE, false),
    ("sqlite3VdbeExec", "sqlite3.c", 94027, SQLITE, false),
    (
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_mutate(unsigned long, unsigned long, char const*, unsigned long)",
        "",
        0,
        STDCXX,
        false,
    ),
];

/// What allocates.
const LEAVES: [Function; 12] = [
    (
        "_PyObject_Malloc",
        "Objects/obmalloc.c",
        1633,
        PYTHON,
        false,
    ),
    ("new_arena", "Objects/obmalloc.c", 1335, PYTHON, true),
    ("dictresize", "Objects/dictobject.c", 1240, PYTHON, false),
    ("new_keys_object", "Objects/dictobject.c", 609, PYTHON, true),
    ("list_resize", "Objects/listobject.c", 77, PYTHON, false),
    (
        "PyUnicode_New",
        "Objects/unicodeobject.c",
        1437,
        PYTHON,
        false,
    ),
    (
        "PyUnicode_FromKindAndData",
        "Objects/unicodeobject.c",
        2330,
        PYTHON,
        false,
    ),
    ("_PyLong_New", "Objects/longobject.c", 152, PYTHON, false),
    ("sqlite3MemMalloc", "sqlite3.c", 25943, SQLITE, false),
    ("pcache1Alloc", "sqlite3.c", 52880, SQLITE, false),
    (
        "_IO_file_doallocate",
        "libio/filedoalloc.c",
        101,
        LIBC,
        false,
    ),
    (
        "operator new(unsigned long)",
        "libsupc++/new_op.cc",
        50,
        STDCXX,
        false,
    ),
];

/// A linear congruential generator: the same page on every machine.
struct Seed(u64);

impl Seed {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Small numbers far more often than great ones.
    fn skewed(&mut self, bound: u64) -> u64 {
        let one = self.below(bound);
        let other = self.below(one + 1);
        self.below(other + 1)
    }
}

/// Findings with about `stack_count` distinct stacks.
pub(crate) fn findings(stack_count: usize) -> Findings {
    let mut seed = Seed(20_260_301);
    let mut frames = Frames::default();
    let malloc = frames.add(("malloc", "malloc/malloc.c", 3301, LIBC, false));
    let trunk: Vec<u32> = TRUNK
        .into_iter()
        .map(|function| frames.add(function))
        .collect();
    let middle: Vec<u32> = MIDDLE
        .into_iter()
        .map(|function| frames.add(function))
        .collect();
    let leaves: Vec<u32> = LEAVES
        .into_iter()
        .map(|function| frames.add(function))
        .collect();
    let unnamed = frames.unnamed();

    let mut stacks: HashMap<Vec<u32>, StackCost> = HashMap::new();
    for rank in 0..stack_count as u64 {
        let mut path = trunk.clone();
        for level in 0..3 + seed.skewed(22) {
            let choice = (seed.skewed(9) + level * 3 / 2) % middle.len() as u64;
            path.push(middle[choice as usize]);
        }
        if seed.below(40) == 0 {
            path.push(unnamed);
        }
        path.push(leaves[seed.skewed(leaves.len() as u64) as usize]);
        path.push(malloc);
        let cut = seed.below(90) == 0;
        if cut {
            path.drain(..4);
        }
        path.reverse();
        let calls = 1 + seed.skewed(200_000) / (1 + rank / 40);
        let size = 16 + 16 * seed.skewed(120);
        let live = if seed.below(3) == 0 {
            calls * 3 / 4
        } else {
            calls / 60
        };
        let leaked = if seed.below(25) == 0 { live / 4 } else { 0 };
        let stack = stacks.entry(path.clone()).or_insert_with(|| StackCost {
            frames: path,
            allocator_frames: 1,
            truncated: cut.then(|| "copy too short".to_owned()),
            costs: Costs::default(),
        });
        let costs = &mut stack.costs;
        costs.allocations += calls;
        costs.allocated_bytes += calls * size;
        costs.peak_blocks += live;
        costs.peak_bytes += live * size;
        costs.leaked_blocks += leaked;
        costs.leaked_bytes += leaked * size;
        costs.failed += u64::from(seed.below(900) == 0);
    }
    let mut stacks: Vec<StackCost> = stacks.into_values().collect();
    stacks.sort_by(|a, b| {
        let cost = b.costs.peak_bytes.cmp(&a.costs.peak_bytes);
        cost.then_with(|| a.frames.cmp(&b.frames))
    });
    assemble(frames.list, stacks)
}

#[derive(Default)]
struct Frames {
    list: Vec<FrameInfo>,
}

impl Frames {
    fn add(&mut self, (function, file, line, module, inline): Function) -> u32 {
        self.list.push(FrameInfo {
            function: Some(function.to_owned()),
            file: (!file.is_empty()).then(|| format!("/usr/src/{file}")),
            line,
            module: Some(module.to_owned()),
            address: 0x1000 + 16 * self.list.len() as u64,
            inline,
            signal: false,
        });
        self.list.len() as u32 - 1
    }

    fn unnamed(&mut self) -> u32 {
        self.list.push(FrameInfo {
            module: Some("libplugin.so".to_owned()),
            address: 0x7_1c40,
            ..FrameInfo::default()
        });
        self.list.len() as u32 - 1
    }
}

/// Findings whose sites and totals are the sums of `stacks`.
pub(crate) fn assemble(frames: Vec<FrameInfo>, stacks: Vec<StackCost>) -> Findings {
    let mut totals = Totals {
        distinct_stacks: stacks.len() as u64,
        null_frees: 1_204,
        unknown_frees: 3,
        ..Totals::default()
    };
    let mut sites: HashMap<u32, Site> = HashMap::new();
    for (position, stack) in stacks.iter().enumerate() {
        let costs = &stack.costs;
        totals.allocations += costs.allocations;
        totals.allocated_bytes += costs.allocated_bytes;
        totals.peak_bytes += costs.peak_bytes;
        totals.peak_blocks += costs.peak_blocks;
        totals.leaked_bytes += costs.leaked_bytes;
        totals.leaked_blocks += costs.leaked_blocks;
        totals.failed += costs.failed;
        let Some(frame) = stack.frames.get(stack.allocator_frames as usize) else {
            continue;
        };
        let site = sites.entry(*frame).or_insert_with(|| Site {
            frame: *frame,
            stacks: 0,
            example: position as u32,
            costs: Costs::default(),
        });
        site.stacks += 1;
        site.costs.allocations += costs.allocations;
        site.costs.allocated_bytes += costs.allocated_bytes;
        site.costs.peak_bytes += costs.peak_bytes;
        site.costs.peak_blocks += costs.peak_blocks;
        site.costs.leaked_bytes += costs.leaked_bytes;
        site.costs.leaked_blocks += costs.leaked_blocks;
        site.costs.failed += costs.failed;
    }
    totals.frees = totals.allocations - totals.leaked_blocks;
    let mut sites: Vec<Site> = sites.into_values().collect();
    sites.sort_by_key(|site| (std::cmp::Reverse(site.costs.peak_bytes), site.frame));
    let duration_ns = 8_412_000_000;
    let timeline = timeline(&mut totals, duration_ns);
    Findings {
        verdict: Verdict {
            complete: true,
            headline: format!(
                "complete: {} allocations, 0 lost",
                memtrack_report::units::count(totals.allocations)
            ),
            problems: Vec::new(),
            notes: vec![
                "3 freed blocks were allocated before the recording began".to_owned(),
                "libplugin.so is stripped: its frames are shown as module+offset".to_owned(),
            ],
        },
        run: Run {
            command: ["python3", "bench/json_roundtrip.py", "--rows", "200000"]
                .map(str::to_owned)
                .to_vec(),
            start_wall_ns: 1_772_366_405_000_000_000,
            duration_ns,
            kernel: "6.12.9-amd64 #1 SMP Debian 6.12.9-1".to_owned(),
            architecture: "x86_64".to_owned(),
            backend: "bpf".to_owned(),
            memtrack_version: "0.1.0".to_owned(),
            ended: Some("exit code 0".to_owned()),
            options: vec!["stack-bytes=32768".to_owned(), "stacks=raw".to_owned()],
        },
        processes: vec![
            ProcessInfo {
                pid: 41_207,
                parent: None,
                names: vec!["memtrack".to_owned(), "python3".to_owned()],
                allocations: totals.allocations,
                allocated_bytes: totals.allocated_bytes,
                peak_bytes: totals.peak_bytes,
                leaked_bytes: totals.leaked_bytes,
                ended_by_exec_blocks: 0,
            },
            ProcessInfo {
                pid: 41_209,
                parent: Some(41_207),
                names: vec!["python3".to_owned(), "sh".to_owned(), "uname".to_owned()],
                ended_by_exec_blocks: 212,
                ..ProcessInfo::default()
            },
        ],
        modules: vec![
            module("/usr/bin/python3.11", 1_842, 1_842, 1_790, &[]),
            module("/usr/lib/x86_64-linux-gnu/libc.so.6", 212, 212, 198, &[]),
            module(
                "/opt/app/lib/libplugin.so",
                17,
                0,
                0,
                &[
                    "no symbol table and no DWARF: install its debug package, or build it without strip",
                ],
            ),
        ],
        terminations: vec![
            ("root reached".to_owned(), stacks.len() as u64 * 89 / 90),
            ("copy too short".to_owned(), stacks.len() as u64 / 90),
        ],
        totals,
        timeline,
        frames,
        stacks,
        sites,
        ..Findings::default()
    }
}

fn module(path: &str, asked: u64, named: u64, with_lines: u64, notes: &[&str]) -> ModuleInfo {
    ModuleInfo {
        path: path.to_owned(),
        key: format!(
            "{:040x}",
            0x9e37_79b9_7f4a_7c15_u128 * u128::from(asked + 7)
        ),
        asked,
        named,
        with_lines,
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
    }
}

/// A climb in steps to the peak, a fall, and what is left.
fn timeline(totals: &mut Totals, duration_ns: u64) -> Vec<TimelinePoint> {
    let points = 900_u64;
    let peak_point = 610;
    totals.peak_at_ns = duration_ns * peak_point / points;
    let mut seed = Seed(5);
    (0..=points)
        .map(|point| {
            let share = match point {
                610 => 1.0,
                ..610 => {
                    let climb = (point as f64 / 610.0).powf(1.4);
                    let saw = (point % 75) as f64 / 75.0 * 0.13;
                    (climb * 0.82 + saw + seed.below(100) as f64 / 4_000.0).min(0.985)
                }
                _ => {
                    let fall = 1.0 - (point - 610) as f64 / 290.0;
                    fall.powi(3) * 0.9
                        + totals.leaked_bytes as f64 / totals.peak_bytes.max(1) as f64
                }
            };
            TimelinePoint {
                time_ns: duration_ns * point / points,
                live_bytes: (share * totals.peak_bytes as f64) as u64,
                live_blocks: (share * totals.peak_blocks as f64) as u64,
                allocations: totals.allocations * point / points,
                allocated_bytes: totals.allocated_bytes * point / points,
            }
        })
        .collect()
}
