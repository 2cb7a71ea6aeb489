"""Runs a variant under `memtrack capture` and asks memtrack what it saw."""
import contextlib
import fcntl
import json
import os
import pathlib
import subprocess
import tempfile
from dataclasses import dataclass

from . import Fault
from .expect import Case, Variant, fill

CAPTURE_SECONDS = 180
OFFLINE_SECONDS = 300
# The status of a capture that could not begin.
REFUSED = 125


@dataclass
class Recording:
    """What one variant left."""

    case: Case
    variant: Variant
    out: pathlib.Path
    memtrack: "Memtrack"
    artifact: pathlib.Path
    findings: dict
    capture_words: str

    def report(self, form: str, suffix: str) -> pathlib.Path:
        """Writes another report of this recording."""
        path = self.artifact.with_suffix(suffix)
        self.memtrack.offline("report", str(self.artifact), f"--{form}={path}")
        return path


class Memtrack:
    """The program under test."""

    def __init__(self, program: pathlib.Path):
        self.program = str(program)

    def offline(self, *arguments: str) -> str:
        """Runs an offline command, which must succeed; its stdout."""
        command = [self.program, *arguments]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=OFFLINE_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise Fault(f"memtrack {arguments[0]} took longer than {OFFLINE_SECONDS} s") from error
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip()
            raise Fault(f"memtrack {' '.join(arguments)} ended with {done.returncode}:\n{words}")
        return done.stdout.decode(errors="replace")

    def refusal(self) -> str | None:
        """Why this machine permits no capture, if it does not."""
        with tempfile.TemporaryDirectory() as folder, privileged():
            command = [self.program, "capture", "-q", "-o", os.path.join(folder, "try.mtk"), "--", "true"]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        return done.stderr.strip() if done.returncode == REFUSED else None

    def record(self, case: Case, variant: Variant, out: pathlib.Path, *options: str) -> Recording:
        artifact = out / f"{'-'.join([variant.name, *options])}.mtk"
        if "debug_root" in variant.given:
            options += ("--debug-dir", fill(variant.given["debug_root"], out))
        prefix = [self.program, "capture", "-o", str(artifact), *options, "--"]
        if variant.name == "run" and "run" in case.expect:
            command, folder, extra = [str(out / "run.sh"), *prefix], out, {}
        else:
            command = prefix + variant.argv(out)
            folder, extra = variant.folder(out), variant.environment(out)
        words = self.capture(command, folder, extra, variant.exit_status)
        if not artifact.exists():
            raise Fault(f"capture left no artifact\n{words.strip()}")
        self.offline("symbolize", str(artifact))
        found = artifact.with_suffix(".json")
        self.offline("report", str(artifact), f"--json={found}", "--detail")
        findings = json.loads(found.read_text(encoding="utf-8"))
        return Recording(case, variant, out, self, artifact, findings, words)

    def capture(self, command, folder, extra, status) -> str:
        with privileged():
            try:
                done = subprocess.run(
                    command, cwd=folder, env={**os.environ, **extra}, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=CAPTURE_SECONDS,
                )
            except subprocess.TimeoutExpired as error:
                raise Fault(f"capture took longer than {CAPTURE_SECONDS} s") from error
        words = done.stderr.decode(errors="replace")
        if done.returncode != status:
            raise Fault(f"capture ended with {done.returncode}, expected {status}\n{words.strip()}")
        return words


@contextlib.contextmanager
def privileged():
    """Probes are system-wide and slow every process, so only one capture of a
    test runs at a time on a machine. The tests in Rust take the same lock."""
    path = os.path.join(tempfile.gettempdir(), "memtrack-priv.lock")
    with open(path, "a", encoding="utf-8") as lock:
        if not is_inherited(path, lock.fileno()):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_inherited(path, own):
    """Whether this runs under `flock FILE ...`, which holds the lock for us and
    leaves it open as one of our files."""
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if int(number) != own and os.readlink(f"/proc/self/fd/{number}") == path:
                return True
    return False
