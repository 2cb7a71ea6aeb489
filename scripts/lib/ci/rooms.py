"""Checks which room depends on which: data flows one way, through `artifact`.

Build, test and ordinary dependencies all count; what a room may use stands
below and nowhere else.
"""
import json
import subprocess
import sys

ALLOWED = {
    "memtrack-artifact": set(),
    "memtrack-bpf": set(),
    "memtrack-capture": {"memtrack-artifact", "memtrack-bpf"},
    "memtrack-symbolize": {"memtrack-artifact"},
    "memtrack-analyze": {"memtrack-artifact"},
    "memtrack-report": {"memtrack-analyze"},
    "memtrack": {
        "memtrack-analyze", "memtrack-artifact", "memtrack-capture", "memtrack-report",
        "memtrack-symbolize",
    },
}


def main() -> int:
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    packages = json.loads(subprocess.check_output(command))["packages"]
    faults = []
    for package in packages:
        name = package["name"]
        if name not in ALLOWED:
            faults.append(f"{name}: a room without an entry in {__file__}")
            continue
        ours = {each["name"] for each in package["dependencies"] if each.get("path")}
        faults += (f"{name} may not use {other}" for other in sorted(ours - ALLOWED[name]))
    print("\n".join(faults) or f"{len(packages)} rooms, no forbidden edge")
    return 1 if faults else 0


sys.exit(main())
