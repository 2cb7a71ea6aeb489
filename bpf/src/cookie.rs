//! What a probe carries along: one 64-bit number per place.

/// Tells the programs what they see at one probed place. Entry and return
/// probe of a place carry the same cookie, and no two places the same, so that
/// a return finds its entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cookie {
    /// The kind of event (`enum event_kind` of `abi.h`).
    pub kind: u8,
    /// Where the first three arguments are, by DWARF number.
    pub argument_registers: [u8; 3],
    /// Words pushed between the function's entry and the probe.
    pub pushed_words: u8,
    /// The two factors are multiplied already: low word, high word.
    pub product: bool,
    /// The arguments are those of `reallocarray`: block, count, size.
    pub array: bool,
    /// The place's own number.
    pub place: u16,
}

const PRODUCT: u64 = 1;
const ARRAY: u64 = 2;

impl Cookie {
    /// The number as the programs take it apart (`COOKIE_*` of `abi.h`).
    #[must_use]
    pub fn encode(self) -> u64 {
        let [first, second, third] = self.argument_registers.map(u64::from);
        let flags = (u64::from(self.product) * PRODUCT) | (u64::from(self.array) * ARRAY);
        u64::from(self.kind)
            | first << 8
            | second << 16
            | third << 24
            | u64::from(self.pushed_words) << 32
            | flags << 40
            | u64::from(self.place) << 48
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_own_bits() {
        let parts = [
            Cookie {
                kind: 0xff,
                ..Cookie::default()
            },
            Cookie {
                argument_registers: [0xff, 0, 0],
                ..Cookie::default()
            },
            Cookie {
                argument_registers: [0, 0xff, 0],
                ..Cookie::default()
            },
            Cookie {
                argument_registers: [0, 0, 0xff],
                ..Cookie::default()
            },
            Cookie {
                pushed_words: 0xff,
                ..Cookie::default()
            },
            Cookie {
                product: true,
                ..Cookie::default()
            },
            Cookie {
                array: true,
                ..Cookie::default()
            },
            Cookie {
                place: 0xffff,
                ..Cookie::default()
            },
        ];
        let sum = parts.iter().fold(0_u64, |sum, part| {
            assert_eq!(sum & part.encode(), 0, "{part:?}");
            sum | part.encode()
        });
        assert_eq!(sum, 0xffff_03ff_ffff_ffff);
    }
}
