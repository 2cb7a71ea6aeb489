//! Taking probes away, beside the work that is left.
//!
//! The kernel waits for a grace period at each link, about 0.08 s, and for one
//! after the other however many threads close them. That is nothing for links
//! of many probes, and 1.4 s for glibc's functions each by a link of its own
//! (kernels before 6.6). So it happens while the modules are read.

use libbpf_rs::Link;
use std::thread::{self, JoinHandle};

/// Links that are being closed. Dropping it waits for the last.
pub(crate) struct Detaching(Option<JoinHandle<()>>);

impl Detaching {
    /// Begins to close them.
    pub(crate) fn start(links: Vec<Link>) -> Self {
        let thread = thread::Builder::new()
            .name("memtrack-detach".into())
            .spawn(move || drop(links));
        // Without a thread they have been closed just now.
        Self(thread.ok())
    }
}

impl Drop for Detaching {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}
