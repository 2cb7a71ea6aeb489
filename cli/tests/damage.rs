//! The whole chain on damaged artifacts: cut at every chunk and at 200 other
//! places, and with 1,000 single bits flipped, `memtrack report` either tells what
//! is missing or fails with an error that names the place. It never panics, and
//! never takes more than 256 MiB.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod support;

use nix::sys::resource::{UsageWho, getrusage};
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use support::{memtrack, repository};

const MOST_MEMORY_KIB: i64 = 256 << 10;
/// The layout that artifact/FORMAT.md gives: file header, chunk header, and in it
/// the place of the stored length.
const FILE_HEADER: usize = 24;
const CHUNK_HEADER: usize = 56;
const STORED_LENGTH_AT: usize = 16;

/// A simple generator, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

fn chunk_starts(bytes: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = FILE_HEADER;
    while at < bytes.len() {
        starts.push(at);
        let stored = &bytes[at + STORED_LENGTH_AT..][..4];
        at += CHUNK_HEADER + u32::from_le_bytes(stored.try_into().unwrap()) as usize;
    }
    assert_eq!(
        at,
        bytes.len(),
        "the chunks do not fill the file: has the layout changed?"
    );
    starts
}

/// What is wrong with how `memtrack report` takes this copy, if anything.
fn fault(copy: &Path, what: &str) -> Option<String> {
    let output = memtrack()
        .arg("report")
        .arg(copy)
        .args(["--text", "--json=/dev/null"])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    match output.status.code() {
        // The damage must be told before the numbers.
        Some(0) if text.to_lowercase().contains("incomplete") => None,
        Some(0) => Some(format!("{what}: read as if it were whole")),
        Some(1) if words.starts_with("memtrack: ") && words.contains(copy.to_str().unwrap()) => {
            None
        }
        status => Some(format!("{what}: status {status:?}, {words}")),
    }
}

/// One way to damage a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    CutAt(usize),
    Flip { byte: usize, bit: usize },
}

impl Damage {
    fn of(self, whole: &[u8]) -> Vec<u8> {
        match self {
            Self::CutAt(at) => whole[..at].to_vec(),
            Self::Flip { byte, bit } => {
                let mut bytes = whole.to_vec();
                bytes[byte] ^= 1 << bit;
                bytes
            }
        }
    }
}

#[test]
fn damage_is_told_and_costs_no_memory() {
    let whole = fs::read(repository().join("testdata/demo.mtk")).unwrap();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut damages: Vec<Damage> = chunk_starts(&whole)
        .into_iter()
        .map(Damage::CutAt)
        .collect();
    damages.extend((0..200).map(|_| Damage::CutAt(dice.below(whole.len()))));
    damages.extend((0..1000).map(|_| Damage::Flip {
        byte: dice.below(whole.len()),
        bit: dice.below(8),
    }));

    let folder = tempfile::tempdir().unwrap();
    let next = AtomicUsize::new(0);
    let work = |worker: usize| {
        let copy = folder.path().join(format!("copy-{worker}.mtk"));
        let mut faults = Vec::new();
        while let Some(damage) = damages.get(next.fetch_add(1, Ordering::Relaxed)) {
            fs::write(&copy, damage.of(&whole)).unwrap();
            faults.extend(fault(&copy, &format!("{damage:?}")));
        }
        faults
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let faults: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn({
                    let work = &work;
                    move || work(worker)
                })
            })
            .collect();
        running
            .into_iter()
            .flat_map(|one| one.join().unwrap())
            .collect()
    });
    assert!(
        faults.is_empty(),
        "{} of {} copies:\n{}",
        faults.len(),
        damages.len(),
        faults.join("\n")
    );

    // The greatest of all children.
    let most = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    println!("{} copies, at most {most} KiB", damages.len());
    assert!(most <= MOST_MEMORY_KIB, "{most} KiB");
}
