//! A limit to what a fault of a third-party parser can cost.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a parser that is not ours on bytes that are not ours. `None` when it
/// panicked: the caller answers as for malformed bytes, so that one broken file
/// costs its own names or frames and not the whole run. What the parser was
/// changing then must not be used again without being reset.
pub(crate) fn shield<T>(parse: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(parse)).ok()
}

#[cfg(test)]
mod tests {
    use super::shield;

    #[test]
    fn a_panic_is_an_answer() {
        assert_eq!(shield(|| 1), Some(1));
        assert_eq!(
            shield(|| -> u8 { panic!("a parser\'s fault, on purpose") }),
            None
        );
    }
}
