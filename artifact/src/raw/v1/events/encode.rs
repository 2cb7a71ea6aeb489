//! Gathering events into columns.

use super::{ADDRESS_SHIFT, MAX_SHAPES, TARGET_EVENTS, column, field};
use crate::{
    event::{Event, EventKind},
    raw::v1::{
        codec::{Codec, Packer},
        words::{WordWriter, difference, word_bytes, zigzag},
    },
};
use std::collections::HashMap;

/// Slots of the cache in front of the table of threads.
const THREAD_SLOTS: usize = 64;
/// Slots of the table of shapes: twice as many as there can be shapes.
const SHAPE_SLOTS: usize = 2 * MAX_SHAPES;

/// A shape and how many events have it.
#[derive(Clone, Copy, Debug)]
struct Shape {
    kind: u8,
    flags: u8,
    mask: u16,
    count: u32,
}

/// A thread of the chunk.
#[derive(Clone, Copy, Debug)]
struct Thread {
    pid: u32,
    tid: u32,
    /// The last address of it.
    address: u64,
}

/// Events of one chunk. Its memory is a few bytes per event, and is reused.
pub(crate) struct EventEncoder {
    count: usize,
    shapes: Vec<Shape>,
    /// Shape number plus one by a hash of the shape; linear probing.
    shape_slots: Box<[u16; SHAPE_SLOTS]>,
    threads: Vec<Thread>,
    thread_ids: HashMap<(u32, u32), u32>,
    /// Thread number by the low bits of the tid; checked before use.
    thread_slots: [u32; THREAD_SLOTS],
    run_thread: u32,
    run_length: u64,
    time_ns: u64,
    min_start_ns: u64,
    max_time_ns: u64,
    shape_bytes: Vec<u8>,
    time_low_bytes: Vec<u8>,
    recent: Recent,
    words: [WordWriter; column::COUNT],
}

impl Default for EventEncoder {
    fn default() -> Self {
        Self {
            count: 0,
            shapes: Vec::with_capacity(MAX_SHAPES),
            shape_slots: Box::new([0; SHAPE_SLOTS]),
            threads: Vec::new(),
            thread_ids: HashMap::new(),
            thread_slots: [0; THREAD_SLOTS],
            run_thread: 0,
            run_length: 0,
            time_ns: 0,
            min_start_ns: u64::MAX,
            max_time_ns: 0,
            shape_bytes: Vec::with_capacity(TARGET_EVENTS),
            time_low_bytes: Vec::with_capacity(TARGET_EVENTS),
            recent: Recent::default(),
            words: Default::default(),
        }
    }
}

