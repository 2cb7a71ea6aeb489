//! What is called where in the test programs, known by construction.

use super::Recording;
use memtrack_artifact::{StackId, Symbols};

/// The caller of malloc at the site with this size, up to its physical frame:
/// "name file:line", inlined calls marked with a star.
pub(crate) fn site(recording: &Recording, symbols: &Symbols, size: u64) -> Vec<String> {
    const RDI: usize = 5;
    let position = recording
        .stacks
        .iter()
        .position(|stack| stack.registers[RDI] == size)
        .unwrap_or_else(|| panic!("no call with size {size}"));
    let id = StackId(u32::try_from(position).unwrap());
    let mut out = Vec::new();
    for id in symbols.stack(id).iter().skip(1) {
        let frame = symbols.frame(*id).unwrap();
        let name = frame.function.map_or("?", |name| symbols.string(name));
        let file = frame.file.map_or("", |file| symbols.string(file));
        let file = file.rsplit('/').next().unwrap_or_default();
        let star = if frame.inline { "*" } else { "" };
        out.push(format!("{name}{star} {file}:{}", frame.line));
        if !frame.inline {
            break;
        }
    }
    out
}

/// Sites of `unwind_names.cc` as g++ names them.
pub(crate) const CPP: [(u64, &[&str]); 8] = [
    (
        8001,
        &["depot::Shelf<depot::Item, 3>::Shelf() unwind_names.cc:18"],
    ),
    (
        8002,
        &["depot::Shelf<depot::Item, 3>::fill(depot::Item) unwind_names.cc:19"],
    ),
    (
        8003,
        &[
            "depot::Shelf<depot::Item, 3>::operator+=(depot::Shelf<depot::Item, 3> const&) unwind_names.cc:20",
        ],
    ),
    (
        8004,
        &["depot::(anonymous namespace)::hidden(depot::Item const&) unwind_names.cc:24"],
    ),
    (
        8005,
        &[
            "depot::innermost(int)* unwind_names.cc:27",
            "depot::middle(int)* unwind_names.cc:28",
            "depot::outermost() unwind_names.cc:31",
        ],
    ),
    (
        8006,
        &[
            "main::{lambda}::operator()* unwind_names.cc:50",
            "depot::apply<main::{lambda()#1}>(main::{lambda()#1}) unwind_names.cc:35",
        ],
    ),
    (8007, &["depot::only_here(int) unwind_names.cc:37"]),
    (8008, &["plain_c unwind_names.cc:41"]),
];
