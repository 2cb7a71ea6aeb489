//! The JSON of `memtrack report --json`, as far as the tests read it.

use serde::Deserialize;

#[derive(Deserialize)]
pub struct Findings {
    pub verdict: Verdict,
    pub totals: Totals,
    pub frames: Vec<Frame>,
    pub stacks: Vec<Stack>,
    pub modules: Vec<Module>,
    pub terminations: Vec<(String, u64)>,
    pub detail: Vec<Detail>,
}

#[derive(Deserialize)]
pub struct Verdict {
    pub complete: bool,
    pub headline: String,
    pub problems: Vec<String>,
}

#[derive(Deserialize)]
pub struct Totals {
    pub allocations: u64,
    pub frees: u64,
    pub inherited_frees: u64,
    pub ended_unseen: u64,
    pub allocated_bytes: u64,
    pub failed: u64,
    pub null_frees: u64,
}

#[derive(Debug, Deserialize)]
pub struct Frame {
    pub function: Option<String>,
    pub module: Option<String>,
    pub address: u64,
    pub inline: bool,
}

#[derive(Deserialize)]
pub struct Stack {
    pub frames: Vec<usize>,
    pub truncated: Option<String>,
}

#[derive(Deserialize)]
pub struct Module {
    pub path: String,
    pub asked: u64,
    pub named: u64,
    pub notes: Vec<String>,
}

#[derive(Deserialize)]
pub struct Detail {
    pub stack: Option<usize>,
    pub size: u64,
    pub calls: u64,
}

impl Findings {
    /// Share of the distinct stacks that end at their root, in percent.
    pub fn rooted_percent(&self) -> f64 {
        let rooted = self.stacks.iter().filter(|stack| stack.truncated.is_none());
        100.0 * rooted.count() as f64 / self.stacks.len() as f64
    }

    /// Whether some frame has this function name (see [`base`]).
    pub fn names(&self, function: &str) -> bool {
        let names = self
            .frames
            .iter()
            .filter_map(|frame| frame.function.as_deref());
        names.map(base).any(|name| name == base(function))
    }

    /// A stack's frames from the caller of the allocation function outward: one
    /// physical frame is dropped, with the calls inlined into it.
    pub fn callers(&self, stack: &Stack) -> Vec<&Frame> {
        let frames: Vec<_> = stack.frames.iter().map(|&at| &self.frames[at]).collect();
        let own = frames.iter().take_while(|frame| frame.inline).count() + 1;
        frames.into_iter().skip(own).collect()
    }
}

/// A name without parameters, template arguments, return type and clone suffix.
pub fn base(name: &str) -> String {
    let name = name.replace("(anonymous namespace)", "{anonymous}");
    let (mut kept, mut depth, mut before) = (String::new(), 0, ' ');
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' if before == '-' => {}
            '>' if depth > 0 => depth -= 1,
            '(' if depth == 0 => break,
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
        before = letter;
    }
    let kept = kept.trim().rsplit(' ').next().unwrap_or_default();
    for suffix in [".constprop", ".isra", ".part", ".cold", ".lto_priv"] {
        if let Some((before, _)) = kept.split_once(suffix) {
            return before.to_owned();
        }
    }
    kept.to_owned()
}
