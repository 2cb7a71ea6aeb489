"""Run by gdb: records the stack of each stop at memtrack_stop_here.

gdb -nx -q -batch -x gdb_stacks.py --args PROGRAM ARGUMENTS...

GDB_PRELOAD and GDB_SIZES are given to the program as LD_PRELOAD and
MEMTRACK_STOP; GDB_OUT receives one JSON object a line: the size, and the innermost
frames from the caller of the allocation function outward, each with gdb's name
(or null), the module's path and the address as the module's file has it.
"""
import json
import os
import struct

import gdb

DEPTH = 5
PT_LOAD = 1


class Modules:
    """Turns addresses of the process into those that a file's tables use."""

    def __init__(self):
        self.mappings, self.segments = [], {}

    def locate(self, address):
        for fresh in (False, True):
            if fresh:
                self.read_mappings()
            for start, end, offset, path in self.mappings:
                if start <= address < end and path.startswith("/"):
                    return path, self.link_time(path, address - start + offset)
        return None, address

    def read_mappings(self):
        self.mappings = []
        with open(f"/proc/{gdb.selected_inferior().pid}/maps", encoding="utf-8") as file:
            for line in file:
                words = line.split(None, 5)
                if len(words) == 6:
                    start, end = (int(word, 16) for word in words[0].split("-"))
                    self.mappings.append((start, end, int(words[2], 16), words[5].strip()))

    def link_time(self, path, file_offset):
        for offset, address, length in self.loads(path):
            if offset <= file_offset < offset + length:
                return file_offset - offset + address
        return file_offset

    def loads(self, path):
        """(file offset, address, bytes in the file) of each loadable segment."""
        if path not in self.segments:
            with open(path, "rb") as file:
                header = file.read(64)
                table, size, number = (
                    struct.unpack_from("<Q", header, 32)[0],
                    struct.unpack_from("<H", header, 54)[0],
                    struct.unpack_from("<H", header, 56)[0],
                )
                file.seek(table)
                rows = [struct.unpack_from("<IIQQQQ", file.read(size)) for _ in range(number)]
            self.segments[path] = [(row[2], row[3], row[5]) for row in rows if row[0] == PT_LOAD]
        return self.segments[path]


class Stop(gdb.Breakpoint):
    """Notes the stack and goes on."""

    def __init__(self, out):
        super().__init__("memtrack_stop_here", internal=True)
        self.out, self.modules = out, Modules()

    def stop(self):
        frame = gdb.newest_frame()
        size = int(frame.read_var("bytes"))
        # memtrack_stop_here, then the preloaded function with what is inlined
        # into it: the caller is the frame that follows its physical one.
        frame = frame.older()
        while frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
        frame = frame.older()
        frames = []
        while frame is not None and len(frames) < DEPTH:
            if frame.type() == gdb.TAILCALL_FRAME:
                # No frame of the stack: gdb infers it from what could have jumped.
                frame = frame.older()
                continue
            path, address = self.modules.locate(frame.pc())
            frames.append({
                "name": frame.name(),
                "inline": frame.type() == gdb.INLINE_FRAME,
                "module": path,
                "address": address,
            })
            frame = frame.older()
        self.out.write(json.dumps({"size": size, "frames": frames}) + "\n")
        self.out.flush()
        return False


def main():
    for setting in (
        "breakpoint pending on", "confirm off", "pagination off", "startup-with-shell on",
        "disable-randomization on", "print thread-events off", "debuginfod enabled off",
        "detach-on-fork on", "follow-fork-mode parent", "backtrace past-main on",
    ):
        try:
            gdb.execute("set " + setting)
        except gdb.error:
            pass  # an older gdb without debuginfod
    # gdb adds these; the recorded run has them not.
    gdb.execute("unset environment LINES")
    gdb.execute("unset environment COLUMNS")
    for name in ("GDB_PRELOAD", "GDB_SIZES", "GDB_OUT"):
        gdb.execute("unset environment " + name)
    gdb.execute("set environment LD_PRELOAD " + os.environ["GDB_PRELOAD"])
    gdb.execute("set environment MEMTRACK_STOP " + os.environ["GDB_SIZES"])
    if "GDB_STDIN" in os.environ:
        gdb.execute("unset environment GDB_STDIN")
    with open(os.environ["GDB_OUT"], "w", encoding="utf-8") as out:
        Stop(out)
        redirect = " < " + os.environ["GDB_STDIN"] if "GDB_STDIN" in os.environ else ""
        gdb.execute("run" + redirect)


main()
