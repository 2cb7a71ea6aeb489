use super::*;
use crate::{Avma, Pid, StackForm, StackId, StackRecord, Tid};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Owned {
    ids: (u32, u32, u32),
    time_ns: u64,
    raw: bool,
    registers: Vec<u64>,
    stack_pointer: u64,
    window: Vec<u8>,
    available_bytes: u64,
    chain: Vec<u64>,
}

impl Owned {
    fn record(&self) -> StackRecord<'_> {
        StackRecord {
            id: StackId(self.ids.0),
            pid: Pid(self.ids.1),
            tid: Tid(self.ids.2),
            time_ns: self.time_ns,
            form: if self.raw {
                StackForm::Raw
            } else {
                StackForm::FramePointer
            },
            registers: &self.registers,
            stack_pointer: Avma(self.stack_pointer),
            window: &self.window,
            available_bytes: self.available_bytes,
            frame_pointer_chain: &self.chain,
        }
    }
}

fn stacks() -> impl Strategy<Value = Vec<Owned>> {
    let stack = (
        any::<(u32, u32, u32)>(),
        any::<(u64, u64, u64)>(),
        any::<bool>(),
        prop::collection::vec(any::<u64>(), 0..=MAX_REGISTERS),
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(any::<u64>(), 0..20),
    )
        .prop_map(|(ids, numbers, raw, registers, window, chain)| Owned {
            ids,
            time_ns: numbers.0,
            raw,
            registers,
            stack_pointer: numbers.1,
            window,
            available_bytes: numbers.2,
            chain,
        });
    prop::collection::vec(stack, 0..12)
}

fn encode(stacks: &[Owned]) -> Vec<u8> {
    let mut encoder = StackEncoder::default();
    stacks
        .iter()
        .for_each(|stack| encoder.push(&stack.record()));
    let mut bytes = Vec::new();
    encoder.encode(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn any_stacks_come_back(stacks in stacks()) {
        let batch = StackBatch::parse(encode(&stacks), stacks.len()).unwrap();
        prop_assert_eq!(batch.len(), stacks.len());
        for (decoded, stack) in batch.iter().zip(&stacks) {
            prop_assert_eq!(decoded, stack.record());
        }
    }

    #[test]
    fn changed_bytes_are_safe(stacks in stacks(), at: prop::sample::Index, with: u8) {
        let mut bytes = encode(&stacks);
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        if let Ok(batch) = StackBatch::parse(bytes, stacks.len()) {
            prop_assert_eq!(batch.iter().count(), stacks.len());
        }
    }
}

#[test]
fn what_is_too_long_is_cut_and_said() {
    let stack = Owned {
        ids: (7, 1, 1),
        time_ns: 1,
        raw: true,
        registers: vec![1; MAX_REGISTERS],
        stack_pointer: 0x7fff_0000,
        window: vec![3; MAX_WINDOW_BYTES + 5],
        available_bytes: 0,
        chain: vec![9; MAX_CHAIN + 1],
    };
    let batch = StackBatch::parse(encode(&[stack]), 1).unwrap();
    let record = batch.iter().next().unwrap();
    assert_eq!(record.window.len(), MAX_WINDOW_BYTES);
    assert!(record.is_cut());
    assert_eq!(record.frame_pointer_chain.len(), MAX_CHAIN);
}
