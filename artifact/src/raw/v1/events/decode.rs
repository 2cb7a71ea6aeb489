//! Turning columns back into events. Only the columns that are asked for are
//! decompressed.

use super::{
    ADDRESS_SHIFT, MAX_SHAPES, column, field,
    table::{Buffers, EventTable},
};
use crate::{
    batch::{Columns, EventBatch},
    event::{EventFlags, EventKind},
    id::{Pid, StackId, Tid},
    raw::v1::{
        codec::Unpacker,
        input::{Broken, Parsed},
        words::{Words, apply, unzigzag},
    },
};

/// Memory of a decoder, reused from chunk to chunk.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    shapes: Vec<u8>,
    threads: Vec<(Pid, Tid)>,
    runs: Vec<(u32, u32)>,
    last_addresses: Vec<u64>,
    time_low: Vec<u8>,
    buffers: Buffers,
}

impl EventTable<'_> {
    /// Decodes the wanted columns into `batch`, whose memory is reused.
    pub(crate) fn decode(
        &self,
        wanted: Columns,
        unpacker: &mut Unpacker,
        scratch: &mut Scratch,
        batch: &mut EventBatch,
    ) -> Parsed<()> {
        batch.clear();
        self.decode_shapes(unpacker, &mut scratch.shapes, batch)?;
        let shapes = &scratch.shapes[..];
        let buffers = &mut scratch.buffers;

        if wanted.intersects(
            Columns::THREAD
                .and(Columns::ADDRESS)
                .and(Columns::OLD_ADDRESS),
        ) {
            self.decode_threads(unpacker, buffers, &mut scratch.threads)?;
            self.decode_runs(unpacker, buffers, &scratch.threads, &mut scratch.runs)?;
        }
        if wanted.contains(Columns::THREAD) {
            batch.pids.reserve(self.count);
            batch.tids.reserve(self.count);
            for &(thread, length) in &scratch.runs {
                let (pid, tid) = scratch.threads[thread as usize];
                let new_len = batch.pids.len() + length as usize;
                batch.pids.resize(new_len, pid);
                batch.tids.resize(new_len, tid);
            }
        }
        if wanted.intersects(Columns::TIME.and(Columns::START)) {
            let low = self.columns[usize::from(column::TIME_LOW)];
            if low.values != self.count {
                return Err("the column of low bytes of times is not complete".into());
            }
            let low =
                unpacker.unpack(low.data_codec, low.data, self.count, &mut scratch.time_low)?;
            let words = self.words(column::TIME, self.count, unpacker, buffers)?;
            let mut time_ns = 0;
            batch.time_ns.extend(words.zip(low).map(|(value, &low)| {
                time_ns = apply(time_ns, value << 8 | u64::from(low));
                time_ns
            }));
        }
        if wanted.contains(Columns::START) {
            let (presence, mut words) =
                self.sparse(column::DURATION, field::DURATION, unpacker, buffers)?;
            batch
                .start_ns
                .extend(shapes.iter().zip(&batch.time_ns).map(|(&shape, time_ns)| {
                    time_ns.wrapping_sub(words.next_if(presence[usize::from(shape)]))
                }));
            self.check_used(words)?;
            if !wanted.contains(Columns::TIME) {
                batch.time_ns.clear();
            }
        }
        if wanted.intersects(Columns::ADDRESS.and(Columns::OLD_ADDRESS)) {
            self.decode_addresses(unpacker, scratch, batch)?;
        }
        let (shapes, buffers) = (&scratch.shapes[..], &mut scratch.buffers);
        if wanted.contains(Columns::OLD_ADDRESS) {
            let (presence, mut words) =
                self.sparse(column::OLD_ADDRESS, field::OLD_ADDRESS, unpacker, buffers)?;
            if words.remaining() == 0 {
                batch.old_addresses.resize(self.count, 0);
            } else {
                batch
                    .old_addresses
                    .extend(
                        shapes
                            .iter()
                            .zip(&batch.addresses)
                            .map(|(&shape, &address)| {
                                let present = presence[usize::from(shape)];
                                let value = words.next_if(present);
                                apply(address, value) & 0u64.wrapping_sub(u64::from(present))
                            }),
                    );
            }
            self.check_used(words)?;
            if !wanted.contains(Columns::ADDRESS) {
                batch.addresses.clear();
            }
        }
        for (columns, id, bit, out) in [
            (Columns::SIZE, column::SIZE, field::SIZE, &mut batch.sizes),
            (
                Columns::ALIGNMENT,
                column::ALIGNMENT,
                field::ALIGNMENT,
                &mut batch.alignments,
            ),
        ] {
            if !wanted.contains(columns) {
                continue;
            }
            let (presence, mut words) = self.sparse(id, bit, unpacker, buffers)?;
            if words.remaining() == 0 {
                out.resize(self.count, 0);
            } else {
                out.extend(
                    shapes
                        .iter()
                        .map(|&shape| words.next_if(presence[usize::from(shape)])),
                );
            }
            self.check_used(words)?;
        }
        if wanted.contains(Columns::STACK) {
            let (presence, mut words) =
                self.sparse(column::STACK, field::STACK, unpacker, buffers)?;
            batch.stacks.extend(shapes.iter().map(|&shape| {
                let present = presence[usize::from(shape)];
                let value = words.next_if(present);
                (present != 0).then_some(StackId(value as u32))
            }));
            self.check_used(words)?;
        }
        self.drop_unknown(shapes, batch);
        Ok(())
    }

    fn decode_shapes(
        &self,
        unpacker: &mut Unpacker,
        shapes: &mut Vec<u8>,
        batch: &mut EventBatch,
    ) -> Parsed<()> {
        let stored = self.columns[usize::from(column::SHAPE)];
        if stored.data_raw_bytes != self.count || stored.values != self.count {
            return Err("the column of shapes does not have one byte per event".into());
        }
        let mut buffer = std::mem::take(shapes);
        let bytes = unpacker.unpack(stored.data_codec, stored.data, self.count, &mut buffer)?;
        let mut counts = [0u32; MAX_SHAPES];
        bytes
            .iter()
            .for_each(|&shape| counts[usize::from(shape)] += 1);
        let agrees =
            counts
                .iter()
                .enumerate()
                .all(|(number, &count)| match self.shapes.get(number) {
                    Some(shape) => shape.count == count,
                    None => count == 0,
                });
        if !agrees {
            return Err("the column of shapes does not match the table of shapes".into());
        }
        // A kind that is not known stands in for itself until it is dropped.
        let mut kinds = [EventKind::Exit; MAX_SHAPES];
        let mut flags = [EventFlags::default(); MAX_SHAPES];
        for (number, shape) in self.shapes.iter().enumerate() {
            kinds[number] = EventKind::from_byte(shape.kind).unwrap_or(EventKind::Exit);
            flags[number] = EventFlags(shape.flags);
        }
        batch
            .kinds
            .extend(bytes.iter().map(|&shape| kinds[usize::from(shape)]));
        batch
            .flags
            .extend(bytes.iter().map(|&shape| flags[usize::from(shape)]));
        if bytes.as_ptr() == stored.data.as_ptr() {
            *shapes = bytes.to_vec();
        } else {
            *shapes = buffer;
        }
        Ok(())
    }

    fn decode_threads(
        &self,
        unpacker: &mut Unpacker,
        buffers: &mut Buffers,
        threads: &mut Vec<(Pid, Tid)>,
    ) -> Parsed<()> {
        let count = self.columns[usize::from(column::THREAD)].values;
        let mut words = self.words(column::THREAD, count, unpacker, buffers)?;
        threads.clear();
        while let (Some(pid), Some(tid)) = (words.next(), words.next()) {
            let id = |value| u32::try_from(value).map_err(|_| Broken(format!("thread id {value}")));
            threads.push((Pid(id(pid)?), Tid(id(tid)?)));
        }
        Ok(())
    }

    fn decode_runs(
        &self,
        unpacker: &mut Unpacker,
        buffers: &mut Buffers,
        threads: &[(Pid, Tid)],
        runs: &mut Vec<(u32, u32)>,
    ) -> Parsed<()> {
        let count = self.columns[usize::from(column::RUN_THREAD)].values;
        runs.clear();
        let numbers = self.words(column::RUN_THREAD, count, unpacker, buffers)?;
        runs.extend(numbers.map(|number| (number.min(u64::from(u32::MAX)) as u32, 0)));
        let lengths = self.words(column::RUN_LENGTH, count, unpacker, buffers)?;
        let mut left = self.count as u64;
        for (run, length) in runs.iter_mut().zip(lengths) {
            left = left
                .checked_sub(length)
                .ok_or("the runs of threads are longer than the chunk")?;
            run.1 = length as u32;
            if run.0 as usize >= threads.len() {
                return Err(Broken(format!("thread {} of {}", run.0, threads.len())));
            }
        }
        if left != 0 {
            return Err("the runs of threads are shorter than the chunk".into());
        }
        Ok(())
    }

    fn decode_addresses(
        &self,
        unpacker: &mut Unpacker,
        scratch: &mut Scratch,
        batch: &mut EventBatch,
    ) -> Parsed<()> {
        let (presence, mut words) = self.sparse(
            column::ADDRESS,
            field::ADDRESS,
            unpacker,
            &mut scratch.buffers,
        )?;
        let mut shifts = [0u32; MAX_SHAPES];
        let mut is_back = [false; MAX_SHAPES];
        for (number, shape) in self.shapes.iter().enumerate() {
            if shape.mask & field::ODD == 0 {
                shifts[number] = ADDRESS_SHIFT;
            }
            is_back[number] = shape.mask & field::BACK != 0;
        }
        let last = &mut scratch.last_addresses;
        last.clear();
        last.resize(scratch.threads.len(), 0);
        batch.addresses.reserve(self.count);
        let mut shapes = &scratch.shapes[..];
        for &(thread, length) in &scratch.runs {
            let (run, rest) = shapes
                .split_at_checked(length as usize)
                .ok_or("the runs of threads are longer than the chunk")?;
            shapes = rest;
            let last = last
                .get_mut(thread as usize)
                .ok_or("a run's thread is not in the table")?;
            let mut address = *last;
            for &shape in run {
                let present = presence[usize::from(shape)];
                let value = words.next_if(present);
                if is_back[usize::from(shape)] {
                    address = usize::try_from(value)
                        .ok()
                        .and_then(|back| batch.addresses.len().checked_sub(back))
                        .and_then(|index| batch.addresses.get(index))
                        .copied()
                        .ok_or_else(|| Broken(format!("an address {value} events back")))?;
                } else {
                    let step = unzigzag(value) << shifts[usize::from(shape)];
                    address = address.wrapping_add(step as u64);
                }
                batch
                    .addresses
                    .push(address & 0u64.wrapping_sub(u64::from(present)));
            }
            *last = address;
        }
        self.check_used(words)
    }

    fn check_used(&self, words: Words<'_>) -> Parsed<()> {
        words.expect(0).map(|_| ())
    }

    /// Takes out events of kinds that only a newer memtrack knows.
    fn drop_unknown(&self, shapes: &[u8], batch: &mut EventBatch) {
        let known: Vec<bool> = self
            .shapes
            .iter()
            .map(|shape| EventKind::from_byte(shape.kind).is_some())
            .collect();
        if known.iter().all(|&known| known) {
            return;
        }
        let keep = |index: usize| {
            shapes
                .get(index)
                .is_some_and(|&shape| known.get(usize::from(shape)) == Some(&true))
        };
        batch.retain(keep);
    }
}
