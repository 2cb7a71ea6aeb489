//! libbpf's own messages: kept for the error that follows instead of printed.

use libbpf_rs::{PrintLevel, set_print};
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

/// Lines kept: the end of a verifier's log is what tells.
const KEPT_LINES: usize = 40;

static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn keep(_level: PrintLevel, message: String) {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    for line in message.lines() {
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }
}

/// From now on libbpf's warnings are kept.
pub(crate) fn install() {
    set_print(Some((PrintLevel::Warn, keep)));
}

/// Takes what was kept, each line behind a line break and indented.
pub(crate) fn take() -> String {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.drain(..).fold(String::new(), |mut text, line| {
        text.push_str("\n  ");
        text.push_str(&line);
        text
    })
}
