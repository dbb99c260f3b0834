#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks that the data's way through the code goes down only, by the includes of the sources and by the symbols of the
objects, that cycles of calls between objects stay small and have a reason, and that time and chance are asked for in one
place. structure.py prints the figures.
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# The folders that each folder may include and call, besides itself. From the bottom up.
BELOW = {
    "base": "",
    "arch": "base core",  # the switch ends a fiber's function in fiberrt_fiber_ended, and unwinders ask fiberrt_personality
    "core": "base arch",
    "stackless": "base arch core",
    "pool": "base arch core",
    "sync": "base arch core stackless",
    "io": "base arch core stackless",
    "sim": "base core io",
    "backend": "base core io sim",
    "embed": "base arch core io",
    "record": "base arch core",
    "debug": "base core stackless pool sync io backend embed record",
    "trace": "base core sync io sim record debug",
    "agent": "base core pool sim record debug",
    "fork": "base core stackless pool sync io sim embed record debug trace agent",
    "api": "base arch core stackless pool sync io sim backend embed record debug trace agent fork",
    "posix": "base api sim",
}
# Circles of calls between objects: the most objects that one may have, and the ones that there are, by one object of
# each, with the reason. docs/design.md says more.
LARGEST_CIRCLE = 13
CIRCLES = {
    "core/scheduler.cc": "the spine: a fiber that parks runs others, whose ends and wakes change its queue",
    "io/io.cc": "uses of descriptors: a use opens the I/O of its cord, whose end stops the uses that are left",
    "embed/locals.cc": "fiber-local values and ambient ones: to set a value puts it into force, which looks at values",
    "pool/pool.cc": "a pool and its workers: each calls the other",
    "posix/adopt.cc": "libraries loaded later: the function that replaces dlopen adopts the library that it loads",
    "sync/mutex.cc": "a mutex and its holder's record: the end of a holder passes the mutex on",
    "posix/wait.cc": "a wait keeps OpenSSL's errors; the search for OpenSSL knows this library by its read, which waits",
    "record/recorder.cc": "the recorder tells accounting of events, and accounting turns the recorder on",
    "trace/session.cc": "a trace: the session opens the cords' taps, and a full ring in a simulation drains into the session",
    "sim/sim.cc": "the simulation: its choices let cords go on, and cords that go on make choices",
}
# Functions that read a clock or a random source. The simulation owns time and chance, so only core/environment.cc may
# call them; threads that a simulation does not have wait by the real time; and adopted libraries get the time that their
# thread lives in.
CHANCE = re.compile(
    "clock_gettime|clock_getres|gettimeofday|time|times|clock|ftime|timespec_get|getrandom|getentropy|arc4random[a-z_]*"
    "|rand|rand_r|random|random_r|srand|srandom|[dejlmn]*rand48(_r)?"
)
MAY_ASK = ("core/environment.cc", "trace/clocks.cc", "io/offload.cc", "posix/simulated_clock.cc")


def folder(path):
    return path.split("/")[0]


def check_includes(source):
    wrong = []
    files = sorted(path for path in (source / "src").glob("*/*") if path.suffix in (".cc", ".h", ".S"))
    for path in files:
        name = str(path.relative_to(source / "src"))
        allowed = {folder(name), *BELOW[folder(name)].split()}
        for included in re.findall(r'^#include "([a-z_0-9]+/[^"]*)"', path.read_text(), re.MULTILINE):
            if folder(included) not in allowed:
                wrong.append(f"src/{name} may not include {included}")
    return files, wrong


def name_of(path):
    """The path, below src/, of an object's source."""
    return re.sub(r"\.o$", "", re.sub(r".*\.dir/(\./)?", "", path))


def symbols(nm, objects):
    """The symbols that each object defines and needs, by the path of its source below src/."""
    defined, wanted = {}, defaultdict(set)
    listed = subprocess.run([nm, "-A", "-C", *objects], capture_output=True, text=True, check=True).stdout
    for path, kind, symbol in re.findall(r"^(.*?\.o):[0-9a-f ]* ([A-Za-z]) (.*)$", listed, re.MULTILINE):
        if kind == "U":
            wanted[name_of(path)].add(symbol)
        elif kind in "TDBR":
            defined[symbol] = name_of(path)
    return defined, wanted


def circles(calls):
    """Tarjan's strongly connected components of more than one object."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in sorted(calls[node]):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(calls):
        if node not in order:
            visit(node)
    return sorted(found, key=len, reverse=True)


def examine(source, nm, objects):
    """The files of src/, the cycles of calls, the number of symbols that each folder takes from each other, and the
    mistakes."""
    objects = [path for path in objects if path.endswith(".o")]
    files, wrong = check_includes(source)
    defined, wanted = symbols(nm, objects)
    names = {name_of(path) for path in objects}
    calls = {name: set() for name in names}
    taken = defaultdict(set)
    asking = set()
    for name in names:
        for symbol in wanted[name]:
            if CHANCE.fullmatch(symbol.partition("@")[0]):
                asking.add(name)
                if name not in MAY_ASK:
                    wrong.append(f"src/{name} may not call {symbol}: core/environment.h has time and chance")
            definer = defined.get(symbol)
            if not definer or definer == name:
                continue
            calls[name].add(definer)
            taken[folder(name), folder(definer)].add(symbol)
            if folder(definer) not in {folder(name), *BELOW[folder(name)].split()}:
                wrong.append(f"src/{name} may not call {symbol} of src/{definer}")
    found = circles(calls)
    for circle in found:
        if not reason_of(circle):
            wrong.append(f"this cycle of calls has no reason in tests/layers.py: {' '.join(circle)}")
        if len(circle) > LARGEST_CIRCLE:
            wrong.append(f"a cycle of {len(circle)} objects is larger than {LARGEST_CIRCLE}")
    if len(files) < 20 or len(names) < 20 or not taken["api", "core"]:
        wrong.append(f"only {len(files)} files and {len(names)} objects were looked at")
    if MAY_ASK[0] not in asking:
        wrong.append(f"not even src/{MAY_ASK[0]} is seen to read a clock")
    return files, found, taken, wrong


def reason_of(circle):
    return next((CIRCLES[name] for name in circle if name in CIRCLES), None)


def arguments_of_build(description):
    """The arguments of a check of the sources and the objects made from them."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("source", type=Path, help="the folder of the sources")
    parser.add_argument("nm", help="the program that lists the symbols of an object")
    parser.add_argument("objects", nargs="+", metavar="object", help="the library's objects; other files are passed over")
    return parser.parse_args()


def main():
    arguments = arguments_of_build(__doc__)
    files, found, taken, wrong = examine(arguments.source, arguments.nm, arguments.objects)
    for circle in found:
        print(f"cycle of {len(circle)}: {' '.join(circle)}\n    {reason_of(circle) or 'NO REASON'}")
    # `core` takes symbols only from folders below it, and so on: the number of symbols that a folder takes.
    print(f"\n{'takes symbols of:':18}" + "".join(f"{name:>10}" for name in BELOW))
    for user in BELOW:
        row = "".join(f"{len(taken[user, owner]) or '.':>10}" for owner in BELOW)
        print(f"{user:18}{row}")
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
