//! How a long step tells that it gets on, without knowing who listens.

/// Receives progress. Implementations are shared between worker threads.
pub trait Progress: Sync {
    /// A step begins; `total` units of work are expected (0: unknown).
    fn start(&self, step: &'static str, total: u64);
    /// `units` more are done.
    fn advance(&self, units: u64);
    /// The step is over.
    fn finish(&self);
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn start(&self, _: &'static str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn finish(&self) {}
}
