use super::*;
use memtrack_analyze::findings::{
    Costs, FrameInfo, ModuleInfo, ProcessInfo, Run, Site, StackCost, Verdict,
};

/// Names that are markup, script or JSON when they are not escaped.
const HOSTILE: [&str; 9] = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "a' onmouseover='alert(3)",
    "\" onmouseover=\"alert(4)",
    "&lt;b&amp;&#60;",
    "${alert(5)}`alert(5)`",
    "<!--<script>",
    "]]><svg onload=alert(6)>",
    "javascript:alert(7)",
];

/// Findings that carry each hostile name everywhere a name can be.
fn hostile() -> Findings {
    let names = || HOSTILE.map(str::to_owned).to_vec();
    let costs = Costs {
        allocations: 1,
        allocated_bytes: 64,
        peak_bytes: 64,
        peak_blocks: 1,
        leaked_bytes: 64,
        leaked_blocks: 1,
        failed: 0,
    };
    let mut findings = Findings {
        verdict: Verdict {
            complete: false,
            headline: HOSTILE[0].to_owned(),
            problems: names(),
            notes: names(),
        },
        run: Run {
            command: names(),
            kernel: HOSTILE[1].to_owned(),
            ended: Some(HOSTILE[2].to_owned()),
            options: names(),
            ..Run::default()
        },
        terminations: HOSTILE.map(|name| (name.to_owned(), 1)).to_vec(),
        ..Findings::default()
    };
    for (position, name) in (0_u32..).zip(HOSTILE) {
        findings.frames.push(FrameInfo {
            function: Some(name.to_owned()),
            file: Some(name.to_owned()),
            line: 7,
            module: Some(name.to_owned()),
            ..FrameInfo::default()
        });
        findings.stacks.push(StackCost {
            frames: vec![position],
            truncated: Some(name.to_owned()),
            costs,
            ..StackCost::default()
        });
        findings.sites.push(Site {
            frame: position,
            stacks: 1,
            example: position,
            costs,
        });
        findings.modules.push(ModuleInfo {
            path: name.to_owned(),
            notes: names(),
            ..ModuleInfo::default()
        });
        findings.processes.push(ProcessInfo {
            names: names(),
            ..ProcessInfo::default()
        });
    }
    findings
}

fn page(findings: &Findings) -> String {
    let mut page = Vec::new();
    write(findings, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

/// The contents of all elements whose start tag is `tag`.
fn contents<'a>(page: &'a str, tag: &str, end: &str) -> Vec<&'a str> {
    page.split(tag)
        .skip(1)
        .map(|rest| rest.split(end).next().unwrap())
        .collect()
}

#[test]
fn hostile_names_make_no_markup() {
    let plain = page(&Findings::default());
    let page = page(&hostile());
    // As many scripts and styles as a page without any names.
    for tag in ["<script", "</script", "<style", "<!--", "<img"] {
        assert_eq!(
            page.matches(tag).count(),
            plain.matches(tag).count(),
            "{tag}"
        );
    }
    for name in HOSTILE {
        if name.contains(['<', '"']) {
            assert!(!page.contains(name), "{name} stands unescaped");
        }
    }
}

#[test]
fn names_are_text_of_the_static_part() {
    let page = page(&hostile());
    let body = page.split("<script").next().unwrap();
    for name in HOSTILE {
        let escaped = maud::html! { (name) }.into_string();
        assert!(body.contains(&escaped), "{name} cannot be read");
    }
}

#[test]
fn policy_admits_exactly_the_blocks_of_the_page() {
    let page = page(&hostile());
    let scripts = contents(&page, "<script>", "</script>");
    let styles = contents(&page, "<style>", "</style>");
    assert_eq!((scripts.len(), styles.len()), (2, 2));
    let policy = maud::html! { (csp::policy(&scripts, &styles)) }.into_string();
    assert!(page.contains(&format!("content=\"{policy}\"")));
}

#[test]
fn nothing_is_loaded_and_no_markup_ends_a_block() {
    for block in [SCRIPT, UPLOT_SCRIPT, STYLE, UPLOT_STYLE] {
        for mark in ["</script", "<script", "<!--", "</style", "@import", "url("] {
            assert!(!block.contains(mark), "{mark}");
        }
    }
    for sink in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
    ] {
        assert!(!SCRIPT.contains(sink), "{sink}");
    }
    let body = page(&Findings::default());
    for attribute in [" src=", " style=", " onclick="] {
        assert!(!body.split("<script").next().unwrap().contains(attribute));
    }
}

#[test]
fn block_of_json_can_be_read_back() {
    let page = page(&hostile());
    let block = contents(
        &page,
        "<script type=\"application/json\" id=\"findings\">",
        "</script>",
    );
    let value: serde_json::Value = serde_json::from_str(block[0]).unwrap();
    let strings: Vec<&str> = value["strings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|string| string.as_str().unwrap())
        .collect();
    for name in HOSTILE {
        assert!(strings.contains(&name), "{name}");
    }
}

#[test]
fn verdict_comes_before_every_number() {
    let page = page(&hostile());
    let verdict = page.find("id=\"verdict\"").unwrap();
    assert!(verdict < page.find("id=\"summary\"").unwrap());
    assert!(page.contains("class=\"verdict incomplete\""));
}

#[test]
fn stacks_beyond_the_totals_are_no_complete_report() {
    let mut findings = hostile();
    findings.verdict = Verdict {
        complete: true,
        ..Verdict::default()
    };
    assert!(page(&findings).contains("the stacks hold 9 allocations, the total says 0"));
    assert!(page(&findings).contains("class=\"verdict incomplete\""));
}

#[test]
fn letters_that_reorder_a_line_are_spelled_out() {
    let mut findings = hostile();
    findings.frames[0].function = Some("a\u{202e}b\u{2028}c".to_owned());
    let page = page(&findings);
    assert!(!page.contains(['\u{202e}', '\u{2028}']));
    assert!(page.contains("a\\u{202e}b\\u{2028}c"));
}
