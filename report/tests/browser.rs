//! The HTML report in a real browser: chromium, google-chrome or firefox,
//! whichever is installed. `CI=true` makes a missing browser a failure.

#![allow(clippy::unwrap_used)]

#[path = "browser/driver.rs"]
mod driver;
mod sample;

use driver::Browser;
use memtrack_analyze::findings::{Costs, Findings, FrameInfo, Measure, StackCost};
use memtrack_report::units;
use serde_json::Value;

fn page(findings: &Findings) -> String {
    let mut page = Vec::new();
    memtrack_report::html::write(findings, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

fn no_errors(seen: &Value) {
    assert_eq!(seen["errors"], serde_json::json!([]));
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no whole number"))
}

fn texts(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect()
}

/// Names of all sites in the order of `key`, greatest first.
fn names_by(findings: &Findings, key: impl Fn(&Costs) -> u64) -> Vec<String> {
    let mut sites: Vec<_> = findings.sites.iter().collect();
    sites.sort_by_key(|site| std::cmp::Reverse(key(&site.costs)));
    sites
        .iter()
        .map(|site| findings.frames[site.frame as usize].display_name())
        .collect()
}

#[test]
fn a_report_can_be_used() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let findings = sample::findings(3_000);
    let totals = findings.totals;
    let seen = browser.probe(&page(&findings));
    no_errors(&seen);
    assert_eq!(seen["ready"], "true");

    // Drawn, and the root is the total.
    assert!(number(&seen["first"]["frames"]) > 100, "{}", seen["first"]);
    assert_eq!(number(&seen["first"]["rootValue"]), totals.peak_bytes);
    assert!(number(&seen["coloursOfRoot"]) >= 1);
    assert!(
        number(&seen["coloursBelow"]) >= 3,
        "no frames on the canvas"
    );
    assert_eq!(number(&seen["chartPoints"]), findings.timeline.len() as u64);
    assert_eq!(seen["chartCanvas"], 1);

    // The script formats as `units` does.
    let rows: Vec<Vec<&str>> = seen["rows"].as_array().unwrap().iter().map(texts).collect();
    assert_eq!(rows.len(), findings.sites.len());
    for (row, site) in rows.iter().zip(&findings.sites) {
        let costs = &site.costs;
        let expected = [
            findings.frames[site.frame as usize].display_name(),
            units::bytes(costs.peak_bytes),
            units::bytes(costs.allocated_bytes),
            units::count(costs.allocations),
            units::bytes(costs.leaked_bytes),
            units::share(costs.peak_bytes, totals.peak_bytes),
        ];
        assert_eq!(*row, expected);
    }
    assert_eq!(seen["axes"], serde_json::json!([2, 3, "true", 2, "false"]));

    // Every measure, in both directions, and the table follows.
    for (name, measure, total) in [
        ("peak_bytes", Measure::PeakBytes, totals.peak_bytes),
        (
            "allocated_bytes",
            Measure::AllocatedBytes,
            totals.allocated_bytes,
        ),
        ("allocations", Measure::Allocations, totals.allocations),
        ("leaked_bytes", Measure::LeakedBytes, totals.leaked_bytes),
    ] {
        let shown = &seen["measures"][name];
        assert_eq!(number(&shown["upright"]), total, "{name}");
        assert_eq!(number(&shown["inverted"]), total, "{name}");
        assert_eq!(
            shown["first"],
            names_by(&findings, |costs| costs.get(measure))[0],
            "{name}"
        );
        assert!(
            shown["details"].as_str().unwrap().contains("100.0 %"),
            "{shown}"
        );
    }

    // Zoom in and out.
    let zoomed = number(&seen["zoomed"]["zoomedValue"]);
    assert!(zoomed > 0 && zoomed < totals.peak_bytes);
    assert!(number(&seen["zoomed"]["crumbs"]) > 2);
    assert_eq!(number(&seen["reset"]["zoomedValue"]), totals.peak_bytes);
    assert!(number(&seen["byKeys"]["zoomedValue"]) < totals.peak_bytes);
    let spoken = seen["byKeys"]["spoken"].as_str().unwrap();
    assert!(spoken.starts_with("__libc_start_main_impl, "), "{spoken}");

    // Search: the bytes of the stacks that hold a matching frame.
    let matched: u64 = findings
        .stacks
        .iter()
        .filter(|stack| {
            stack.frames.iter().any(|frame| {
                let name = findings.frames[*frame as usize].display_name();
                name == "dictresize" || name == "list_resize"
            })
        })
        .map(|stack| stack.costs.peak_bytes)
        .sum();
    assert_eq!(seen["slashFocuses"], true);
    assert_eq!(number(&seen["search"]["icicle"]["matched"]), matched);
    assert!(
        seen["search"]["sites"]
            .as_str()
            .unwrap()
            .contains(" of 12 call sites match")
    );
    assert_eq!(number(&seen["noMatch"]["icicle"]["matched"]), 0);
    assert_eq!(seen["badQuery"]["invalid"], "true");
    assert_eq!(seen["cleared"]["value"], "");
    assert!(seen["cleared"]["icicle"]["matched"].is_null());

    // The table.
    let mut by_name = names_by(&findings, |_| 0);
    by_name.sort();
    assert_eq!(texts(&seen["byName"]), by_name);
    by_name.reverse();
    assert_eq!(texts(&seen["byNameDown"]), by_name);
    assert_eq!(
        texts(&seen["byCount"]),
        names_by(&findings, |costs| costs.allocations)
    );
    assert_eq!(number(&seen["openStacks"]), 5);
    let frames = texts(&seen["openFrames"]);
    assert!(
        frames[0].starts_with("malloc/usr/src/malloc/malloc.c:3301"),
        "{frames:?}"
    );
    assert!(number(&seen["shown"]["zoomedValue"]) < totals.peak_bytes);

    // The summary is that of the findings.
    let figures: Vec<[&str; 2]> = seen["figures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|card| [card[0].as_str().unwrap(), card[1].as_str().unwrap()])
        .collect();
    for (name, value) in [
        ("Live at peak", units::bytes(totals.peak_bytes)),
        ("Allocated", units::bytes(totals.allocated_bytes)),
        ("Allocations", units::count(totals.allocations)),
        ("Leaked", units::bytes(totals.leaked_bytes)),
        ("Frees", units::count(totals.frees)),
        ("Failed", units::count(totals.failed)),
        ("Stacks", units::count(totals.distinct_stacks)),
    ] {
        assert!(
            figures.contains(&[name, &value]),
            "{name} {value} in {figures:?}"
        );
    }
}

/// Each calls `mtxssN` when it runs; the probe notes the calls.
const HOSTILE: [&str; 9] = [
    "<script>mtxss1()</script>",
    "</script><img src=x onerror=mtxss2()>",
    "a' onmouseover='mtxss3()",
    "&lt;mtxss4&amp;&#60;",
    "${mtxss5()}`mtxss5`",
    "<!--<script>mtxss6()",
    "]]><svg onload=mtxss7()>",
    "javascript:mtxss8()",
    "\"><b onclick=\"mtxss9()\">",
];

fn hostile() -> Findings {
    let frame = |name: &str| FrameInfo {
        function: Some(name.to_owned()),
        file: Some(name.to_owned()),
        line: 1,
        module: Some(name.to_owned()),
        ..FrameInfo::default()
    };
    let stack = |position: u32| StackCost {
        frames: vec![position, (position + 1) % 9],
        costs: Costs {
            allocations: 1,
            allocated_bytes: 100,
            peak_bytes: 100,
            peak_blocks: 1,
            ..Costs::default()
        },
        ..StackCost::default()
    };
    let mut findings = sample::assemble(HOSTILE.map(frame).to_vec(), (0..9).map(stack).collect());
    findings.run.command = HOSTILE.map(str::to_owned).to_vec();
    findings.verdict.notes = HOSTILE.map(str::to_owned).to_vec();
    for module in &mut findings.modules {
        module.path = HOSTILE[0].to_owned();
        module.notes = HOSTILE.map(str::to_owned).to_vec();
    }
    findings
}

#[test]
fn hostile_names_are_text_and_nothing_else() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let seen = browser.probe(&page(&hostile()));
    no_errors(&seen);
    assert_eq!(seen["ran"], serde_json::json!([]));
    let text = seen["text"].as_str().unwrap();
    for name in HOSTILE {
        assert!(text.contains(name), "{name} cannot be read");
    }
    let elements = texts(&seen["elements"]);
    for element in ["img", "b"] {
        assert!(!elements.contains(&element), "<{element}> in the page");
    }
    for attribute in texts(&seen["attributes"]) {
        assert!(!attribute.starts_with("on"), "{attribute} in the page");
    }
}

#[test]
fn lines_of_one_function_are_one_block() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let frame = |function: &str, line| FrameInfo {
        function: Some(function.to_owned()),
        file: Some("prog.c".to_owned()),
        line,
        ..FrameInfo::default()
    };
    let frames = [("main", 10), ("main", 20), ("f", 1), ("g", 2)];
    let stack = |frames: [u32; 2]| StackCost {
        frames: frames.to_vec(),
        costs: Costs {
            allocations: 1,
            allocated_bytes: 100,
            peak_bytes: 100,
            peak_blocks: 1,
            ..Costs::default()
        },
        ..StackCost::default()
    };
    let findings = sample::assemble(
        frames
            .map(|(function, line)| frame(function, line))
            .to_vec(),
        vec![stack([2, 0]), stack([3, 1])],
    );
    let seen = browser.probe(&page(&findings));
    no_errors(&seen);
    // The root, main, f and g.
    assert_eq!(number(&seen["first"]["frames"]), 4);
    assert_eq!(number(&seen["first"]["rootValue"]), 200);
}

#[test]
fn a_report_of_nothing_opens() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let seen = browser.probe(&page(&Findings::default()));
    no_errors(&seen);
    assert!(
        seen["text"]
            .as_str()
            .unwrap()
            .contains("Where to look first")
    );
}

/// The probe needs a wider policy; the page as users get it must run too.
#[test]
fn the_page_as_written_runs_from_a_file() {
    let Some(browser) = Browser::find() else {
        return;
    };
    if !browser.is_chromium() {
        eprintln!("skipped: only chromium prints a page's console");
        return;
    }
    for findings in [sample::findings(500), hostile(), Findings::default()] {
        let (document, log) = browser.dump(&page(&findings));
        assert_eq!(log, [""; 0]);
        assert!(
            document.contains("data-ready=\"true\""),
            "the script did not finish"
        );
        let root = format!("data-root-value=\"{}\"", findings.totals.peak_bytes);
        assert!(document.contains(&root), "{root}");
    }
}
