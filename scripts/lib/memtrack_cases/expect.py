"""Reads an `expect.json`. An unknown key is a fault: it would go unjudged."""
import json
import pathlib
from dataclasses import dataclass, field

from . import Fault

CASE_KEYS = {
    "schema", "name", "kinds", "about", "note", "variants", "sites", "totals", "rules",
    "name_never", "files", "fields", "names", "processes", "run", "self_check",
}
# gdb, count, llvm, gdb_counts, gdb_env and follow steer an oracle that works
# without memtrack; they say nothing about memtrack.
ORACLE_KEYS = {"gdb", "count", "llvm", "gdb_counts", "gdb_env", "follow"}
VARIANT_KEYS = ORACLE_KEYS | {
    "argv", "env", "cwd", "exit", "debug_root", "note_expected", "no_lines",
    "names_at_least", "sites", "note", "reset",
}
SITE_KEYS = {
    "id", "size", "calls", "live_calls", "failed", "fn", "stack", "stacks", "never",
    "may_truncate", "must_truncate", "skip", "note", "oracle_skip", "path_ends",
    "stack_bytes_needed",
}


@dataclass
class Variant:
    """One way to run a case's program."""

    name: str
    given: dict

    @property
    def exit_status(self) -> int:
        """The status that `memtrack capture` passes on: the program's own, or
        128 and the signal's number."""
        wanted = self.given.get("exit", {"code": 0})
        return 128 + wanted["signal"] if "signal" in wanted else wanted["code"]

    def argv(self, out: pathlib.Path) -> list[str]:
        words = self.given["argv"]
        return [str(out / words[0])] + [fill(word, out) for word in words[1:]]

    def environment(self, out: pathlib.Path) -> dict[str, str]:
        return {name: fill(text, out) for name, text in self.given.get("env", {}).items()}

    def folder(self, out: pathlib.Path) -> pathlib.Path:
        return out / self.given.get("cwd", ".")


@dataclass
class Case:
    """A folder with an `expect.json`."""

    folder: pathlib.Path
    expect: dict
    variants: list[Variant] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.folder.name

    def sites(self, variant: Variant) -> list[dict]:
        """The sites with the variant's changes, without those it skips."""
        changes = variant.given.get("sites", {})
        merged = [{**site, **changes.get(site["id"], {})} for site in self.expect.get("sites", [])]
        return [site for site in merged if not site.get("skip")]


def fill(text: str, out: pathlib.Path) -> str:
    return text.replace("$OUT", str(out))


def read(folder: pathlib.Path) -> Case:
    path = folder / "expect.json"
    try:
        expect = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Fault(f"{path}: {error}") from error
    if expect.get("schema") != 1:
        raise Fault(f"{path}: schema {expect.get('schema')!r} is not known, 1 is")
    known(path, "the case", expect, CASE_KEYS)
    for name, given in expect.get("variants", {}).items():
        known(path, f"variant {name}", given, VARIANT_KEYS)
        for site, changes in given.get("sites", {}).items():
            known(path, f"variant {name}, site {site}", changes, SITE_KEYS)
    for site in expect.get("sites", []):
        known(path, f"site {site.get('id')}", site, SITE_KEYS)
    variants = [Variant(name, given) for name, given in expect.get("variants", {}).items()]
    if "run" in expect:
        # The script starts the program itself; there is no argv to vary.
        variants.append(Variant("run", {}))
    return Case(folder, expect, variants)


def known(path, what, given, keys):
    strange = sorted(set(given) - keys)
    if strange:
        raise Fault(f"{path}: {what}: no judge for the key {', '.join(strange)}")
