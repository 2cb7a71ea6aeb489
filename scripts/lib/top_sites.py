"""Prints the costliest call sites of a `memtrack report --json` file.

Usage: top_sites.py FINDINGS.json [NUMBER]
"""
import json
import sys

# C++ names with their template arguments fill a screen.
LONGEST = 90


def main(path: str, number: str = "5") -> None:
    with open(path, encoding="utf-8") as file:
        findings = json.load(file)
    print(findings["verdict"]["headline"])
    for site in findings["sites"][: int(number)]:
        frame, costs = findings["frames"][site["frame"]], site["costs"]
        print(f"{costs['peak_bytes']:>14,} bytes {costs['allocations']:>10,} calls  {name(frame)}")


def name(frame: dict) -> str:
    module = (frame["module"] or "?").rsplit("/", 1)[-1]
    function = frame["function"] or f"{module}+{frame['address']:#x}"
    place = f" at {frame['file']}:{frame['line']}" if frame["file"] else f" in {module}"
    shown = function if len(function) <= LONGEST else function[: LONGEST - 1] + "…"
    return shown + place


if __name__ == "__main__":
    main(*sys.argv[1:])
