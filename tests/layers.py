#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks that the data's way through the code goes down only, by the includes of the sources and by the symbols of the
objects, and that circles of calls between objects stay small and have a reason. Prints the table of the structure.

Usage: layers.py SOURCE_DIR NM OBJECT...
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# What each folder may include and call, besides itself. From the bottom up.
BELOW = {
    "base": "",
    "arch": "core",  # the switch ends a fiber's function in fiberrt_fiber_ended, and unwinders ask fiberrt_personality
    "core": "base arch",
    "stackless": "base arch core",
    "pool": "base arch core",
    "sync": "base arch core stackless",
    "io": "base arch core stackless",
    "sim": "base core io",
    "backend": "base core io sim",
    "embed": "base arch core io",
    "debug": "base core stackless pool sync io backend embed",
    "fork": "base core stackless pool sync io sim embed debug",
    "api": "base arch core stackless pool sync io sim backend embed debug fork",
}
# Circles of calls between objects: the most objects that one may have, and the ones that there are, by one object of
# each, with the reason. docs/design.md says more.
LARGEST_CIRCLE = 13
CIRCLES = {
    "core/relay.cc": "the spine: a fiber that parks runs others, whose ends and wakes change the queue that it parked in",
    "io/io.cc": "uses of descriptors: a use opens the I/O of its cord, whose end stops the uses that are left",
    "embed/locals.cc": "fiber-local values and ambient ones: to set a value puts it into force, which looks at values",
    "pool/pool.cc": "a pool and its workers: each calls the other",
    "sync/mutex.cc": "a mutex and its holder's record: the end of a holder passes the mutex on",
    "sim/sim.cc": "the simulation: its choices let cords go on, and cords that go on make choices",
}
MOST_LINES = 450


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


def symbols(nm, objects):
    """The symbols that each object defines and wants, by the path of its source below src/."""
    defined, wanted = {}, defaultdict(set)
    for path in objects:
        name = re.sub(r"\.o$", "", re.sub(r".*\.dir/(\./)?", "", path))
        lines = subprocess.run([nm, "-C", path], capture_output=True, text=True, check=True).stdout.splitlines()
        for line in lines:
            kind, symbol = line[17:18], line[19:]
            if kind == "U":
                wanted[name].add(symbol)
            elif kind in "TDBR":
                defined[symbol] = name
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


def main():
    source, nm, objects = Path(sys.argv[1]), sys.argv[2], [path for path in sys.argv[3:] if path.endswith(".o")]
    files, wrong = check_includes(source)
    defined, wanted = symbols(nm, objects)
    names = {re.sub(r"\.o$", "", re.sub(r".*\.dir/(\./)?", "", path)) for path in objects}
    calls = {name: set() for name in names}
    taken = defaultdict(set)
    for name in names:
        for symbol in wanted[name]:
            definer = defined.get(symbol)
            if not definer or definer == name:
                continue
            calls[name].add(definer)
            taken[folder(name), folder(definer)].add(symbol)
            if folder(definer) not in {folder(name), *BELOW[folder(name)].split()}:
                wrong.append(f"src/{name} may not call {symbol} of src/{definer}")
    found = circles(calls)
    for circle in found:
        reason = [CIRCLES[name] for name in circle if name in CIRCLES]
        print(f"circle of {len(circle)}: {' '.join(circle)}\n    {reason[0] if reason else 'NO REASON'}")
        if not reason:
            wrong.append(f"this circle of calls has no reason in tests/layers.py: {' '.join(circle)}")
        if len(circle) > LARGEST_CIRCLE:
            wrong.append(f"a circle of {len(circle)} objects is larger than {LARGEST_CIRCLE}")
    lengths = {path: len(path.read_text().splitlines()) for path in files}
    # `core` takes symbols of nothing but what is below it, and so on: the number of symbols that a folder takes.
    print(f"\n{'takes symbols of:':18}" + "".join(f"{name:>10}" for name in BELOW))
    for user in BELOW:
        row = "".join(f"{len(taken[user, owner]) or '.':>10}" for owner in BELOW)
        print(f"{user:18}{row}")
    print(f"\nlargest circle of calls between objects      {max(map(len, found), default=0)}")
    print(f"files over {MOST_LINES} lines in src/                  "
          f"{sum(lines > MOST_LINES for lines in lengths.values())}")
    for path, lines in sorted(lengths.items(), key=lambda item: -item[1]):
        if lines > MOST_LINES:
            print(f"    {path.relative_to(source)} {lines}")
    if len(files) < 20 or len(names) < 20 or not taken["api", "core"]:
        wrong.append(f"only {len(files)} files and {len(names)} objects were looked at")
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
