//! Names from outside, made harmless for where they are shown.
//!
//! Function names, paths and command lines come from the traced program and
//! its files. Whoever makes those can put anything in: escape sequences that
//! drive a terminal, characters that reorder a line, separators of the output
//! format.

use std::borrow::Cow;

/// For terminals and text files: control characters, line and paragraph
/// separators, characters that reorder text, and what XML has no place for
/// become visible escapes (`\n`, `\u{1b}`). A name without them is unchanged.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_unprintable(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// For one frame of a folded stack: printable, and `;`, which ends a frame
/// there, becomes `:`.
#[must_use]
pub fn folded(text: &str) -> Cow<'_, str> {
    let printable = printable(text);
    if printable.contains(';') {
        Cow::Owned(printable.replace(';', ":"))
    } else {
        printable
    }
}

fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Zero width and direction marks, line and paragraph separator,
            // embeddings and overrides, invisible operators, isolates.
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{61c}' | '\u{feff}'
            // Not characters at all.
                | '\u{fffe}' | '\u{ffff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(
            printable("operator new(unsigned long)"),
            "operator new(unsigned long)"
        );
        assert_eq!(printable("größe"), "größe");
        assert_eq!(
            printable("a\x1b[2Jb\nc\r\t\0"),
            "a\\u{1b}[2Jb\\nc\\r\\t\\u{0}"
        );
        assert_eq!(printable("c1 \u{9b}31m \u{85}"), "c1 \\u{9b}31m \\u{85}");
        assert_eq!(
            printable("\u{202e}txt.exe\u{2028}"),
            "\\u{202e}txt.exe\\u{2028}"
        );
    }

    #[test]
    fn a_folded_frame_holds_no_separator() {
        assert_eq!(folded("main"), "main");
        assert_eq!(
            folded("frame;with;semicolons 9 10"),
            "frame:with:semicolons 9 10"
        );
        assert_eq!(folded("a\n;b"), "a\\n:b");
    }
}
