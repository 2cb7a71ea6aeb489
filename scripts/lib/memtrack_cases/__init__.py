"""Truth by construction: programs with known call sites, sizes and leaks.

A case is a folder with `build.sh OUT`, which writes binaries into OUT only, and
`expect.json`, which says what is right. For each variant the program runs under
`memtrack capture`, the artifact is symbolized, and `memtrack report --json
--detail` is turned into an *observation*: one entry for each call stack,
allocation function, size and process. The observation is compared with
`expect.json`; what a comparison of frames and numbers cannot say (rules, names,
processes, notes) is judged by `judges.py`. A statement of `expect.json` that
nothing here judges is a fault, never a pass.

| module       | what it does                                                 |
| ------------ | ------------------------------------------------------------ |
| `expect.py`  | reads `expect.json`, refuses keys that it does not know      |
| `build.py`   | the tools that a `build.sh` needs, building, `self_check`    |
| `record.py`  | capture, symbolize, report of one variant                    |
| `observe.py` | memtrack's JSON to an observation file                       |
| `compare.py` | observation against expectation                              |
| `judges.py`  | one function for each rule in words, and for the other keys  |
| `pages.py`   | the text that a reader of a page sees                        |
| `cli.py`     | arguments, the loop, the lines printed                       |

`pending.txt` lists the cases that cannot pass yet, each with its reason. They
run all the same; their faults are printed but do not fail the run, and one that
passes is called out so that the list shrinks.
"""


class Fault(Exception):
    """Something is wrong with a case or with what memtrack made of it."""
