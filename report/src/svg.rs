//! A flame graph as one SVG file, drawn by inferno.

use crate::{
    escape, folded,
    format::{Options, Report, describe},
    units,
};
use inferno::flamegraph::{
    self,
    color::{BasicPalette, Palette},
};
use memtrack_analyze::findings::{Findings, Measure};
use std::io::{self, Write};

/// The SVG format.
#[derive(Clone, Copy, Debug)]
pub struct Svg;

impl Report for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }

    fn summary(&self) -> &'static str {
        "a flame graph"
    }

    fn write(&self, findings: &Findings, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let folded = folded::fold(findings, options.measure);
        if folded.is_empty() {
            return write_empty(findings, options.measure, out);
        }
        let divisor = divisor(folded.values());
        let lines: Vec<String> = folded
            .iter()
            .map(|(stack, value)| format!("{} {}", keep_whole(stack), value / divisor))
            .collect();
        let mut settings = flamegraph::Options::default();
        settings.title = title(findings, options.measure);
        settings.subtitle = Some(escape::printable(&findings.verdict.headline).into_owned());
        settings.count_name = match options.measure {
            Measure::Allocations => "allocations",
            _ => "bytes",
        }
        .to_owned();
        settings.colors = Palette::Basic(BasicPalette::Mem);
        // The same name has the same colour in every picture.
        settings.hash = true;
        flamegraph::from_lines(&mut settings, lines.iter().map(String::as_str), out)
    }
}

fn title(findings: &Findings, measure: Measure) -> String {
    let program = findings
        .run
        .command
        .first()
        .map(|command| command.rsplit('/').next().unwrap_or(command))
        .unwrap_or("memtrack");
    format!("{}: {}", escape::printable(program), describe(measure))
}

/// inferno reads a line from its end: a number after a blank is a value, and a
/// second one before it makes a difference of two. A name that ends in a
/// number keeps it by a blank that does not break; so does a first name that
/// begins like a comment.
fn keep_whole(stack: &str) -> String {
    const NO_BREAK: &str = "\u{a0}";
    let mut stack = stack.to_owned();
    if let Some(blank) = stack.rfind(' ')
        && stack.get(blank + 1..).is_some_and(|last| {
            last.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    {
        stack.replace_range(blank..=blank, NO_BREAK);
    }
    if stack.starts_with("# ") {
        stack.replace_range(1..2, NO_BREAK);
    }
    stack
}

/// Sums inside inferno are 64 bits wide and unchecked: values whose sum does
/// not fit (no real run has them) are drawn to scale.
fn divisor<'a>(values: impl Iterator<Item = &'a u64>) -> u64 {
    let sum: u128 = values.map(|&value| u128::from(value)).sum();
    u64::try_from(sum / u128::from(u64::MAX >> 2))
        .unwrap_or(u64::MAX)
        .saturating_add(1)
}

/// inferno takes a graph of nothing for an error; here it is an answer.
fn write_empty(findings: &Findings, measure: Measure, out: &mut dyn Write) -> io::Result<()> {
    let title = xml(&title(findings, measure));
    let verdict = xml(&escape::printable(&findings.verdict.headline));
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 90\" \
         font-family=\"monospace\" text-anchor=\"middle\">\n\
         <title>{title}</title>\n\
         <text x=\"600\" y=\"30\" font-size=\"17\">{title}: {}</text>\n\
         <text x=\"600\" y=\"60\" font-size=\"12\">{verdict}</text>\n\
         </svg>",
        units::count(0)
    )
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_values_stay_names() {
        assert_eq!(keep_whole("a;b 10"), "a;b\u{a0}10");
        assert_eq!(keep_whole("a;b 1.5"), "a;b\u{a0}1.5");
        assert_eq!(keep_whole("a 10;b"), "a 10;b");
        assert_eq!(keep_whole("# a;b"), "#\u{a0}a;b");
        assert_eq!(
            keep_whole("operator new(unsigned long)"),
            "operator new(unsigned long)"
        );
    }

    #[test]
    fn sums_fit() {
        assert_eq!(divisor([1, 2].iter()), 1);
        let values = [u64::MAX; 9];
        let divisor = divisor(values.iter());
        assert!(values.len() as u128 * u128::from(u64::MAX / divisor) <= u128::from(u64::MAX >> 1));
    }
}
