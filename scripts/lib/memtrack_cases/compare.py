"""Compares an observation with what a case expects. Every difference is one line."""
import re

FRAME_KEYS = {
    "fn", "any_of", "file", "line", "inline", "nofile", "signal", "unknown", "gap", "repeat", "frame",
}
SIGNAL_NAMES = {"__restore_rt", "__kernel_rt_sigreturn", "<signal handler called>"}


def compare(case, variant, seen: dict) -> list[str]:
    faults = []
    lines = not variant.given.get("no_lines")
    for site in case.sites(variant):
        hits = [entry for entry in seen["allocs"] if entry["size"] == site["size"]]
        found = [*counts(site, hits), *functions(site, hits)]
        for hit in hits:
            found += stack_of(site, hit, lines)
            found += forbidden(site, hit, case.expect.get("name_never", []))
        faults += [f"{site['id']}: {fault}" for fault in found]
    for key, wanted in case.expect.get("totals", {}).items():
        if seen["totals"].get(key) != wanted:
            faults.append(f"totals: {key} is {seen['totals'].get(key)}, expected {wanted}")
    return faults


def counts(site, hits):
    wanted = {"calls": site.get("calls", 1)}
    wanted.update({key: site[key] for key in ("live_calls", "failed") if key in site})
    for key, number in wanted.items():
        got = sum(hit[key] for hit in hits)
        if got != number:
            yield f"{key} is {got}, expected {number}"


def functions(site, hits):
    if "fn" not in site:
        return
    wanted = site["fn"] if isinstance(site["fn"], list) else [site["fn"]]
    for hit in hits:
        if hit["fn"] not in wanted:
            yield f"counted as {hit['fn']}, expected {' or '.join(wanted)}"


def stack_of(site, hit, lines):
    wanted = site.get("stacks") or ([site["stack"]] if "stack" in site else [])
    if not wanted:
        return
    got, cut = hit["stack"], hit["truncated"]
    if not got:
        yield "no stack"
        return
    if cut and not (site.get("may_truncate") or site.get("must_truncate")):
        yield "the stack is marked as cut"
    if site.get("must_truncate") and not cut:
        yield "the stack is not marked as cut"
    furthest = [mismatch(frames, got, lines, cut) for frames in wanted]
    if None not in furthest:
        yield f"the stack does not fit at {max(furthest)}\n{shown(got)}"


def forbidden(site, hit, patterns):
    names = [frame["fn"] for frame in hit["stack"] if frame["fn"]]
    never = {base(name) for name in site.get("never", [])}
    for name in names:
        if base(name) in never:
            yield f"{name} must not be in the stack"
        for pattern in patterns:
            if re.search(pattern, name):
                yield f"the name {name} matches {pattern}"


def mismatch(wanted, got, lines, prefix):
    """None when `got` fits `wanted`, else the first place and frame that do not.

    The set of positions in `got` that can be reached is carried along, as for
    a regular expression: a gap reaches several.
    """
    flat = []
    for frame in wanted:
        flat += [frame["frame"]] * frame["repeat"] if "repeat" in frame else [frame]
    reached = {0}
    for place, frame in enumerate(flat):
        strange = set(frame) - FRAME_KEYS
        if strange:
            return place, f"a frame with unknown keys {sorted(strange)}"
        if prefix and len(got) in reached:
            return None
        if "gap" in frame:
            reached = {at + more for at in reached for more in range(frame["gap"] + 1)}
            reached = {at for at in reached if at <= len(got)}
        else:
            reached = {at + 1 for at in reached if at < len(got) and fits(frame, got[at], lines)}
        if not reached:
            return place, str(frame)
    return None if len(got) in reached else (len(flat), "the end: more frames follow")


def fits(wanted, got, lines) -> bool:
    name = got["fn"]
    if wanted.get("signal"):
        return got["signal"] or name in SIGNAL_NAMES
    if wanted.get("unknown"):
        return name is None
    names = wanted.get("any_of") or [wanted["fn"]]
    if not any(same(one, name) for one in names):
        return False
    if "inline" in wanted and got["inline"] != wanted["inline"]:
        return False
    if wanted.get("nofile") and got["file"]:
        return False
    if not lines:
        return True
    if "file" in wanted and (got["file"] or "").rsplit("/", 1)[-1] != wanted["file"]:
        return False
    return "line" not in wanted or got["line"] == wanted["line"]


def same(wanted: str, got) -> bool:
    """Names are equal; parameters and template arguments count only when the
    expectation has some, clone suffixes never."""
    if got is None:
        return False
    if "(" in wanted or "<" in wanted:
        return tight(wanted) == tight(got)
    return base(wanted) == base(got)


def tight(name: str) -> str:
    return re.sub(r"\s+", "", name)


def base(name: str) -> str:
    name = tight(name)
    if name.startswith(("operatornew", "operatordelete")):
        return name.split("(")[0]
    name = name.replace("(anonymousnamespace)", "{anonymous}")
    kept, depth = "", 0
    for letter in name:
        if letter == "<":
            depth += 1
        elif letter == ">" and depth:
            depth -= 1
        elif letter == "(" and depth == 0:
            break
        elif depth == 0:
            kept += letter
    return re.sub(r"\.(constprop|isra|part|cold|lto_priv|llvm)(\.\d+)*", "", kept or name)


def shown(stack) -> str:
    rows = []
    for frame in stack[:16]:
        place = f" {frame['file']}:{frame['line']}" if frame["file"] else ""
        inline = " (inlined)" if frame["inline"] else ""
        rows.append(f"        {frame['fn'] or '?'}{inline}{place} in {frame['module'] or '?'}")
    if len(stack) > 16:
        rows.append(f"        ... {len(stack) - 16} more")
    return "\n".join(rows)
