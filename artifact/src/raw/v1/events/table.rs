//! A chunk's payload, split into its columns but not decompressed.

use super::{MAX_EVENTS, MAX_SHAPES, column, encode::ENTRY_BYTES};
use crate::raw::v1::{
    codec::Unpacker,
    input::{Broken, Input, Parsed},
    words::Words,
};

/// A shape of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// As stored; perhaps one that this version does not know.
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(super) mask: u16,
    /// Events of it.
    pub(crate) count: u32,
}

/// A column as stored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stored<'a> {
    pub(super) values: usize,
    pub(super) control_codec: u8,
    pub(super) control: &'a [u8],
    pub(super) data_codec: u8,
    pub(super) data_raw_bytes: usize,
    pub(super) data: &'a [u8],
}

/// A chunk's payload, split but not decompressed.
#[derive(Debug)]
pub(crate) struct EventTable<'a> {
    pub(super) shapes: Vec<Shape>,
    pub(super) columns: [Stored<'a>; column::COUNT],
    pub(super) count: usize,
}

/// A byte per shape: 1 where its mask has the bit.
pub(super) type Presence = [u8; MAX_SHAPES];

impl<'a> EventTable<'a> {
    /// Splits a payload that should hold `count` events.
    pub(crate) fn parse(payload: &'a [u8], count: usize) -> Parsed<Self> {
        if count > MAX_EVENTS {
            return Err(Broken(format!("{count} events in one chunk are too many")));
        }
        let mut input = Input(payload);
        let shape_count = usize::from(input.u16()?);
        let column_count = usize::from(input.u16()?);
        if shape_count > MAX_SHAPES {
            return Err(Broken(format!("{shape_count} shapes are too many")));
        }
        let mut shapes = Vec::with_capacity(shape_count);
        let mut sum = 0u64;
        for _ in 0..shape_count {
            let shape = Shape {
                kind: input.u8()?,
                flags: input.u8()?,
                mask: input.u16()?,
                count: input.u32()?,
            };
            sum += u64::from(shape.count);
            shapes.push(shape);
        }
        if sum != count as u64 {
            return Err(Broken(format!(
                "the shapes have {sum} events, the chunk {count}"
            )));
        }
        let mut columns = [Stored::default(); column::COUNT];
        for _ in 0..column_count {
            let mut entry = Input(input.take(ENTRY_BYTES)?);
            let id = entry.u8()?;
            let control_codec = entry.u8()?;
            let data_codec = entry.u8()?;
            entry.u8()?;
            let values = entry.u32()? as usize;
            let control_bytes = entry.u32()? as usize;
            let data_raw_bytes = entry.u32()? as usize;
            let data_bytes = entry.u32()? as usize;
            let control = input.take(control_bytes)?;
            let data = input.take(data_bytes)?;
            // A column that this version does not know is of no shape that it
            // knows.
            if let Some(slot) = columns.get_mut(usize::from(id)) {
                *slot = Stored {
                    values,
                    control_codec,
                    control,
                    data_codec,
                    data_raw_bytes,
                    data,
                };
            }
        }
        Ok(Self {
            shapes,
            columns,
            count,
        })
    }

    /// The shapes.
    pub(crate) fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// A column with a value for each event.
    pub(super) fn words<'b>(
        &self,
        id: u8,
        count: usize,
        unpacker: &mut Unpacker,
        buffers: &'b mut Buffers,
    ) -> Parsed<Words<'b>>
    where
        'a: 'b,
    {
        let stored = &self.columns[usize::from(id)];
        if stored.values != count || count > 2 * MAX_EVENTS {
            return Err(Broken(format!(
                "column {id} has {} values where {count} were expected",
                stored.values
            )));
        }
        let control = unpacker.unpack(
            stored.control_codec,
            stored.control,
            count.div_ceil(2),
            &mut buffers.control,
        )?;
        let data = unpacker.unpack(
            stored.data_codec,
            stored.data,
            stored.data_raw_bytes,
            &mut buffers.data,
        )?;
        Words::new(control, data, count)
    }

    /// A column with a value for each event whose shape has `bit`.
    pub(super) fn sparse<'b>(
        &self,
        id: u8,
        bit: u16,
        unpacker: &mut Unpacker,
        buffers: &'b mut Buffers,
    ) -> Parsed<(Presence, Words<'b>)>
    where
        'a: 'b,
    {
        let mut presence = [0; MAX_SHAPES];
        let mut count = 0;
        for (present, shape) in presence.iter_mut().zip(&self.shapes) {
            if shape.mask & bit != 0 {
                *present = 1;
                count += shape.count as usize;
            }
        }
        Ok((presence, self.words(id, count, unpacker, buffers)?))
    }
}

/// Decompressed bytes of one column.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) control: Vec<u8>,
    pub(super) data: Vec<u8>,
}
