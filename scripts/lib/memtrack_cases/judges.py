"""What a comparison of frames and numbers cannot say, judged one by one.

A judge takes the recordings of all variants of a case and yields faults. Rules
are sentences; each is looked up by its whole text, so that a changed rule has
no judge any more, which is a fault until somebody reads it again.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections import Counter

from . import pages

RULES = {}


def rule(text):
    def add(judge):
        RULES[text] = judge
        return judge

    return add


def judge(case, recordings):
    """All faults of a case's statements beside sites and totals."""
    for text in case.expect.get("rules", []):
        if text in RULES:
            yield from RULES[text](case, recordings)
        else:
            yield f"no judge for rule {text!r}"
    for recording in recordings:
        place = recording.variant.name
        yield from (f"{place}: {fault}" for fault in notes(recording))
        yield from (f"{place}: {fault}" for fault in path_ends(recording))
        if "processes" in case.expect:
            yield from (f"{place}: {fault}" for fault in processes(recording))
        if "names" in case.expect:
            yield from (f"{place}: {fault}" for fault in readable_names(recording))
    for key in ("files", "fields"):
        if key in case.expect:
            yield f"no judge for the key {key}: memtrack reads no such file yet"


def processes(recording):
    """Number of processes, and how many ran each image: a process runs the
    image it was forked with and one more for each exec."""
    wanted = recording.case.expect["processes"]
    unknown = set(wanted) - {"count", "images", "note"}
    if unknown:
        yield f"no judge for processes: {sorted(unknown)}"
    seen = recording.findings["processes"]
    if len(seen) != wanted["count"]:
        yield f"{len(seen)} processes, expected {wanted['count']}"
    images = Counter(name for process in seen for name in process["names"])
    for name, number in wanted.get("images", {}).items():
        # The kernel keeps 15 bytes of a name.
        if images[name[:15]] != number:
            yield f"image {name} ran {images[name[:15]]} times, expected {number}"


# What is said of `note_expected`, and what memtrack's words about it contain.
NOTES = {
    "the linked file's checksum differs": r"(?i)checksum|crc",
    "the file's build-id differs from its name": r"(?i)build.?id .*(differs|is not|another)",
}


def notes(recording):
    expected = recording.variant.given.get("note_expected")
    if expected is None:
        return
    if expected not in NOTES:
        yield f"no judge for the note {expected!r}"
        return
    findings = recording.findings
    said = [*findings["verdict"]["notes"], *findings["verdict"]["problems"]]
    said += [note for module in findings["modules"] for note in module["notes"]]
    if not any(re.search(NOTES[expected], text) for text in said):
        yield f"nothing said that {expected}"


def path_ends(recording):
    """Source paths keep their folders: the site says how each must end."""
    findings = recording.findings
    for site in recording.case.sites(recording.variant):
        for name, end in site.get("path_ends", {}).items():
            files = {
                findings["frames"][number]["file"] or ""
                for detail in findings["detail"]
                if detail["size"] == site["size"] and detail["stack"] is not None
                for number in findings["stacks"][detail["stack"]]["frames"]
            }
            for path in files:
                if path.rsplit("/", 1)[-1] == name and not path.endswith("/" + end):
                    yield f"{site['id']}: the path {path} does not end in {end}"


def readable_names(recording):
    text = pages.text_of(recording.report("html", ".html"))
    for name in recording.case.expect["names"]:
        if name not in text:
            yield f"the html report's text does not hold {name!r}"


@rule(
    "number of frees of site threads never exceeds 20, also on C libraries whose free() calls "
    "itself once per thread"
)
def frees_of_threads(case, recordings):
    size = next(site["size"] for site in case.expect["sites"] if site["id"] == "threads")
    for recording in recordings:
        details = [d for d in recording.findings["detail"] if d["size"] == size]
        frees = sum(d["calls"] - d["live_calls"] for d in details)
        if frees > 20:
            yield f"site threads has {frees} frees"
    yield from every_block_once(case, recordings)


