"""The command `scripts/cases`."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from . import Fault
from .build import build
from .compare import compare
from .expect import read
from .judges import judge
from .observe import observe
from .record import Memtrack

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
DEFAULT_FOLDER = REPOSITORY.parent / "shared" / "cases"
PENDING = pathlib.Path(__file__).with_name("pending.txt")


def main(words: list[str]) -> int:
    arguments = parse(words)
    folder = arguments.folder.resolve()
    if not folder.is_dir():
        print(f"cases: no folder {folder}: name one, for example testdata/cases", file=sys.stderr)
        return 2
    names = arguments.names or sorted(path.parent.name for path in folder.glob("*/expect.json"))
    missing = [name for name in names if not (folder / name / "expect.json").is_file()]
    if missing or not names:
        what = ", ".join(missing) or "case"
        print(f"cases: {folder} has no {what} (an expect.json in a folder)", file=sys.stderr)
        return 2
    memtrack = Memtrack(arguments.memtrack.resolve() if arguments.memtrack else built_memtrack())
    refusal = memtrack.refusal()
    if refusal:
        print(f"cases: not run, this machine permits no capture: {refusal}", file=sys.stderr)
        # Where everything must run, not to run is a fault.
        return 1 if os.environ.get("CI") == "true" else 0
    return run_all(folder, names, memtrack, arguments.keep)


def parse(words):
    parser = argparse.ArgumentParser(prog="scripts/cases", description="Runs cases through memtrack.")
    parser.add_argument("--keep", action="store_true", help="keep what each case built and recorded")
    parser.add_argument("--memtrack", type=pathlib.Path, help="this program, instead of building one")
    parser.add_argument("words", nargs="*", metavar="FOLDER|NAME", help="the folder of cases; cases to run")
    arguments = parser.parse_args(words)
    arguments.folder, arguments.names = DEFAULT_FOLDER, arguments.words
    if arguments.words and pathlib.Path(arguments.words[0]).is_dir():
        arguments.folder, arguments.names = pathlib.Path(arguments.words[0]), arguments.words[1:]
    return arguments


def built_memtrack() -> pathlib.Path:
    """Builds memtrack with the profile of the tests; the program's path."""
    command = ["cargo", "build", "--package", "memtrack", "--message-format", "json-render-diagnostics"]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"cases: {' '.join(command[:4])} failed")
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == "memtrack":
            return pathlib.Path(message["executable"])
    sys.exit("cases: cargo named no program")


def run_all(folder, names, memtrack, keep) -> int:
    pending = read_pending()
    passed = failed = waiting = 0
    width = max(map(len, names))
    for name in names:
        started = time.monotonic()
        out = pathlib.Path(tempfile.mkdtemp(prefix=f"memtrack-case-{name}-"))
        faults = faults_of(folder, name, memtrack, out)
        seconds = f"{time.monotonic() - started:5.1f} s"
        if not faults:
            passed += 1
            remark = "  (passes now: take it out of pending.txt)" if name in pending else ""
            print(f"ok       {name:{width}} {seconds}{remark}")
        elif name in pending:
            waiting += 1
            print(f"not yet  {name:{width}} {seconds}  {len(faults)} faults: {pending[name]}")
        else:
            failed += 1
            print(f"FAULT    {name:{width}} {seconds}")
        if faults and (name not in pending or keep):
            for fault in faults:
                print("    " + fault.replace("\n", "\n    "))
        if keep or (faults and name not in pending):
            print(f"    kept: {out}")
        else:
            shutil.rmtree(out, ignore_errors=True)
        sys.stdout.flush()
    if waiting:
        print(f"{waiting} not yet (scripts/lib/memtrack_cases/pending.txt says why)")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def faults_of(folder, name, memtrack, out) -> list[str]:
    faults, recordings = [], []
    try:
        case = read(folder / name)
        build(case, out)
    except Fault as fault:
        return [str(fault)]
    for variant in case.variants:
        try:
            recording = memtrack.record(case, variant, out)
            seen = observe(recording.findings)
            faults += (f"{variant.name}: {line}" for line in differences(folder, case, variant, seen, out))
            recordings.append(recording)
        except Fault as fault:
            faults.append(f"{variant.name}: {fault}")
    try:
        # Rules are judged on what was recorded; a variant without a recording
        # is a fault already.
        faults += judge(case, recordings)
    except Fault as fault:
        faults.append(str(fault))
    return faults


def differences(folder, case, variant, seen, out) -> list[str]:
    """By the folder's own checker where it brings one, by ours elsewhere."""
    observation = out / f"{variant.name}.seen.json"
    observation.write_text(json.dumps(seen), encoding="utf-8")
    checker = folder / "tools" / "check.py"
    if not checker.is_file():
        return compare(case, variant, seen)
    command = [sys.executable, str(checker), str(case.folder / "expect.json"), str(observation), "--strict"]
    if variant.name in case.expect.get("variants", {}):
        command += ["--variant", variant.name]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode == 0:
        return []
    said = [line for line in (done.stdout + done.stderr).splitlines() if "to check beside this" not in line]
    return ["\n".join(said)]


def read_pending() -> dict[str, str]:
    rows = {}
    for line in PENDING.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, reason = line.split(maxsplit=1)
            rows[name] = reason
    return rows
