//! Progress bars on a terminal; silent elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use memtrack_artifact::Progress;
use std::sync::Mutex;

/// One bar on stderr, redrawn for each step. `indicatif` draws nothing when
/// stderr is no terminal.
#[derive(Default)]
pub(crate) struct Bar {
    current: Mutex<Option<ProgressBar>>,
}

impl Bar {
    fn with(&self, act: impl FnOnce(&mut Option<ProgressBar>)) {
        // A worker that panicked while it held the lock left a bar that is
        // still good to draw on.
        act(&mut self
            .current
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

impl Progress for Bar {
    fn start(&self, step: &'static str, total: u64) {
        let bar =
            ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("{msg:>12} [{bar:40}] {percent:>3}%  {eta}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(step);
        self.with(|current| {
            if let Some(old) = current.replace(bar) {
                old.finish_and_clear();
            }
        });
    }

    fn advance(&self, units: u64) {
        self.with(|current| {
            if let Some(bar) = current {
                bar.inc(units);
            }
        });
    }

    fn finish(&self) {
        self.with(|current| {
            if let Some(bar) = current.take() {
                bar.finish_and_clear();
            }
        });
    }
}
