//! The bytes of an opened artifact, chunk by chunk.

use crate::{
    error::{Error, Result},
    map::Bytes,
    raw::v1::{chunk::ChunkHeader, codec::Unpacker, input::Broken},
    scan::Entry,
};

/// The bytes and where the chunks are.
pub(super) struct Source {
    /// For errors.
    pub(super) name: String,
    pub(super) bytes: Bytes,
    pub(super) salt: u64,
    /// The whole chunks, in sequence.
    pub(super) entries: Vec<Entry>,
}

impl Source {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    pub(super) fn header(&self, entry: &Entry) -> Result<ChunkHeader> {
        ChunkHeader::at(self.bytes(), entry.offset, self.salt)
            .ok_or_else(|| self.malformed(entry.offset, "the file was changed meanwhile".into()))
    }

    pub(super) fn payload(&self, entry: &Entry) -> Result<(ChunkHeader, &[u8])> {
        let header = self.header(entry)?;
        let payload = header
            .payload(self.bytes(), entry.offset)
            .ok_or_else(|| self.malformed(entry.offset, "the file was changed meanwhile".into()))?;
        Ok((header, payload))
    }

    /// The payload before compression.
    pub(super) fn unpacked(&self, entry: &Entry) -> Result<(ChunkHeader, Vec<u8>)> {
        let (header, payload) = self.payload(entry)?;
        let broken = |what| self.malformed(entry.offset, what);
        let mut buffer = Vec::new();
        let mut unpacker = Unpacker::default();
        let bytes = unpacker
            .unpack(
                header.codec,
                payload,
                header.raw_bytes as usize,
                &mut buffer,
            )
            .map_err(broken)?;
        if bytes.as_ptr() == payload.as_ptr() {
            return Ok((header, bytes.to_vec()));
        }
        Ok((header, buffer))
    }

    pub(super) fn malformed(&self, offset: u64, Broken(what): Broken) -> Error {
        Error::Malformed {
            name: self.name.clone(),
            offset,
            what,
        }
    }
}
