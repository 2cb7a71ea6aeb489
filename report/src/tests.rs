//! Snapshots of every format of words, over a small run with hostile names.

use crate::{FORMATS, Options, format};
use memtrack_analyze::findings::{
    Costs, Findings, FrameInfo, Measure, ProcessInfo, Run, Site, StackCost, TimelinePoint, Totals,
    Verdict,
};
use std::io::{self, Write};

fn frame(function: &str, file: &str, line: u32, inline: bool) -> FrameInfo {
    FrameInfo {
        function: Some(function.to_owned()),
        file: (!file.is_empty()).then(|| file.to_owned()),
        line,
        module: Some("prog".to_owned()),
        address: 0x1000,
        inline,
        signal: false,
    }
}

fn costs(allocations: u64, allocated_bytes: u64, peak_bytes: u64, leaked_bytes: u64) -> Costs {
    Costs {
        allocations,
        allocated_bytes,
        peak_bytes,
        peak_blocks: u64::from(peak_bytes > 0) * 2,
        leaked_bytes,
        leaked_blocks: u64::from(leaked_bytes > 0),
        failed: 0,
    }
}

/// malloc, called by new_node, inlined into push, called by main; and names
/// that are harmless only when they are escaped.
fn small() -> Findings {
    let frames = vec![
        frame("malloc", "", 0, false),
        frame("new_node", "/src/list.c", 12, true),
        frame("push", "/src/list.c", 40, false),
        frame("main", "/src/main.c", 7, false),
        frame("evil;name\x1b[31m\n</script> 10", "", 0, false),
        FrameInfo {
            module: Some("stripped.so".to_owned()),
            address: 0x4a0,
            ..FrameInfo::default()
        },
    ];
    let stacks = vec![
        StackCost {
            frames: vec![0, 1, 2, 3],
            allocator_frames: 1,
            truncated: None,
            costs: costs(1_200, 9_000_000, 5_000_000, 0),
        },
        StackCost {
            frames: vec![0, 4, 3],
            allocator_frames: 1,
            truncated: None,
            costs: costs(4_000, 64_000, 400, 400),
        },
        StackCost {
            frames: vec![0, 5],
            allocator_frames: 1,
            truncated: Some("copy too short".to_owned()),
            costs: costs(1, 10, 10, 10),
        },
    ];
    let site = |frame, example, costs| Site {
        frame,
        stacks: 1,
        example,
        costs,
    };
    Findings {
        verdict: Verdict {
            complete: false,
            headline: "INCOMPLETE: 5,201 allocations, 3 lost".to_owned(),
            problems: vec!["3 events: the event ring was full".to_owned()],
            notes: vec!["a note with \x1b]0;title\x07".to_owned()],
        },
        run: Run {
            command: vec![
                "./prog".to_owned(),
                "two words".to_owned(),
                "a\nb".to_owned(),
            ],
            start_wall_ns: 1_795_979_842_000_000_000,
            duration_ns: 3_210_000_000,
            kernel: "6.1.0".to_owned(),
            architecture: "x86_64".to_owned(),
            backend: "bpf".to_owned(),
            memtrack_version: "0.1.0".to_owned(),
            ended: Some("exit code 0".to_owned()),
            options: Vec::new(),
        },
        totals: Totals {
            allocations: 5_201,
            frees: 5_199,
            allocated_bytes: 9_064_010,
            failed: 1,
            null_frees: 2,
            peak_bytes: 5_000_410,
            peak_blocks: 6,
            peak_at_ns: 1_500_000_000,
            leaked_bytes: 410,
            leaked_blocks: 2,
            distinct_stacks: 3,
            ..Totals::default()
        },
        timeline: vec![TimelinePoint {
            time_ns: 1_500_000_000,
            live_bytes: 5_000_410,
            live_blocks: 6,
            allocations: 5_201,
            allocated_bytes: 9_064_010,
        }],
        frames,
        sites: vec![
            site(1, 0, stacks[0].costs),
            site(4, 1, stacks[1].costs),
            site(5, 2, stacks[2].costs),
        ],
        stacks,
        processes: vec![
            ProcessInfo {
                pid: 10,
                names: vec!["prog".to_owned()],
                allocations: 5_200,
                allocated_bytes: 9_064_000,
                peak_bytes: 5_000_400,
                leaked_bytes: 400,
                ..ProcessInfo::default()
            },
            ProcessInfo {
                pid: 11,
                parent: Some(10),
                names: vec!["prog".to_owned(), "sh\u{7}".to_owned()],
                allocations: 1,
                allocated_bytes: 10,
                peak_bytes: 10,
                leaked_bytes: 10,
                ..ProcessInfo::default()
            },
        ],
        terminations: vec![
            ("root reached".to_owned(), 2),
            ("copy too short".to_owned(), 1),
        ],
        ..Findings::default()
    }
}

