use super::*;
use crate::{
    addr::Svma,
    id::{FrameId, ModuleId, StringId},
    symbols::{Frame, ModuleAudit, NameSource, SymbolizedStack, Termination},
};
use proptest::prelude::*;

fn frame() -> impl Strategy<Value = Frame> {
    (
        any::<(Option<u8>, Option<u8>, Option<u8>)>(),
        any::<(u32, Option<u32>, u64)>(),
        any::<(bool, bool, bool)>(),
        0..4,
    )
        .prop_map(|(strings, (line, module, address), bits, source)| Frame {
            function: strings.0.map(|id| StringId(id.into())),
            file: strings.1.map(|id| StringId(id.into())),
            line,
            module: module.map(ModuleId),
            address: Svma(address),
            module_name: strings.2.map(|id| StringId(id.into())),
            inline: bits.0,
            signal: bits.1,
            frame_pointer: bits.2,
            source: [
                NameSource::None,
                NameSource::Dwarf,
                NameSource::Symtab,
                NameSource::Dynsym,
            ][source as usize],
        })
}

fn termination() -> impl Strategy<Value = Termination> {
    (0..10, any::<u64>()).prop_map(|(code, needed_bytes)| match code {
        0 => Termination::Root,
        1 => Termination::CopyTooShort { needed_bytes },
        2 => Termination::NoRule,
        3 => Termination::NoModule,
        4 => Termination::ReadFailed,
        5 => Termination::NoProgress,
        6 => Termination::BadRule,
        7 => Termination::TooManyFrames,
        8 => Termination::FramePointerOnly,
        _ => Termination::NotRecorded,
    })
}

fn symbols() -> impl Strategy<Value = Symbols> {
    (
        any::<u64>(),
        prop::collection::vec(".{0,12}", 256),
        prop::collection::vec(frame(), 1..60),
        prop::collection::vec((0u32..9, termination()), 0..40),
        prop::collection::vec(any::<[u64; 4]>(), 0..5),
    )
        .prop_map(|(artifact_fingerprint, strings, frames, stacks, audits)| {
            let mut stack_frames = Vec::new();
            let stacks = stacks
                .into_iter()
                .map(|(len, termination)| {
                    let start = stack_frames.len() as u32;
                    let ids =
                        (0..len).map(|step| FrameId((start * 7 + step) % frames.len() as u32));
                    stack_frames.extend(ids);
                    SymbolizedStack {
                        start,
                        len,
                        termination,
                    }
                })
                .collect();
            Symbols {
                artifact_fingerprint,
                strings,
                frames,
                stack_frames,
                stacks,
                audits: audits
                    .into_iter()
                    .map(|[asked, named, with_lines, with_inlines]| ModuleAudit {
                        asked,
                        named,
                        with_lines,
                        with_inlines,
                        notes: vec!["fetch it".into()],
                    })
                    .collect(),
            }
        })
}

fn bytes_of(symbols: &Symbols) -> Vec<u8> {
    write_symbols(Vec::new(), symbols).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_symbols_come_back(symbols in symbols()) {
        let bytes = bytes_of(&symbols);
        prop_assert_eq!(&bytes, &bytes_of(&symbols));
        prop_assert_eq!(read_symbols_from("t", &bytes).unwrap(), symbols);
    }

    #[test]
    fn a_changed_byte_is_an_error(symbols in symbols(), at: prop::sample::Index, with in 1u8..) {
        let mut bytes = bytes_of(&symbols);
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        prop_assert!(read_symbols_from("t", &bytes).is_err());
    }
}

#[test]
fn every_cut_is_an_error() {
    let symbols = Symbols {
        strings: vec!["main".into(), String::new()],
        ..Symbols::default()
    };
    let bytes = bytes_of(&symbols);
    assert_eq!(read_symbols_from("t", &bytes).unwrap(), symbols);
    for len in 0..bytes.len() {
        assert!(read_symbols_from("t", &bytes[..len]).is_err(), "{len}");
    }
}

#[test]
fn an_id_outside_its_table_is_an_error() {
    let frame = Frame {
        function: Some(StringId(0)),
        file: None,
        line: 0,
        module: None,
        address: Svma(0),
        module_name: None,
        inline: false,
        signal: false,
        frame_pointer: false,
        source: NameSource::None,
    };
    let bad_string = Symbols {
        frames: vec![frame],
        ..Symbols::default()
    };
    let bad_frame = Symbols {
        stack_frames: vec![FrameId(0)],
        ..Symbols::default()
    };
    let bad_range = Symbols {
        stacks: vec![SymbolizedStack {
            start: 0,
            len: 1,
            termination: Termination::Root,
        }],
        ..Symbols::default()
    };
    for symbols in [bad_string, bad_frame, bad_range] {
        let error = read_symbols_from("t", &bytes_of(&symbols)).unwrap_err();
        assert!(error.to_string().contains("not in its table"), "{error}");
    }
}

#[test]
fn large_tables_are_cut_into_chunks() {
    let symbols = Symbols {
        strings: (0..70_000).map(|number| format!("name {number}")).collect(),
        audits: vec![ModuleAudit::default(); 1000],
        ..Symbols::default()
    };
    assert_eq!(
        read_symbols_from("t", &bytes_of(&symbols)).unwrap(),
        symbols
    );
}
