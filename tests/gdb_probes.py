# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether the library's static probes fire with the right arguments while a tool is attached to them, and only then:
gdb -batch -x gdb_probes.py gdb_probes. gdb is the tool. With FIBERRT_PROBES=1 in the environment, gdb does not say that
it is attached: it sets ordinary breakpoints at the probes' places. The last line is the result.
"""

import os
import re
import sys
from pathlib import Path

import gdb

sys.path.insert(0, str(Path(__file__).parent))
from checks import check, report  # noqa: E402

ARGUMENTS = {"start": 2, "exit": 1, "switch": 2, "park": 4, "wake": 2, "submit": 3, "complete": 4}
PROBES = list(ARGUMENTS)
TEXTS = {("park", 1), ("submit", 1), ("complete", 1)}  # the arguments that are texts
ANNOUNCED = os.environ.get("FIBERRT_PROBES") != "1"
# By libev, the library waits until the pipe is readable, and reads then.
OPERATION, RESULT = ("poll", 1) if os.environ.get("FIBERRT_BACKEND") == "ev" else ("read", 1)

fired = []


class Probe(gdb.Breakpoint):
    """Notes the arguments, and lets the program run on."""

    def __init__(self, probe, place):
        super().__init__(place, internal=True)
        self.probe = probe

    def stop(self):
        values = [gdb.parse_and_eval(f"$_probe_arg{i}") for i in range(ARGUMENTS[self.probe])]
        char = gdb.lookup_type("char").pointer()
        fired.append((self.probe, *(value.cast(char).string() if (self.probe, i) in TEXTS else int(value)
                                    for i, value in enumerate(values))))  # fmt: skip
        return False


def set_probes(announced):
    """Sets the breakpoints. A probe may have several places."""
    listed = gdb.execute("info probes stap fiberrt", to_string=True)
    found = re.findall(r"^stap +fiberrt +(\w+) +(0x\w+)", listed, re.M)
    check("the library has the probes, and no others", {name for name, _ in found} == set(PROBES), listed)
    if announced:
        return [Probe(name, "-probe-stap fiberrt:" + name) for name in PROBES]
    return [Probe(name, "*" + address) for name, address in found]


def continue_to(function):
    gdb.execute("continue")
    check(f"the program is in {function}", gdb.newest_frame().name() == function)


def check_attached(what, wanted):
    semaphores = [int(gdb.parse_and_eval(f"*(unsigned short *)&fiberrt_{name}_semaphore")) for name in PROBES]
    check(what, [one > 0 for one in semaphores] == [wanted] * len(PROBES), str(semaphores))


def number(expression):
    return int(gdb.parse_and_eval(expression))


def has(what, *event):
    check(what, event in fired, "\n".join(map(str, fired)))


def check_events():
    reader, writer, pipe = number("reader.id"), number("writer.id"), number("ends[0]")
    main = next((event[1] for event in fired if event[0] == "switch" and event[2] == reader), 0)
    has("start: a fiber and its function", "start", reader, number("(unsigned long)&reads"))
    has("start: another fiber", "start", writer, number("(unsigned long)&writes"))
    has("switch: from the main flow to the fiber", "switch", main, reader)
    has("switch: and back", "switch", reader, main)
    has("park: a lock", "park", reader, "waits for a lock", -1, number("(unsigned long)&mutex"))
    has("wake: by the main flow, which unlocks", "wake", reader, main)
    has("submit: the operation", "submit", reader, OPERATION, pipe)
    has("park: the operation", "park", reader, "waits for " + OPERATION, pipe, 0)
    has("complete: the operation, with its result", "complete", reader, OPERATION, pipe, RESULT)
    has("wake: by the end of the operation", "wake", reader, 0)
    has("park: a yield", "park", reader, "waits for a wakeup", -1, 0)
    joins = [event for event in fired if event[:4] == ("park", main, "joins fiber", -1) and event[4] in (reader, writer)]
    check("park: a join", joins, "\n".join(map(str, fired)))
    has("park: a sleep", "park", main, "sleeps", -1, 0)
    has("exit: the fiber", "exit", reader)
    has("exit: another fiber", "exit", writer)
    order = [event[0] for event in fired if event[1] == reader and event[0] in ("start", "submit", "complete", "exit")]
    check("the fiber's events are in order", order == ["start", "submit", "complete", "exit"], str(order))
    starts = [event for event in fired if event[0] == "start" and event[1] in (reader, writer)]
    check("each fiber starts once, also one that waits before its first switch to another", len(starts) == 2, str(starts))
    function = number("(unsigned long)&computes")
    tasks = [event[1] for event in fired if event[0] == "start" and event[2] == function]
    check("start: the task of a pool", len(tasks) == 1, "\n".join(map(str, fired)))
    has("exit: the task", "exit", *tasks)


def main():
    # gdb counts as attached while its breakpoints are in the program's memory.
    for setting in ("confirm off", "debuginfod enabled off", "breakpoint always-inserted on"):
        gdb.execute("set " + setting)
    for function in ("before_all", "after_all", "without"):
        gdb.Breakpoint(function, internal=True)
    try:
        gdb.execute("run")
    except gdb.error as error:
        print("SKIPPED:", error)
        return
    check_attached("no tool is attached at first", False)
    probes = set_probes(ANNOUNCED)
    check_attached("a tool is attached to each probe, if it says so", ANNOUNCED)
    continue_to("after_all")
    check_events()
    for probe in probes:
        probe.delete()
    check_attached("no tool is attached any more", False)
    continue_to("without")
    del fired[:]
    set_probes(False)
    gdb.execute("continue")
    check("the program ends well", number("$_exitcode") == 0)
    passed = {event[0] for event in fired}
    check("the probes are passed with FIBERRT_PROBES=1, though no tool says that it is attached" if not ANNOUNCED else
          "no probe is passed after the tool has left", passed == (set() if ANNOUNCED else set(PROBES)), str(passed))  # fmt: skip
    print("The result is", report())


main()
