//! Compiles the BPF programs and generates their skeleton.

fn main() {
    #[cfg(target_os = "linux")]
    linux::build();
}

#[cfg(target_os = "linux")]
mod linux {
    use libbpf_cargo::SkeletonBuilder;
    use std::{env, path::PathBuf};

    /// The programs are one translation unit; these are its parts.
    const SOURCES: [&str; 15] = [
        "abi.h",
        "arch.h",
        "config.h",
        "emit.h",
        "filter.h",
        "image.h",
        "key.h",
        "maps.h",
        "probe_allocator.h",
        "probe_mapping.h",
        "probe_process.h",
        "scratch.h",
        "stack.h",
        "stop.h",
        "vmlinux.h",
    ];

    pub(super) fn build() {
        for source in SOURCES.iter().chain(&["memtrack.bpf.c"]) {
            println!("cargo::rerun-if-changed={source}");
        }
        println!("cargo::rerun-if-env-changed=CLANG");
        if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
            return;
        }
        let architecture = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
            Ok("x86_64") => "x86",
            Ok("aarch64") => "arm64",
            other => panic!("memtrack records x86_64 and aarch64 programs only, not {other:?}"),
        };
        let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        let mut builder = SkeletonBuilder::new();
        if let Some(clang) = env::var_os("CLANG") {
            builder.clang(clang);
        }
        let result = builder
            .source("memtrack.bpf.c")
            .clang_args([
                "-Wall",
                "-Wextra",
                // Callbacks have fixed parameters.
                "-Wno-unused-parameter",
                // Atomic operations that return the old value.
                "-mcpu=v3",
                &format!("-D__TARGET_ARCH_{architecture}"),
            ])
            .reference_obj(true)
            .build_and_generate(output.join("memtrack.skel.rs"));
        if let Err(error) = result {
            panic!(
                "the BPF programs did not compile: {error:#}\n\
                 memtrack's `capture` feature needs clang (Debian: apt install clang); \
                 set CLANG to use another compiler, or build with --no-default-features \
                 for everything but recording"
            );
        }
    }
}
