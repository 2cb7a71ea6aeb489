//! Long names in few letters.

use std::borrow::Cow;

/// Names up to this many characters are shown as they are.
const LONG: usize = 36;
/// Brackets that hold at most this many bytes stay: `<int>`, `(int)`.
const SMALL: usize = 6;

/// A name without what stands inside its template and parameter lists:
/// `std::vector<std::string, std::allocator<…> >::_M_realloc_insert<…>(…)`
/// is known by `std::vector<…>::_M_realloc_insert<…>(…)`. The leading
/// `<T as Trait>` of a Rust method stays, since it is the type.
pub(crate) fn shorten(name: &str) -> Cow<'_, str> {
    if name.chars().count() <= LONG {
        return Cow::Borrowed(name);
    }
    let mut short = String::with_capacity(LONG * 2);
    let mut rest = name;
    while let Some(open) = rest.find(['<', '(']) {
        let (before, list) = rest.split_at(open);
        short.push_str(before);
        let inside = balanced(list).filter(|_| open > 0 || !short.is_empty());
        match inside {
            Some(length) if !short.ends_with("operator") => {
                let (brackets, after) = list.split_at(length);
                let close = brackets.len() - 1;
                if brackets.len() - 2 <= SMALL || brackets == "(anonymous namespace)" {
                    short.push_str(brackets);
                } else {
                    short.push_str(&brackets[..1]);
                    short.push('…');
                    short.push_str(&brackets[close..]);
                }
                rest = after;
            }
            _ => {
                // An operator, the type of a Rust method, or no list at all.
                short.push_str(&list[..1]);
                rest = &list[1..];
            }
        }
    }
    short.push_str(rest);
    Cow::Owned(short)
}

/// Length of the bracketed list that `text` begins with, brackets included.
/// The `>` of `->` closes nothing.
fn balanced(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut previous = b' ';
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' => depth += 1,
            b'>' if previous == b'-' => {}
            b'>' | b')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(position + 1);
                }
            }
            _ => {}
        }
        previous = byte;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_give_way_and_the_rest_stays() {
        for (name, short) in [
            ("malloc", "malloc"),
            (
                "void std::vector<std::string, std::allocator<std::string> >::_M_realloc_insert<char const*>(char const*&&)",
                "void std::vector<…>::_M_realloc_insert<…>(…)",
            ),
            (
                "std::map<int, std::string>::operator[](int const&)",
                "std::map<…>::operator[](…)",
            ),
            (
                "std::ostream& std::operator<< <char>(std::ostream&, char const*)",
                "std::ostream& std::operator<< <char>(…)",
            ),
            (
                "(anonymous namespace)::Parser::accept(std::string_view)",
                "(anonymous namespace)::Parser::accept(…)",
            ),
            (
                "<alloc::vec::Vec<u8> as core::iter::Extend<u8>>::extend_trusted",
                "<alloc::vec::Vec<u8> as core::iter::Extend<u8>>::extend_trusted",
            ),
            (
                "core::ops::function::FnOnce::call_once<fn(u64) -> alloc::string::String>",
                "core::ops::function::FnOnce::call_once<…>",
            ),
        ] {
            assert_eq!(shorten(name), short);
        }
    }

    proptest! {
        #[test]
        fn any_name_has_a_short_one(name in "[<>()a:€ -]{0,80}") {
            prop_assert!(shorten(&name).chars().count() <= name.chars().count());
        }
    }
}
