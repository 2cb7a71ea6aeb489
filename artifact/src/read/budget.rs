//! Bounds on memory while an artifact is opened.

use crate::raw::v1::input::Broken;

/// Memory that one kind of content may still take. Once it is spent, nothing
/// more of that kind is even decoded.
pub(super) struct Budget {
    of: &'static str,
    left: Option<usize>,
}

impl Budget {
    pub(super) fn new(of: &'static str, bytes: usize) -> Self {
        Self {
            of,
            left: Some(bytes),
        }
    }

    pub(super) fn check(&self) -> Result<(), Broken> {
        match self.left {
            Some(_) => Ok(()),
            None => Err(Broken(format!(
                "the {} need more memory than is allowed for a file of this length: \
                 the rest is not read",
                self.of
            ))),
        }
    }

    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), Broken> {
        self.left = self.left.and_then(|left| left.checked_sub(bytes));
        self.check()
    }
}
