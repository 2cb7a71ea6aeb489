//! The Content-Security-Policy of the page: nothing may be loaded, and only
//! the very scripts and styles that memtrack put in may run.

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

/// A source expression that admits exactly `content`
/// (CSP level 3, section 2.3.1, `hash-source`).
pub(super) fn hash_source(content: &str) -> String {
    format!(
        "'sha256-{}'",
        STANDARD.encode(Sha256::digest(content.as_bytes()))
    )
}

/// The policy for inline `scripts` and `styles` with these contents.
pub(super) fn policy(scripts: &[&str], styles: &[&str]) -> String {
    let sources = |contents: &[&str]| {
        contents
            .iter()
            .map(|content| hash_source(content))
            .collect::<Vec<_>>()
            .join(" ")
    };
    format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; \
         form-action 'none'",
        sources(scripts),
        sources(styles),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_that_of_the_specification() {
        // The example of CSP level 3, section 8.4.
        assert_eq!(
            hash_source("alert('Hello, world.');"),
            "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
        );
    }

    #[test]
    fn policy_names_every_block_and_loads_nothing() {
        let policy = policy(&["a", "b"], &["c"]);
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"));
        assert_eq!(policy.matches("'sha256-").count(), 3);
        assert!(!policy.contains("unsafe"));
        assert!(!policy.contains("http"));
    }
}
