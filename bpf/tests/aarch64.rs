//! The programs compile for the architecture that the tests do not run on.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use libbpf_rs::libbpf_sys::API_HEADERS;
use std::{env, fs, path::Path, process::Command};

#[test]
fn the_programs_compile_for_both_architectures() {
    let folder = tempfile::tempdir().unwrap();
    let headers = folder.path().join("bpf");
    fs::create_dir(&headers).unwrap();
    for (name, text) in API_HEADERS {
        fs::write(headers.join(name), text).unwrap();
    }
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    for architecture in ["x86", "arm64"] {
        let output = Command::new(&clang)
            .args([
                "-g", "-O2", "-mcpu=v3", "-target", "bpf", "-Werror", "-Wall",
            ])
            .arg(format!("-D__TARGET_ARCH_{architecture}"))
            .arg("-I")
            .arg(folder.path())
            .arg("-c")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("memtrack.bpf.c"))
            .arg("-o")
            .arg(folder.path().join("memtrack.o"))
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{architecture}: {log}");
    }
}
