"""Builds a case's programs."""
import pathlib
import re
import shutil
import subprocess

from . import Fault
from .expect import Case, fill

# A word in a build.sh or self_check, the command that must be there, and the
# Debian package that brings it.
TOOLS = {
    "gcc": ("gcc", "gcc"),
    "g++": ("g++", "g++"),
    "clang": ("clang", "clang"),
    "clang++": ("clang++", "clang"),
    "lld": ("ld.lld", "lld"),
    "mold": ("mold", "mold"),
    "nm": ("nm", "binutils"),
    "objcopy": ("objcopy", "binutils"),
    "readelf": ("readelf", "binutils"),
    "strip": ("strip", "binutils"),
    "dwz": ("dwz", "dwz"),
    "dwp": ("dwp", "binutils"),
    "llvm-dwp": ("llvm-dwp", "llvm"),
    "xz": ("xz", "xz-utils"),
    "zstd": ("zstd", "zstd"),
    "rustc": ("rustc", "rustc"),
    "python3": ("python3", "python3"),
}
BUILD_SECONDS = 300


def build(case: Case, out: pathlib.Path) -> None:
    script = case.folder / "build.sh"
    check = case.expect.get("self_check", "")
    words = set(re.findall(r"[\w+-]+", script.read_text(encoding="utf-8") + " " + check))
    missing = [TOOLS[word] for word in sorted(words & set(TOOLS)) if not shutil.which(TOOLS[word][0])]
    if missing:
        raise Fault(
            f"needs {', '.join(command for command, _ in missing)}: "
            f"apt-get install {' '.join(sorted({package for _, package in missing}))}"
        )
    run(["sh", str(script), str(out)], case.folder, "build.sh")
    if check:
        run(["sh", "-c", fill(check, out)], case.folder, "self_check")


def run(command, folder, what):
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=BUILD_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise Fault(f"{what} took longer than {BUILD_SECONDS} s") from error
    if done.returncode != 0:
        raise Fault(f"{what} ended with {done.returncode}:\n{done.stdout.strip()}")