fn written(name: &str, findings: &Findings, options: &Options) -> String {
    let mut out = Vec::new();
    format(name)
        .unwrap()
        .write(findings, options, &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn text() {
    let text = written("text", &small(), &Options::default());
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
    insta::assert_snapshot!(text);
}

#[test]
fn text_says_what_a_limit_leaves_out() {
    let options = Options {
        top: 1,
        callers: 0,
        ..Options::default()
    };
    insta::assert_snapshot!(written("text", &small(), &options));
}

#[test]
fn text_shows_the_site_whole_and_some_callers() {
    let mut findings = small();
    findings.frames.push(FrameInfo {
        signal: true,
        ..frame("__restore_rt", "", 0, false)
    });
    findings.frames.push(frame("step", "/src/main.c", 50, true));
    findings.frames.push(frame("run", "/src/main.c", 60, false));
    findings.stacks = vec![StackCost {
        frames: vec![0, 1, 2, 6, 7, 8, 3],
        allocator_frames: 1,
        ..findings.stacks[0].clone()
    }];
    findings.sites = vec![Site {
        stacks: 2_000,
        ..findings.sites[0].clone()
    }];
    insta::assert_snapshot!(written("text", &findings, &Options::default()));
}

#[test]
fn text_of_nothing() {
    insta::assert_snapshot!(written("text", &Findings::default(), &Options::default()));
}

#[test]
fn json() {
    let json = written("json", &small(), &Options::default());
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
}

#[test]
fn folded() {
    insta::assert_snapshot!(written("folded", &small(), &Options::default()));
}

#[test]
fn folded_by_every_measure_adds_up_to_the_total() {
    let findings = small();
    for (measure, total) in [
        (Measure::PeakBytes, findings.totals.peak_bytes),
        (Measure::AllocatedBytes, findings.totals.allocated_bytes),
        (Measure::Allocations, findings.totals.allocations),
        (Measure::LeakedBytes, findings.totals.leaked_bytes),
    ] {
        let options = Options {
            measure,
            ..Options::default()
        };
        let sum: u64 = written("folded", &findings, &options)
            .lines()
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
            .sum();
        assert_eq!(sum, total, "{measure:?}");
    }
}

#[test]
fn svg_holds_names_as_text_only() {
    let options = Options {
        measure: Measure::LeakedBytes,
        ..Options::default()
    };
    let svg = written("svg", &small(), &options);
    assert!(svg.contains("prog: bytes leaked"));
    assert!(svg.contains("INCOMPLETE: 5,201 allocations, 3 lost"));
    assert!(svg.contains("evil:name\\u{1b}[31m\\n&lt;/script&gt; 10 (400 bytes"));
    assert!(!svg.contains("</script> 10"));
    // "all" is the whole measure.
    assert!(svg.contains("all (410 bytes, 100%)"));
}

#[test]
fn svg_of_nothing_is_a_picture_that_says_so() {
    let svg = written("svg", &Findings::default(), &Options::default());
    assert!(svg.contains("memtrack: bytes live at the peak: 0"));
}

#[test]
fn svg_survives_sums_that_do_not_fit() {
    let mut findings = small();
    for stack in &mut findings.stacks {
        stack.costs.peak_bytes = u64::MAX;
    }
    assert!(written("svg", &findings, &Options::default()).ends_with("</svg>"));
}

#[test]
fn every_format_passes_on_that_a_pipe_is_closed() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for report in FORMATS {
        let error = report
            .write(&small(), &Options::default(), &mut Closed)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{}", report.name());
    }
}

#[test]
fn positions_out_of_range_are_not_followed() {
    let mut findings = small();
    findings.stacks[0].frames = vec![99, 100];
    findings.stacks[0].allocator_frames = 50;
    findings.sites[0].frame = 99;
    findings.sites[1].example = 99;
    for report in FORMATS.iter().filter(|report| report.name() != "html") {
        report
            .write(&findings, &Options::default(), &mut io::sink())
            .unwrap();
    }
}

#[test]
fn names_of_formats_are_distinct() {
    let mut names: Vec<_> = FORMATS.iter().map(|report| report.name()).collect();
    assert_eq!(names.first(), Some(&"text"));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FORMATS.len());
    assert!(format("nothing").is_none());
}
