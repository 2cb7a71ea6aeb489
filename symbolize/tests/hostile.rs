//! Broken sections cost their own frames and names, never more.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod recording;

use memtrack_artifact::Silent;
use memtrack_symbolize::{Options, symbolize};
use recording::{Plan, Recording, can_compile, compile, record, sources};
use std::process::Command;

/// A small generator of numbers that look random (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        number as usize % limit.max(1)
    }
}

fn threads(threads: usize) -> Options {
    Options {
        threads,
        ..Options::default()
    }
}

fn program() -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let source = sources().join("unwind_names.cc");
    compile(
        "g++",
        &["-O1", "-g", "-static-libstdc++", "-static-libgcc"],
        &source,
        &program,
    );
    record(folder.path(), &mut Command::new(program), Plan::default())
}

#[test]
fn flipped_bytes_never_stop_the_run() {
    if !can_compile() {
        return;
    }
    let recording = program();
    for seed in 1..=150 {
        let mut random = Random(seed);
        let artifact = recording.artifact_with(|_, bytes| {
            let mut bytes = bytes.to_vec();
            for _ in 0..random.below(40) {
                let at = random.below(bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.below(256) as u8;
                }
            }
            Some(bytes)
        });
        let symbols = symbolize(&artifact, &threads(2), &Silent).unwrap();
        assert_eq!(symbols.stacks.len(), recording.stacks.len(), "seed {seed}");
        let again = symbolize(&artifact, &threads(1), &Silent).unwrap();
        assert!(symbols == again, "seed {seed}: other with one thread");
    }
}

#[test]
fn cut_sections_never_stop_the_run() {
    if !can_compile() {
        return;
    }
    let recording = program();
    for seed in 1..=100 {
        let mut random = Random(seed);
        let artifact = recording.artifact_with(|_, bytes| {
            let keep = random.below(bytes.len() + 1);
            (random.below(8) > 0).then(|| bytes.get(..keep).unwrap_or_default().to_vec())
        });
        let symbols = symbolize(&artifact, &threads(2), &Silent).unwrap();
        assert_eq!(symbols.stacks.len(), recording.stacks.len(), "seed {seed}");
    }
}

#[test]
fn hostile_registers_and_windows_end_with_a_reason() {
    if !can_compile() {
        return;
    }
    let mut recording = program();
    let mut random = Random(7);
    let good = recording.stacks.clone();
    recording.stacks.clear();
    for _ in 0..40 {
        for stack in &good {
            let mut stack = stack.clone();
            for _ in 0..random.below(12) {
                let at = random.below(stack.window.len());
                if let Some(byte) = stack.window.get_mut(at) {
                    *byte = random.below(256) as u8;
                }
            }
            let register = random.below(17);
            stack.registers[register] ^= 1 << random.below(64);
            recording.stacks.push(stack);
        }
    }
    let artifact = recording.artifact();
    let symbols = symbolize(&artifact, &Options::default(), &Silent).unwrap();
    assert_eq!(symbols.stacks.len(), recording.stacks.len());
    for stack in &symbols.stacks {
        assert!(stack.len < 200);
    }
}
