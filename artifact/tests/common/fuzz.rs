//! What a fuzzer runs: each function takes any bytes and must not panic.

use memtrack_artifact::{Artifact, Columns, EventBatch, EventDecoder, read_symbols_from};

/// Opens an artifact and touches everything in it.
pub(crate) fn artifact(bytes: &[u8]) {
    let Ok(artifact) = Artifact::from_bytes("fuzz", bytes.to_vec()) else {
        return;
    };
    let mut decoder = EventDecoder::default();
    let mut batch = EventBatch::default();
    for chunk in artifact.event_chunks() {
        if decoder.decode(&chunk, Columns::ALL, &mut batch).is_ok() {
            assert!(batch.iter().count() <= chunk.count);
        }
        // The memory is reused after a failure, too.
        let _ = decoder.decode(&chunk, Columns::OLD_ADDRESS, &mut batch);
    }
    for chunk in artifact.stack_chunks() {
        if let Ok(batch) = chunk.decode() {
            assert_eq!(batch.iter().count(), chunk.count);
        }
    }
    for module in artifact.modules() {
        for section in &module.sections {
            if let Ok(Some(bytes)) = artifact.section(module.id, &section.name) {
                assert_eq!(bytes.len() as u64, section.len);
            }
        }
    }
    for record in artifact.module_records() {
        if let memtrack_artifact::ModuleEvent::Map(mapping) = &record.event {
            let _ = artifact.module_of(mapping);
        }
    }
    let _ = (artifact.part_sizes(), artifact.fingerprint());
    let _ = (artifact.ending(), artifact.losses(), artifact.header());
}

/// Reads a symbol file and follows every id in it.
pub(crate) fn symbols(bytes: &[u8]) {
    let Ok(symbols) = read_symbols_from("fuzz", bytes) else {
        return;
    };
    for id in 0..symbols.stacks.len() as u32 {
        let stack = symbols.stack(memtrack_artifact::StackId(id));
        assert_eq!(stack.len(), symbols.stacks[id as usize].len as usize);
        for &frame in stack {
            let frame = symbols.frame(frame).unwrap();
            for name in [frame.function, frame.file, frame.module_name] {
                assert!(name.is_none_or(|name| name.index() < symbols.strings.len()));
            }
        }
    }
}
