//! JSON that may stand inside a `<script>` element.
//!
//! An HTML parser ends a script at `</script` and changes its mode at
//! `<!--`, wherever in the text they stand. In JSON these characters occur
//! only inside strings, where `\u` escapes mean the same: so each of them is
//! written as one.

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io;

/// Writes `value` as compact JSON without `<`, `>`, `&`, U+2028 and U+2029.
pub(super) fn write(value: &impl Serialize, out: &mut dyn io::Write) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(out, ScriptSafe);
    value.serialize(&mut serializer).map_err(io::Error::from)
}

struct ScriptSafe;

impl Formatter for ScriptSafe {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (before, from) = rest.split_at(at);
            let mut letters = from.chars();
            writer.write_all(before.as_bytes())?;
            if let Some(letter) = letters.next() {
                write!(writer, "\\u{:04x}", u32::from(letter))?;
            }
            rest = letters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(value: &impl Serialize) -> String {
        let mut out = Vec::new();
        write(value, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(
            written(&"</script><!--&\u{2028}\u{2029}'"),
            "\"\\u003c/script\\u003e\\u003c!--\\u0026\\u2028\\u2029'\""
        );
        assert_eq!(written(&["a\n\"b\\"]), "[\"a\\n\\\"b\\\\\"]");
    }

    proptest! {
        #[test]
        fn means_what_it_meant(text in any::<String>()) {
            let json = written(&text);
            let special = json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']);
            prop_assert!(!special, "{}", json);
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
