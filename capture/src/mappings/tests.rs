use super::*;
use memtrack_artifact::Mapping;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

#[test]
fn cpu_lists_are_read() {
    assert_eq!(parse_cpu_list("0"), Some(vec![0]));
    assert_eq!(parse_cpu_list("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
    for wrong in ["", "a", "3-1", "0-4294967295", "1-"] {
        assert_eq!(parse_cpu_list(wrong), None, "{wrong}");
    }
}

/// Observes a shell that waits for a line and then runs `script`; `None` when
/// perf events are not permitted here.
fn observe(script: &str) -> Option<(Pid, Vec<ModuleRecord>)> {
    observe_with(script, ModuleStream::open, true)
}

fn observe_with(
    script: &str,
    open: fn(Pid) -> Result<ModuleStream, ModuleStreamError>,
    polls: bool,
) -> Option<(Pid, Vec<ModuleRecord>)> {
    let mut child = Command::new("sh")
        .args(["-c", &format!("echo ready; read line; {script}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It runs, and has mapped what it needs to wait.
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    let pid = Pid(child.id());
    let opened = open(pid);
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut stream = match opened {
        Ok(stream) => stream,
        Err(error) => {
            child.wait().unwrap();
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "perf events are needed here: {error}"
            );
            println!("skipped: {error}");
            return None;
        }
    };
    let mut records = Vec::new();
    while child.try_wait().unwrap().is_none() {
        if polls {
            stream.poll(&mut |record| records.push(record));
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    stream.finish(&mut |record| records.push(record));
    Some((pid, records))
}

fn maps_of(records: &[ModuleRecord], pid: Pid) -> Vec<&Mapping> {
    records
        .iter()
        .filter(|record| record.pid == pid)
        .filter_map(|record| match &record.event {
            ModuleEvent::Map(map) => Some(map),
            _ => None,
        })
        .collect()
}

#[test]
fn an_exec_is_followed_by_the_mappings_of_the_new_image() {
    let Some((pid, records)) = observe("exec sleep 0") else {
        return;
    };
    let exec = records
        .iter()
        .position(|record| record.event == ModuleEvent::Exec && record.pid == pid)
        .unwrap();
    assert_eq!(maps_of(&records[..exec], pid), Vec::<&Mapping>::new());
    let maps = maps_of(&records[exec..], pid);
    let libc = maps
        .iter()
        .find(|map| map.path.windows(6).any(|part| part == b"/libc."))
        .unwrap();
    assert_ne!(libc.file.inode, 0);
    assert!(libc.protection & 4 != 0);
    let bytes = std::fs::read(std::str::from_utf8(&libc.path).unwrap()).unwrap();
    assert_eq!(
        libc.file.build_id,
        crate::elf::ElfFile::parse(&bytes).unwrap().build_id()
    );
    assert!(records.iter().any(|record| record.event
        == ModuleEvent::Comm {
            name: b"sleep".to_vec()
        }));
    assert!(records.is_sorted_by_key(|record| record.time_ns));
}

#[test]
fn forked_processes_are_followed_to_their_end() {
    let Some((pid, records)) = observe("(sleep 0; true) & (sleep 0; true) & wait") else {
        return;
    };
    let children: Vec<Pid> = records
        .iter()
        .filter(|record| record.event == ModuleEvent::Fork { parent: pid })
        .map(|record| record.pid)
        .collect();
    assert_eq!(children.len(), 2);
    for child in children {
        assert!(records.iter().any(|record| record.pid == child
            && record.event == ModuleEvent::Exit
            && record.tid.0 == child.0));
    }
    assert!(
        !records
            .iter()
            .any(|record| matches!(record.event, ModuleEvent::Lost { .. }))
    );
}

#[test]
fn records_that_find_no_room_are_counted() {
    let script = "i=0; while [ $i -lt 300 ]; do (exit 0); i=$((i+1)); done";
    // The smallest ring there is, and nobody reads it.
    let open = |pid| ModuleStream::open_rings(pid, &online_cpus()?, 4096);
    let Some((_, records)) = observe_with(script, open, false) else {
        return;
    };
    let lost: u64 = records
        .iter()
        .map(|record| match record.event {
            ModuleEvent::Lost { count } => count,
            _ => 0,
        })
        .sum();
    let forks = records
        .iter()
        .filter(|record| matches!(record.event, ModuleEvent::Fork { .. }))
        .count();
    assert!(forks < 300);
    // At least the missing forks, from both events.
    assert!(
        lost >= 2 * (300 - forks as u64),
        "{lost} lost, {forks} forks"
    );
}

#[test]
fn junk_in_a_ring_never_panics() {
    let decoder = Decoder::new(Some(7));
    let mut state = 1u64;
    for round in 0..20_000u32 {
        let mut bytes: Vec<u8> = (0..160)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        // A plausible header, so that bodies are read too.
        bytes[..4].copy_from_slice(&(round % 12).to_le_bytes());
        bytes[6..8].copy_from_slice(&(round % 161).to_le_bytes()[..2]);
        if round % 3 == 0 {
            bytes[152..160].copy_from_slice(&7u64.to_le_bytes());
        }
        decoder.decode(&bytes, &mut |_, _| {});
    }
}