@rule("every block ends once: frees, live blocks and those dropped by exec add up to the allocations")
def every_block_once(_, recordings):
    for recording in recordings:
        sums = recording.findings["totals"]
        ended = sums["frees"] + sums["leaked_blocks"] + sums["exec_blocks"]
        if ended != sums["allocations"]:
            yield (
                f"{sums['allocations']} allocations, but {sums['frees']} frees, {sums['leaked_blocks']} "
                f"live blocks and {sums['exec_blocks']} dropped by exec"
            )


@rule("check_report.py passes on every report format written (html, svg, folded)")
def reports_are_safe(case, recordings):
    for recording in recordings:
        written = [
            recording.report(form, suffix)
            for form, suffix in (("html", ".html"), ("svg", ".svg"), ("folded", ".folded"))
        ]
        checker = case.folder / "check_report.py"
        command = [sys.executable, str(checker), *map(str, written)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            yield f"check_report.py: {(done.stdout + done.stderr).strip()}"


@rule("each name below can be read in the html report's text, exactly, after unescaping")
def names_are_listed(case, _):
    """The key `names` itself is judged by `readable_names`."""
    if not case.expect.get("names"):
        yield "a rule speaks of names, but there are none"


@rule("in folded output a ; or newline inside a name is replaced, so that the number of frames is right")
def folded_frames_add_up(_, recordings):
    """Some line is the stack of every site: as many frames, in order, with the
    same names but for separators."""
    for recording in recordings:
        lines = recording.report("folded", ".folded").read_text(encoding="utf-8").splitlines()
        rows = {tuple(line.rsplit(" ", 1)[0].split(";")) for line in lines}
        findings = recording.findings
        for stack in findings["stacks"]:
            frames = [findings["frames"][number] for number in stack["frames"]]
            names = [frame["function"] for frame in reversed(frames)]
            if not any("mtxss" in (name or "") for name in names):
                continue
            whole = [re.compile(unseparated(name)) for name in names]
            short = whole[: len(whole) - stack["allocator_frames"]]
            if not any(is_row(row, whole) or is_row(row, short) for row in rows):
                yield f"no folded line has the {len(names)} frames {names}"


def unseparated(name):
    """A pattern for a name in which each separator became something else."""
    if name is None:
        return r"[^;\n]+"
    return "".join(r"[^;\n]+" if letter in ";\n" else re.escape(letter) for letter in name)


def is_row(row, patterns):
    return len(row) == len(patterns) and all(p.fullmatch(r) for p, r in zip(patterns, row))


@rule("each name is one frame of a folded stack, though it holds separators")
def names_are_one_frame(case, recordings):
    for recording in recordings:
        text = recording.report("folded", ".folded").read_text(encoding="utf-8")
        frames = {frame for line in text.splitlines() for frame in line.rsplit(" ", 1)[0].split(";")}
        for name in case.expect["names"]:
            if not any(re.fullmatch(unseparated(name), frame) for frame in frames):
                yield f"no folded frame is {name!r}"


@rule("an SVG flame graph is well-formed XML with every name in it, separators replaced")
def names_are_drawn(case, recordings):
    for recording in recordings:
        drawing = recording.report("svg", ".svg")
        try:
            root = xml.etree.ElementTree.parse(drawing).getroot()
        except xml.etree.ElementTree.ParseError as error:
            yield f"{drawing.name} is not well-formed: {error}"
            continue
        text = "\n".join(root.itertext())
        for name in case.expect["names"]:
            if not re.search(unseparated(name), text):
                yield f"the SVG does not hold {name!r}"


@rule("the module's path is kept byte for byte in the artifact, and its file is opened: names come out")
def path_is_kept(_, recordings):
    """That names come out is judged by the sites."""
    for recording in recordings:
        words = json.loads((recording.out / "argv.json").read_text(encoding="utf-8"))
        path = words[0].encode("latin-1")
        held = json.loads(recording.memtrack.offline("inspect", "--json", str(recording.artifact)))
        paths = [bytes_of(one) for module in held["modules"] for one in module["paths"]]
        if path not in paths:
            yield f"no module has the path {path!r}, only {paths!r}"
        command = [bytes_of(word) for word in held["command"]]
        wanted = [word.encode("latin-1") for word in words]
        if command[-len(wanted) :] != wanted:
            yield f"the command line is {command!r}, expected {wanted!r}"


def bytes_of(shown):
    return bytes.fromhex(shown["hex"]) if "hex" in shown else shown["text"].encode()


@rule(
    "either calls and live_calls are exact, or the capture says it is incomplete with a number of "
    "lost events greater than 0"
)
def loss_is_stated(case, recordings):
    """Inexact counts with the default rings are faults of the comparison. With
    the smallest rings they may be inexact, and must then not be called whole."""
    smallest = ("--event-ring", "256K", "--stack-ring", "256K", "--allow-loss")
    for recording in recordings:
        again = recording.memtrack.record(case, recording.variant, recording.out, *smallest)
        lost = sum(loss["count"] for loss in losses(again))
        if again.findings["verdict"]["complete"]:
            yield from (f"called complete, but {fault}" for fault in inexact(case, again))
        elif lost == 0:
            yield f"called incomplete with nothing lost: {again.findings['verdict']['problems']}"


def losses(recording):
    held = json.loads(recording.memtrack.offline("inspect", "--json", str(recording.artifact)))
    return held["losses"]["counts"].values()


def inexact(case, recording):
    details = recording.findings["detail"]
    for site in case.sites(recording.variant):
        calls = sum(d["calls"] for d in details if d["size"] == site["size"])
        live = sum(d["live_calls"] for d in details if d["size"] == site["size"])
        if (calls, live) != (site["calls"], site["live_calls"]):
            yield f"{site['id']} has {calls} calls, {live} live"


@rule("the program ends by itself: no process stays stopped")
def nobody_is_stopped(*_):
    """A capture of a stopped program would not end: the time limit of the
    recording judges this."""
    return ()


@rule("run_all.py reports no broken rule for symbolize and for report (1 GiB, 20 s a copy)")
def damage_is_survived(case, recordings):
    for recording in recordings:
        program, copies = recording.memtrack.program, damaged_copies(case, recording)
        for command in (["symbolize", "{}", "-o", "copy.mts"], ["report", "{}", "--text"]):
            tool = [sys.executable, str(case.folder / "run_all.py"), str(copies), "--", program, *command]
            done = subprocess.run(tool, capture_output=True, text=True, errors="replace")
            if done.returncode != 0:
                yield f"run_all.py, {command[0]}: {(done.stdout + done.stderr).strip()[-2000:]}"


@rule(
    "cut-*: what was whole before the cut may be used, then the report says that it is partial; "
    "a cut at a frame border that loses the end mark is partial too"
)
def cuts_are_told(case, recordings):
    for recording in recordings:
        yield from untold(recording, damaged_copies(case, recording).glob("cut-*"))


@rule("drop-frame-* and dup-frame-* are not read as whole without a note")
def frames_are_missed(case, recordings):
    for recording in recordings:
        copies = damaged_copies(case, recording)
        yield from untold(recording, [*copies.glob("drop-frame-*"), *copies.glob("dup-frame-*")])


@rule("nothing is written outside the output named on the command line")
def nothing_else_is_written(case, recordings):
    for recording in recordings:
        copies = damaged_copies(case, recording)
        before = sorted(copies.iterdir())
        with tempfile.TemporaryDirectory() as folder:
            for copy in before[:: max(1, len(before) // 40)]:
                for command in (["symbolize", str(copy), "-o", "x.mts"], ["report", str(copy), "--json=x.json"]):
                    subprocess.run([recording.memtrack.program, *command], cwd=folder, capture_output=True)
            strange = {path.name for path in pathlib.Path(folder).iterdir()} - {"x.mts", "x.json"}
        strange |= {path.name for path in set(copies.iterdir()) - set(before)}
        if strange:
            yield f"written too: {', '.join(sorted(strange))}"


def damaged_copies(case, recording) -> pathlib.Path:
    """A folder of damaged copies, made at the first call."""
    folder = recording.out / "damaged"
    if not folder.exists():
        tool = [sys.executable, str(case.folder / "mutate.py"), str(recording.artifact), str(folder)]
        subprocess.run(tool, check=True, stdout=subprocess.DEVNULL)
    return folder


def untold(recording, copies):
    """Copies that are read and said to be complete."""
    for copy in sorted(copies):
        command = [recording.memtrack.program, "inspect", "--json", str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode == 0 and json.loads(done.stdout)["complete"]:
            yield f"{copy.name} is said to be complete"
