//! Names that are known by construction: C++ with inlined calls, C that only
//! looks mangled, with debug information whole, compressed, and missing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod recording;

use memtrack_artifact::{Artifact, NameSource, Silent, StackId, Svma, Symbols};
use memtrack_symbolize::{Options, stages, symbolize};
use recording::{
    Plan, Recording, can_compile, compile, record,
    sites::{CPP, site},
    sources,
};
use std::process::Command;

fn recorded(compiler: &str, arguments: &[&str], source: &str) -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    compile(compiler, arguments, &sources().join(source), &program);
    record(folder.path(), &mut Command::new(program), Plan::default())
}

fn named(artifact: &Artifact) -> Symbols {
    symbolize(artifact, &Options::default(), &Silent).unwrap()
}

#[test]
fn cpp_names_with_inlined_calls() {
    if !can_compile() {
        return;
    }
    let recording = recorded("g++", &["-O1", "-g"], "unwind_names.cc");
    let artifact = recording.artifact();
    let symbols = named(&artifact);
    for (size, expected) in CPP {
        assert_eq!(site(&recording, &symbols, size), expected, "{size}");
    }
    let program = artifact
        .modules()
        .iter()
        .position(|module| module.mapped_as[0].path.ends_with(b"/program"))
        .unwrap();
    let audit = &symbols.audits[program];
    assert_eq!(audit.named, audit.asked);
    // All but _start, which is assembly of the C library.
    assert_eq!(audit.with_lines, audit.asked - 1);
    // 8005, and the lambda of 8006.
    assert_eq!(audit.with_inlines, 2);
    assert_eq!(audit.notes, [""; 0]);
}

#[test]
fn compressed_and_older_debug_information_reads_the_same() {
    if !can_compile() {
        return;
    }
    for how in [
        "-gz=zlib",
        "-gz=zlib-gnu",
        "-gdwarf-4",
        "-gdwarf64",
        "-fdebug-types-section",
    ] {
        let recording = recorded("g++", &["-O1", "-g", how], "unwind_names.cc");
        let symbols = named(&recording.artifact());
        for (size, expected) in CPP {
            assert_eq!(site(&recording, &symbols, size), expected, "{how} {size}");
        }
    }
}

#[test]
fn without_debug_information_symbols_name_functions_and_the_audit_says_so() {
    if !can_compile() {
        return;
    }
    let recording = recorded("g++", &["-O1", "-g"], "unwind_names.cc");
    let artifact = recording
        .artifact_with(|name, bytes| (!name.starts_with(".debug")).then(|| bytes.to_vec()));
    let symbols = named(&artifact);
    for (size, expected) in CPP {
        let full = expected.last().unwrap();
        let name = full.rsplit_once(' ').unwrap().0;
        assert_eq!(site(&recording, &symbols, size), [format!("{name} :0")]);
    }
    let notes = symbols.audits.iter().flat_map(|audit| &audit.notes);
    assert!(
        notes
            .clone()
            .any(|note| note.contains("functions by .symtab"))
    );

    let artifact = recording.artifact_with(|name, bytes| {
        (!name.starts_with(".debug") && !name.contains("sym")).then(|| bytes.to_vec())
    });
    let symbols = named(&artifact);
    assert_eq!(site(&recording, &symbols, 8004), ["? :0"]);
    assert!(
        symbols
            .frames
            .iter()
            .all(|frame| frame.source == NameSource::None)
    );
    let frame = symbols.frame(symbols.stack(StackId(0))[1]).unwrap();
    assert!(frame.module.is_some() && frame.module_name.is_some());
}

#[test]
fn addresses_are_named_the_same_in_any_number_of_parts() {
    if !can_compile() {
        return;
    }
    let recording = recorded("g++", &["-O1", "-g"], "unwind_names.cc");
    // The second has broken lines, entries and abbreviations.
    let broken = recording.artifact_with(|name, bytes| {
        let mut bytes = bytes.to_vec();
        if name.starts_with(".debug") {
            bytes
                .iter_mut()
                .skip(200)
                .step_by(97)
                .for_each(|byte| *byte ^= 0x15);
        }
        Some(bytes)
    });
    for artifact in [recording.artifact(), broken] {
        let addresses: Vec<Svma> = (0x1000..0x2000).map(Svma).collect();
        for module in artifact.modules() {
            let one = stages::name_module(&artifact, module, &addresses, 1);
            for parts in [2, 3, 8] {
                let more = stages::name_module(&artifact, module, &addresses, parts);
                assert!(one == more, "{parts} parts");
            }
        }
    }
}

#[test]
fn split_debug_information_leaves_lines_and_says_what_is_missing() {
    if !can_compile() {
        return;
    }
    let recording = recorded("g++", &["-O1", "-g", "-gsplit-dwarf"], "unwind_names.cc");
    let symbols = named(&recording.artifact());
    let expected = ["depot::outermost() unwind_names.cc:27"];
    assert_eq!(site(&recording, &symbols, 8005), expected);
    let notes = symbols.audits.iter().flat_map(|audit| &audit.notes);
    assert!(notes.clone().any(|note| note.contains("split debug")));
}

#[test]
fn names_that_only_look_mangled_and_aliases() {
    if !can_compile() {
        return;
    }
    for (how, line) in [("-g", "unwind_looks.c:"), ("-g0", ":0")] {
        let recording = recorded("gcc", &["-O1", how], "unwind_looks.c");
        let symbols = named(&recording.artifact());
        let mut expected = vec![
            (8101, "_R"),
            (8102, "_Rx"),
            (8103, "_ZN"),
            (8104, "__ZN3foo3barE17h05af221e174051e9E"),
        ];
        // The debug information knows the function by its own name and that it
        // is C; the symbol table has three names and knows no language.
        expected.extend(if how == "-g" {
            [(8105, "__long_name"), (8106, "_ZN3foo3barEi")]
        } else {
            [(8105, "name_22"), (8106, "foo::bar(int)")]
        });
        for (size, name) in expected {
            let seen = site(&recording, &symbols, size);
            assert!(
                seen.len() == 1 && seen[0].starts_with(&format!("{name} {line}")),
                "{how} {size}: {seen:?}"
            );
        }
    }
}
