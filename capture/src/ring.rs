//! One BPF ring buffer, read in bounded bites.
//!
//! libbpf's reader stops at a record that was reserved and not yet committed,
//! so none is skipped. What is taken is copied, each record behind its length.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use libbpf_rs::{AsRawLibbpf as _, MapHandle, RingBuffer, RingBufferBuilder, libbpf_sys};
use std::{cell::RefCell, rc::Rc, time::Duration};

/// Records one after another, each behind its length.
#[derive(Debug, Default)]
pub(crate) struct Framed {
    bytes: Vec<u8>,
}

impl Framed {
    fn push(&mut self, record: &[u8]) {
        // A ring's record has at most 2^30 bytes.
        let len = u32::try_from(record.len()).unwrap_or(0);
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(record);
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The records.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (len, tail) = rest.split_first_chunk::<4>()?;
            let (record, tail) = tail.split_at_checked(u32::from_ne_bytes(*len) as usize)?;
            rest = tail;
            Some(record)
        })
    }
}

/// A ring and what was taken of it.
pub(crate) struct Ring {
    name: &'static str,
    buffer: RingBuffer<'static>,
    taken: Rc<RefCell<Framed>>,
}

impl Ring {
    /// Over a map. The ring has one reader: nobody else may open it.
    pub(crate) fn open(name: &'static str, map: &MapHandle) -> Result<Self> {
        let taken = Rc::new(RefCell::new(Framed::default()));
        let sink = Rc::clone(&taken);
        let open = || {
            let mut builder = RingBufferBuilder::new();
            builder.add(map, move |record| {
                sink.borrow_mut().push(record);
                0
            })?;
            builder.build()
        };
        Ok(Self {
            name,
            buffer: open().map_err(|source| Error::Map { map: name, source })?,
            taken,
        })
    }

    /// Copies at most `count` records; returns how many there were.
    pub(crate) fn take(&self, count: usize) -> Result<usize> {
        self.taken_or_error(self.buffer.consume_raw_n(count))
    }

    /// Waits for records until `timeout`, and copies them. Only for rings
    /// whose producers wake the reader.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<usize> {
        match self.buffer.poll_raw(timeout) {
            // A signal came in between.
            result if result == -libc::EINTR => Ok(0),
            result => self.taken_or_error(result),
        }
    }

    fn taken_or_error(&self, result: i32) -> Result<usize> {
        usize::try_from(result).map_err(|_| Error::Map {
            map: self.name,
            source: libbpf_rs::Error::from_raw_os_error(-result),
        })
    }

    /// Bytes copied and not handed out yet.
    pub(crate) fn taken_bytes(&self) -> usize {
        self.taken.borrow().bytes.len()
    }

    /// Hands out what was copied.
    pub(crate) fn records(&self) -> Framed {
        self.taken.take()
    }

    /// Bytes in the ring, those of records under way included.
    pub(crate) fn fill_bytes(&self) -> u64 {
        // SAFETY: as in `ring`.
        unsafe { libbpf_sys::ring__avail_data_size(self.ring()) as u64 }
    }

    /// Its size.
    pub(crate) fn size_bytes(&self) -> u64 {
        // SAFETY: as in `ring`.
        unsafe { libbpf_sys::ring__size(self.ring()) as u64 }
    }

    fn ring(&self) -> *const libbpf_sys::ring {
        // SAFETY: the manager lives as long as `self.buffer` and has one ring,
        // number 0, from its creation on.
        unsafe { libbpf_sys::ring_buffer__ring(self.buffer.as_libbpf_object().as_ptr(), 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framed_records_come_back_in_order() {
        let mut framed = Framed::default();
        for record in [b"one".as_slice(), b"", b"three"] {
            framed.push(record);
        }
        let back: Vec<_> = framed.iter().collect();
        assert_eq!(back, [b"one".as_slice(), b"", b"three"]);
    }
}
