"""Checks licences, sources and doubled crates against deny.toml.

`cargo deny` does the same and more; this is for machines without it, where
building it would take longer than everything else.
"""
import json
import pathlib
import re
import subprocess
import sys
import tomllib
from collections import defaultdict

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
REGISTRY = re.compile(r"^registry\+https://github\.com/rust-lang/crates\.io-index$")


def main() -> int:
    with open(REPOSITORY / "deny.toml", "rb") as file:
        rules = tomllib.load(file)
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    metadata = json.loads(subprocess.check_output(command, cwd=REPOSITORY))
    packages = metadata["packages"]
    shipped = reachable(metadata)
    faults = [*licences(packages, rules["licenses"]), *sources(packages)]
    faults += doubles([each for each in packages if each["id"] in shipped], rules["bans"])
    print("\n".join(faults) or f"{len(packages)} crates: licences, sources and versions are as deny.toml says")
    return 1 if faults else 0


def reachable(metadata) -> set[str]:
    """Packages that end up in a program: by ordinary dependencies alone."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    seen, waiting = set(), list(metadata["workspace_members"])
    while waiting:
        package = waiting.pop()
        if package in seen:
            continue
        seen.add(package)
        for edge in nodes[package]["deps"]:
            if any(kind["kind"] is None for kind in edge["dep_kinds"]):
                waiting.append(edge["pkg"])
    return seen


def licences(packages, rules):
    exceptions = {each["crate"]: each["allow"] for each in rules.get("exceptions", [])}
    for package in packages:
        named = package["license"]
        allowed = {*rules["allow"], *exceptions.get(package["name"], [])}
        if not named:
            yield f"{package['name']}: no licence is named"
        elif not satisfied(named, allowed):
            yield f"{package['name']}: the licence {named} is not allowed"


def satisfied(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression can be met by allowed licences. The words OR,
    AND and WITH are all that occurs; `/` is the old way to write OR."""
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))
    position = 0

    def any_of():
        nonlocal position
        met = all_of()
        while position < len(tokens) and tokens[position] == "OR":
            position += 1
            other = all_of()
            met = met or other
        return met

    def all_of():
        nonlocal position
        met = one()
        while position < len(tokens) and tokens[position] == "AND":
            position += 1
            other = one()
            met = met and other
        return met

    def one():
        nonlocal position
        token = tokens[position]
        position += 1
        if token == "(":
            met = any_of()
            position += 1
            return met
        if position < len(tokens) and tokens[position] == "WITH":
            token = f"{token} WITH {tokens[position + 1]}"
            position += 2
        return token in allowed

    return any_of()


def sources(packages):
    for package in packages:
        source = package["source"]
        if source is not None and not REGISTRY.match(source):
            yield f"{package['name']}: comes from {source}"


def doubles(packages, rules):
    skipped = {each["crate"].split("@")[0].split(":")[0] for each in rules.get("skip", [])}
    versions = defaultdict(set)
    for package in packages:
        versions[package["name"]].add(package["version"])
    for name, numbers in sorted(versions.items()):
        if len(numbers) > 1 and name not in skipped:
            yield f"{name}: {len(numbers)} versions ({', '.join(sorted(numbers))})"


sys.exit(main())
