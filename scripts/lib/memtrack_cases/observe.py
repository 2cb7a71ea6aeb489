"""Turns memtrack's JSON into an observation: what was seen, in the words of a case."""
from . import Fault


def observe(findings: dict) -> dict:
    return {
        "allocs": [entry(findings, detail) for detail in findings["detail"]],
        "totals": totals(findings["totals"]),
    }


def totals(sums: dict) -> dict:
    return {
        "allocs": sums["allocations"],
        "frees": sums["frees"],
        "live_calls": sums["leaked_blocks"],
        "live_bytes": sums["leaked_bytes"],
        "peak_bytes": sums["peak_bytes"],
        "failed": sums["failed"],
        "null_frees": sums["null_frees"],
    }


def entry(findings: dict, detail: dict) -> dict:
    seen = {
        "fn": detail["function"],
        "size": detail["size"],
        "calls": detail["calls"],
        "live_calls": detail["live_calls"],
        "failed": detail["failed"],
        "pid": detail["pid"],
    }
    if detail["stack"] is None:
        # Shown as what it is: a stack that was cut before its first frame.
        return {**seen, "stack": [], "truncated": True}
    stack = findings["stacks"][detail["stack"]]
    frames = [findings["frames"][number] for number in stack["frames"]]
    return {
        **seen,
        "stack": [frame(shown) for shown in callers(frames)],
        "truncated": stack["truncated"] is not None,
    }


def callers(frames: list[dict]) -> list[dict]:
    """The frames from the allocation function's caller outward.

    The probe sits in the allocation function, so that exactly one physical
    frame is dropped, with the calls inlined into it (which come before it).
    """
    for position, shown in enumerate(frames):
        if not shown["inline"]:
            return frames[position + 1 :]
    raise Fault(f"a stack has {len(frames)} inlined frames and no physical one")


def frame(shown: dict) -> dict:
    return {
        "fn": shown["function"],
        "file": shown["file"],
        "line": shown["line"] or None,
        "inline": shown["inline"],
        "signal": shown["signal"],
        "module": shown["module"],
    }
