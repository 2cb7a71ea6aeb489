//! Programs that the tests build or find on the machine.

use super::{repository, succeeds};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Builds `testdata/programs/SOURCE` into `folder`.
pub fn build(folder: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let compiler = if source.ends_with(".cc") {
        "g++"
    } else {
        "gcc"
    };
    let (stem, _) = source.rsplit_once('.').unwrap();
    let built = folder.join(stem);
    succeeds(
        Command::new(compiler)
            .args(flags)
            .arg("-o")
            .arg(&built)
            .arg(source_path(source)),
    );
    built
}

/// Builds a library to be preloaded.
pub fn build_preload(folder: &Path, source: &str) -> PathBuf {
    build(
        folder,
        source,
        &[
            "-g",
            "-O2",
            "-fPIC",
            "-shared",
            "-fno-optimize-sibling-calls",
        ],
    )
}

/// A source of `testdata/programs`.
pub fn source_path(name: &str) -> PathBuf {
    repository().join("testdata/programs").join(name)
}

/// A program on `PATH`, by its own file: a `python3` found there may be a script
/// that looks for the interpreter.
pub fn find(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("PATH is set");
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed; scripts/setup test installs it"))
}

/// The interpreter of `python3`, Debian's where it is there.
pub fn python() -> PathBuf {
    let debian = PathBuf::from("/usr/bin/python3");
    if debian.is_file() {
        return debian;
    }
    let output =
        succeeds(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// The C++ compiler proper, without its driver.
pub fn cc1plus() -> PathBuf {
    let output = succeeds(Command::new("g++").arg("-print-prog-name=cc1plus"));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// The name of the compiler's folders for this architecture, empty where it has
/// none.
pub fn multiarch() -> String {
    let output = succeeds(Command::new("g++").arg("-print-multiarch"));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// cargo itself rather than the proxy that rustup puts on `PATH`.
pub fn cargo() -> PathBuf {
    let output = succeeds(Command::new("rustc").args(["--print", "sysroot"]));
    let sysroot = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    sysroot.join("bin/cargo")
}
