//! A bounded cursor over bytes that cannot be trusted.

/// Why bytes cannot be what they should be, in words. The reader adds file
/// and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) String);

impl From<&str> for Broken {
    fn from(what: &str) -> Self {
        Self(what.to_owned())
    }
}

pub(crate) type Parsed<T> = Result<T, Broken>;

/// Reads little-endian values from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Parsed<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(len)
            .ok_or_else(|| Broken(format!("{len} bytes expected, {} left", self.0.len())))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        let (taken, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| Broken(format!("{N} bytes expected, {} left", self.0.len())))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Parsed<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Parsed<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Parsed<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Parsed<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}
