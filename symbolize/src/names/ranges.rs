//! Symbols that may overlap, as ranges that do not.

use std::cmp::Ordering;

/// A function symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) start: u64,
    /// 0 when the table gives none.
    pub(crate) bytes: u64,
    /// Position of the name in the string table.
    pub(crate) name: u32,
    /// Length of the name, and underscores that it begins with.
    pub(crate) name_bytes: u32,
    pub(crate) underscores: u32,
    pub(crate) local: bool,
}

/// From `start` to the next range the name is that of `symbol`, or there is
/// none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) symbol: Option<Symbol>,
}

/// Ranges that do not overlap, of symbols that may.
///
/// ```text
/// outer    |------------------------|
/// inner         |-------|
/// label    |                           |        (size 0)
/// ranges   outer |inner | outer     |gap| label
/// ```
///
/// `sections` are their ranges by start: a label ends with its own.
/// `others` are the first addresses of what is no function: they end a label.
/// `preference` orders symbols of one range, the one to show first.
pub(crate) fn flatten(
    mut functions: Vec<Symbol>,
    mut others: Vec<u64>,
    sections: &[(u64, u64)],
    preference: impl Fn(&Symbol, &Symbol) -> Ordering,
) -> Vec<Range> {
    // By start, larger first, so that the smallest of one start ends on top;
    // among equal ranges the preferred one last.
    functions.sort_unstable_by(|left, right| {
        left.start
            .cmp(&right.start)
            .then(right.bytes.cmp(&left.bytes))
            .then_with(|| preference(right, left))
    });
    others.extend(functions.iter().map(|symbol| symbol.start));
    others.sort_unstable();
    others.dedup();

    let mut ranges: Vec<Range> = Vec::with_capacity(functions.len() * 2);
    let mut emit = |start: u64, symbol: Option<Symbol>| {
        if ranges.last().is_some_and(|last| last.start == start) {
            ranges.pop();
        }
        ranges.push(Range { start, symbol });
    };
    // Sized functions that have begun and not ended, the latest on top.
    let mut open: Vec<(u64, Symbol)> = Vec::new();
    let mut label: Option<Symbol> = None;
    let mut next_function = functions.into_iter().peekable();
    let mut position;
    // Every place where a range can begin: first addresses, and ends as they
    // come up.
    let mut starts = others.into_iter().peekable();
    loop {
        let next_end = open.iter().map(|(end, _)| *end).next_back();
        position = match (starts.peek().copied(), next_end) {
            (Some(start), Some(end)) => start.min(end),
            (Some(start), None) => start,
            (None, Some(end)) => end,
            (None, None) => break,
        };
        while open.last().is_some_and(|(end, _)| *end <= position) {
            open.pop();
        }
        if starts.peek() == Some(&position) {
            starts.next();
            label = None;
            while let Some(symbol) = next_function.next_if(|symbol| symbol.start == position) {
                match symbol.start.checked_add(symbol.bytes) {
                    Some(end) if symbol.bytes > 0 => open.push((end, symbol)),
                    // Equal preference order: the last is the best.
                    _ => label = Some(symbol),
                }
            }
        }
        match (open.last(), label) {
            (Some((_, symbol)), _) => emit(position, Some(*symbol)),
            (None, Some(symbol)) if symbol.start == position => {
                emit(position, Some(symbol));
                let after = sections.partition_point(|(start, _)| *start <= position);
                let section = after.checked_sub(1).and_then(|at| sections.get(at));
                let end = section.map(|(_, end)| *end).filter(|end| position < *end);
                if let Some(end) = end {
                    let next = starts.peek().copied().unwrap_or(u64::MAX);
                    if end < next {
                        emit(end, None);
                    }
                }
            }
            (None, _) => emit(position, None),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule in its plainest form: look at every symbol.
    fn naive(symbols: &[(u64, u64)], address: u64) -> Option<(u64, u64)> {
        symbols
            .iter()
            .copied()
            .filter(|(start, bytes)| *start <= address && address < start + bytes)
            .max_by_key(|(start, bytes)| (*start, std::cmp::Reverse(*bytes)))
    }

    proptest! {
        #[test]
        fn ranges_agree_with_looking_at_every_symbol(
            symbols in prop::collection::vec((0_u64..60, 1_u64..20), 0..20),
        ) {
            let functions = symbols
                .iter()
                .map(|(start, bytes)| Symbol { start: *start, bytes: *bytes, name: 0, name_bytes: 0, underscores: 0, local: false })
                .collect();
            let ranges = flatten(functions, Vec::new(), &[], |_, _| Ordering::Equal);
            for address in 0..90 {
                let after = ranges.partition_point(|range| range.start <= address);
                let symbol = after.checked_sub(1).and_then(|at| ranges[at].symbol);
                let found = symbol.map(|symbol| (symbol.start, symbol.bytes));
                prop_assert_eq!(found, naive(&symbols, address), "at {}", address);
            }
        }
    }
}
