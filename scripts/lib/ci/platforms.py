"""Checks that elsewhere than on Linux no Linux-only crate is built, whatever the
features, and that on Linux `--no-default-features` takes none either."""
import re
import subprocess
import sys

ELSEWHERE = ["x86_64-apple-darwin", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"]
LINUX_ONLY = re.compile(
    r"^(libbpf-.*|perf-event.*|memtrack-bpf|linux-perf-event-reader|mimalloc|libmimalloc-sys|procfs)$"
)


def crates(*arguments: str) -> set[str]:
    command = ["cargo", "tree", "--package", "memtrack", "--edges", "normal,build", "--prefix", "none",
               "--format", "{p}", *arguments]
    lines = subprocess.check_output(command, text=True).splitlines()
    return {line.split()[0] for line in lines if line}


def main() -> int:
    faults = []
    questions = [(target, ["--target", target]) for target in ELSEWHERE]
    questions.append(("linux without capture", ["--target", "x86_64-unknown-linux-gnu", "--no-default-features"]))
    for name, arguments in questions:
        found = crates(*arguments)
        bad = sorted(crate for crate in found if LINUX_ONLY.match(crate))
        print(f"{name}: {len(found)} crates")
        faults += (f"{name}: {crate} is for Linux captures only" for crate in bad)
    # The list above must name what it means to keep out.
    if not any(LINUX_ONLY.match(crate) for crate in crates("--target", "x86_64-unknown-linux-gnu")):
        faults.append("a default build for Linux has none of the crates to keep out: is the list right?")
    print("\n".join(faults) or "none is for Linux only")
    return 1 if faults else 0


sys.exit(main())