impl EventEncoder {
    /// Events gathered.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether the chunk should be written before the next event.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= TARGET_EVENTS || self.shapes.len() >= MAX_SHAPES
    }

    /// Earliest `start_ns` and latest `time_ns`.
    pub(crate) fn time_span(&self) -> (u64, u64) {
        (self.min_start_ns, self.max_time_ns)
    }

    /// Appends an event. The caller has seen to [`is_full`](Self::is_full).
    #[inline]
    pub(crate) fn push(&mut self, event: &Event) {
        let thread = self.thread(event.pid.0, event.tid.0);
        if thread != self.run_thread {
            self.end_run();
            self.run_thread = thread;
        }
        self.run_length += 1;

        let mut mask = 0;
        let duration = event.time_ns.wrapping_sub(event.start_ns);
        if duration != 0 {
            mask |= field::DURATION;
            self.words[usize::from(column::DURATION)].push(duration);
        }
        if event.address != 0 {
            let last = &mut self.threads[thread as usize].address;
            let step = event.address.wrapping_sub(*last) as i64;
            *last = event.address;
            let (mut value, mut how) = if step & ((1 << ADDRESS_SHIFT) - 1) == 0 {
                (zigzag(step >> ADDRESS_SHIFT), 0)
            } else {
                (zigzag(step), field::ODD)
            };
            if let Some(back) = self.recent.replace(event.address, self.count)
                && word_bytes(back) < word_bytes(value)
            {
                (value, how) = (back, field::BACK);
            }
            mask |= field::ADDRESS | how;
            self.words[usize::from(column::ADDRESS)].push(value);
        }
        if event.size != 0 {
            mask |= field::SIZE;
            self.words[usize::from(column::SIZE)].push(event.size);
        }
        if event.old_address != 0 {
            mask |= field::OLD_ADDRESS;
            self.words[usize::from(column::OLD_ADDRESS)]
                .push(difference(event.address, event.old_address));
        }
        if event.alignment != 0 {
            mask |= field::ALIGNMENT;
            self.words[usize::from(column::ALIGNMENT)].push(event.alignment);
        }
        if let Some(stack) = event.stack {
            mask |= field::STACK;
            self.words[usize::from(column::STACK)].push(u64::from(stack.0));
        }
        let step = difference(self.time_ns, event.time_ns);
        self.words[usize::from(column::TIME)].push(step >> 8);
        self.time_low_bytes.push(step as u8);
        self.time_ns = event.time_ns;
        self.min_start_ns = self.min_start_ns.min(event.start_ns);
        self.max_time_ns = self.max_time_ns.max(event.time_ns);
        let shape = self.shape(event.kind, event.flags.0, mask);
        self.shape_bytes.push(shape);
        self.count += 1;
    }

    #[inline]
    fn shape(&mut self, kind: EventKind, flags: u8, mask: u16) -> u8 {
        let key = u32::from(kind as u8) << 24 | u32::from(flags) << 16 | u32::from(mask);
        // Fibonacci hashing: the top bits of the product are well mixed.
        let mut slot = (key.wrapping_mul(0x9e37_79b9) >> 23) as usize % SHAPE_SLOTS;
        loop {
            let number = self.shape_slots[slot];
            if number == 0 {
                self.shapes.push(Shape {
                    kind: kind as u8,
                    flags,
                    mask,
                    count: 1,
                });
                self.shape_slots[slot] = self.shapes.len() as u16;
                return (self.shapes.len() - 1) as u8;
            }
            let shape = &mut self.shapes[usize::from(number - 1)];
            if shape.kind == kind as u8 && shape.flags == flags && shape.mask == mask {
                shape.count += 1;
                return (number - 1) as u8;
            }
            slot = (slot + 1) % SHAPE_SLOTS;
        }
    }

    #[inline]
    fn thread(&mut self, pid: u32, tid: u32) -> u32 {
        let slot = tid as usize % THREAD_SLOTS;
        let guess = self.thread_slots[slot];
        match self.threads.get(guess as usize) {
            Some(thread) if thread.pid == pid && thread.tid == tid => guess,
            _ => {
                let number = self.add_thread(pid, tid);
                self.thread_slots[slot] = number;
                number
            }
        }
    }

    fn add_thread(&mut self, pid: u32, tid: u32) -> u32 {
        let next = self.threads.len() as u32;
        let number = *self.thread_ids.entry((pid, tid)).or_insert(next);
        if number == next {
            self.threads.push(Thread {
                pid,
                tid,
                address: 0,
            });
            let words = &mut self.words[usize::from(column::THREAD)];
            words.push(u64::from(pid));
            words.push(u64::from(tid));
        }
        number
    }

    fn end_run(&mut self) {
        if self.run_length > 0 {
            self.words[usize::from(column::RUN_THREAD)].push(u64::from(self.run_thread));
            self.words[usize::from(column::RUN_LENGTH)].push(self.run_length);
            self.run_length = 0;
        }
    }

    /// Writes the chunk's payload to `out` and begins the next chunk.
    pub(crate) fn encode(&mut self, packer: &mut Packer, out: &mut Vec<u8>) {
        self.end_run();
        out.clear();
        out.extend_from_slice(&(self.shapes.len() as u16).to_le_bytes());
        out.extend_from_slice(&(column::COUNT as u16).to_le_bytes());
        for shape in &self.shapes {
            out.push(shape.kind);
            out.push(shape.flags);
            out.extend_from_slice(&shape.mask.to_le_bytes());
            out.extend_from_slice(&shape.count.to_le_bytes());
        }
        let mut scratch = std::mem::take(&mut packer.scratch);
        for (id, words) in self.words.iter().enumerate() {
            let id = id as u8;
            let (values, control, data) = match id {
                column::SHAPE => (self.count as u32, &[][..], &self.shape_bytes[..]),
                column::TIME_LOW => (self.count as u32, &[][..], &self.time_low_bytes[..]),
                _ => (words.count(), words.control(), words.data()),
            };
            let begin = out.len();
            out.extend_from_slice(&[0; ENTRY_BYTES]);
            let (control_codec, packed) = packer.pack(control, &mut scratch);
            out.extend_from_slice(packed);
            let control_stored = packed.len();
            let (data_codec, packed) = if id == column::TIME_LOW {
                (Codec::Stored, data)
            } else {
                packer.pack(data, &mut scratch)
            };
            out.extend_from_slice(packed);
            let entry = &mut out[begin..begin + ENTRY_BYTES];
            entry[0] = id;
            entry[1] = control_codec as u8;
            entry[2] = data_codec as u8;
            entry[4..8].copy_from_slice(&values.to_le_bytes());
            entry[8..12].copy_from_slice(&(control_stored as u32).to_le_bytes());
            entry[12..16].copy_from_slice(&(data.len() as u32).to_le_bytes());
            entry[16..20].copy_from_slice(&(packed.len() as u32).to_le_bytes());
        }
        packer.scratch = scratch;
        self.clear();
    }

    fn clear(&mut self) {
        self.count = 0;
        self.shapes.clear();
        self.shape_slots.fill(0);
        self.threads.clear();
        self.thread_ids.clear();
        self.run_thread = 0;
        self.time_ns = 0;
        self.min_start_ns = u64::MAX;
        self.max_time_ns = 0;
        self.shape_bytes.clear();
        self.time_low_bytes.clear();
        self.recent.clear();
        self.words.iter_mut().for_each(WordWriter::clear);
    }
}

/// Where in the chunk addresses were last. A slot is overwritten by the next
/// address that falls into it: a miss only costs bytes.
struct Recent {
    /// The address and the event's number plus one.
    slots: Box<[(u64, u32)]>,
}

/// A quarter as many as a chunk has events: four times as many, which no
/// longer fit a core's cache, save 0.2 % of the bytes.
const RECENT_SLOTS: usize = 1 << 14;

impl Default for Recent {
    fn default() -> Self {
        Self {
            slots: vec![(0, 0); RECENT_SLOTS].into_boxed_slice(),
        }
    }
}

impl Recent {
    /// Remembers that event `number` has `address`, and tells how many events
    /// back it was last.
    #[inline]
    fn replace(&mut self, address: u64, number: usize) -> Option<u64> {
        // Fibonacci hashing, as for shapes.
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let slot = &mut self.slots[hash as usize % RECENT_SLOTS];
        let (last_address, last_number) = *slot;
        *slot = (address, number as u32 + 1);
        (last_address == address && last_number != 0)
            .then(|| number as u64 + 1 - u64::from(last_number))
    }

    fn clear(&mut self) {
        self.slots.fill((0, 0));
    }
}

/// Length of what precedes a column's bytes.
pub(super) const ENTRY_BYTES: usize = 20;
