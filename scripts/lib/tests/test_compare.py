"""The judge is judged: what must fit fits, and each way to be wrong is found.

Run with: python3 -m unittest discover scripts/lib/tests
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from memtrack_cases import Fault  # noqa: E402
from memtrack_cases.compare import base, compare, mismatch  # noqa: E402
from memtrack_cases.expect import Case, Variant, known  # noqa: E402
from memtrack_cases.observe import callers  # noqa: E402


def frame(name, file="a.c", line=1, inline=False, signal=False):
    return {"fn": name, "file": file, "line": line, "inline": inline, "signal": signal, "module": "prog"}


def entry(**more):
    fields = {"fn": "malloc", "size": 70, "calls": 1, "live_calls": 0, "failed": 0, "pid": 1, "truncated": False}
    return {**fields, "stack": [frame("work"), frame("main"), frame("_start")], **more}


def faults(site, *entries, seen_totals=None, given=None, **expect):
    case = Case(pathlib.Path("case"), {"sites": [site], **expect})
    seen = {"allocs": list(entries), "totals": seen_totals or {}}
    return compare(case, Variant("default", given or {}), seen)


class Stacks(unittest.TestCase):
    site = {"id": "s", "size": 70, "stack": [{"fn": "work"}, {"fn": "main"}, {"gap": 2}, {"fn": "_start"}]}

    def test_a_gap_takes_none_to_all_of_its_frames(self):
        between = [frame("one"), frame("two")]
        for number in range(3):
            stack = [frame("work"), frame("main"), *between[:number], frame("_start")]
            self.assertEqual(faults(self.site, entry(stack=stack)), [])
        stack = [frame("work"), frame("main"), *between, frame("three"), frame("_start")]
        self.assertEqual(len(faults(self.site, entry(stack=stack))), 1)

    def test_a_missing_a_strange_and_a_further_frame_are_found(self):
        whole = entry()["stack"]
        for stack in ([], whole[1:], whole[:-1], [*whole, frame("above")], [frame("decoy"), *whole[1:]]):
            self.assertEqual(len(faults(self.site, entry(stack=stack))), 1, stack)

    def test_a_cut_stack_is_a_prefix_where_it_may_be_one(self):
        cut = entry(stack=[frame("work"), frame("main")], truncated=True)
        self.assertEqual(len(faults(self.site, cut)), 1)
        self.assertEqual(faults({**self.site, "may_truncate": True}, cut), [])
        wrong = entry(stack=[frame("work"), frame("other")], truncated=True)
        self.assertEqual(len(faults({**self.site, "may_truncate": True}, wrong)), 1)
        self.assertEqual(len(faults({**self.site, "must_truncate": True}, entry())), 1)

    def test_lines_inlines_and_signals_are_compared(self):
        for wanted, good, bad in (
            ({"fn": "f", "line": 7}, frame("f", line=7), frame("f", line=8)),
            ({"fn": "f", "file": "b.c"}, frame("f", file="/x/b.c"), frame("f")),
            ({"fn": "f", "inline": True}, frame("f", inline=True), frame("f")),
            ({"fn": "f", "nofile": True}, frame("f", file=None), frame("f")),
            ({"signal": True}, frame(None, signal=True), frame("handler")),
            ({"unknown": True}, frame(None), frame("f")),
            ({"any_of": ["f", "g"]}, frame("g"), frame("h")),
        ):
            self.assertIsNone(mismatch([wanted], [good], True, False), wanted)
            self.assertIsNotNone(mismatch([wanted], [bad], True, False), wanted)

    def test_repeats_are_counted(self):
        wanted = [{"repeat": 3, "frame": {"fn": "down"}}]
        for number in range(2, 5):
            fits = mismatch(wanted, [frame("down")] * number, True, False) is None
            self.assertEqual(fits, number == 3)

    def test_names_that_must_not_be_there_are_found(self):
        self.assertEqual(len(faults({**self.site, "never": ["main"]}, entry())), 1)
        self.assertEqual(len(faults(self.site, entry(), name_never=["^mai"])), 1)


class Numbers(unittest.TestCase):
    site = {"id": "s", "size": 70, "calls": 2, "live_calls": 1, "failed": 0}

    def test_calls_of_several_stacks_add_up(self):
        self.assertEqual(faults(self.site, entry(), entry(live_calls=1)), [])
        self.assertEqual(len(faults(self.site, entry())), 2)
        self.assertEqual(len(faults(self.site, entry(), entry(live_calls=1, failed=1))), 1)

    def test_a_site_that_was_not_seen_is_a_fault(self):
        self.assertEqual(len(faults({"id": "s", "size": 71}, entry())), 1)

    def test_totals_and_functions(self):
        site = {"id": "s", "size": 70}
        self.assertEqual(faults(site, entry(), seen_totals={"allocs": 1}, totals={"allocs": 1}), [])
        self.assertEqual(len(faults(site, entry(), seen_totals={"allocs": 2}, totals={"allocs": 1})), 1)
        self.assertEqual(len(faults(site, entry(), totals={"failed": 0})), 1)
        case = {"id": "s", "size": 70, "fn": ["calloc", "realloc"]}
        self.assertEqual(len(faults(case, entry())), 1)

    def test_a_variant_can_leave_a_site_out(self):
        given = {"sites": {"s": {"skip": True}}}
        self.assertEqual(faults(self.site, given=given), [])


class Words(unittest.TestCase):
    def test_names_lose_parameters_arguments_and_clone_suffixes(self):
        for name, wanted in (
            ("f(int)", "f"),
            ("ns::T<int>::g(char)", "ns::T::g"),
            ("h.constprop.0", "h"),
            ("h.part.0.isra.1", "h"),
            ("(anonymous namespace)::work(int)", "{anonymous}::work"),
            ("operator new(unsigned long)", "operatornew"),
        ):
            self.assertEqual(base(name), wanted)

    def test_unknown_keys_are_refused(self):
        with self.assertRaises(Fault):
            known("expect.json", "site s", {"id": "s", "sise": 70}, {"id", "size"})

    def test_one_physical_frame_is_dropped_with_its_inlines(self):
        shown = [{"inline": True}, {"inline": False}, {"inline": True}, {"inline": False}]
        self.assertEqual(callers(shown), shown[2:])
        with self.assertRaises(Fault):
            callers(shown[:1])


if __name__ == "__main__":
    unittest.main()
