#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks a JSON file that run.py wrote: its form, that it is consistent, and that every expected figure is in it. Says
nothing about how fast anything is."""

import argparse
import json
import math
import sys
import xml.etree.ElementTree
from pathlib import Path

STACKFUL = {"fiberrt", "boost_fiber", "state_threads"}
SUITES = {"bare", "cxx20", "boost_context", *STACKFUL}
ECHO = {"fiberrt", "fiberrt_ev", "epoll", "uring", "uring_multi", "libev", "libuv"}
PYTHON = {"fiberrt", "gevent", "greenlet", "asyncio", "uvloop"}
MEMORY = {"10000", "100000", "1000000"}

# The shapes of each benchmark, the subjects that can measure it, and the yardstick.
BENCHES = {
    "yield": ({"same", "different", "1000", "100000", "1000x16", "deep3", "shuffled1000", "shuffled100000"}, SUITES,
              "bare"),
    "parkwake": ({"pair"}, SUITES, "bare"),
    "spawn": ({"warm"}, SUITES, "bare"),
    "lock": ({"free", "free-threads"}, {"bare", "fiberrt", "boost_fiber"}, "bare"),
    "channel": ({"pair"}, STACKFUL, "boost_fiber"),
    "scope": ({"deadline", "child"}, {"bare", "fiberrt"}, "bare"),
    "task": ({"one-main", "one-task", "two-main", "two-task"}, {"bare", "fiberrt", "boost_fiber"}, "bare"),
    "hosted": ({"2", "1000", "task-2", "task-1000"}, {"cxx20", "fiberrt"}, "cxx20"),
    "hooks": ({told + place for told in ("none", "untagged", "pair", "ambient") for place in ("", "-apart")}, {"fiberrt"},
              None),
    "observe": ({"off", "accounting", "trace", "dump10000"}, {"fiberrt"}, None),
    "posix": ({call + by for call in ("fail", "read", "receive", "poll") for by in ("-plain", "-thread", "-fiber")},
              {"fiberrt"}, None),
    "select": ({"receive", "four"}, {"fiberrt"}, None),
    "crosswake": ({"awake", "asleep", "asleep-ring"}, {"bare", "fiberrt"}, "bare"),
    "spawnbatch": ({"100000"}, SUITES, "bare"),
    "scale": ({"10", "100", "1000", "10000", "100000", "1000000"}, SUITES, "bare"),
    "memory": (MEMORY, STACKFUL, None),
    "sleep": ({"100000x10"}, {"fiberrt", "boost_fiber"}, "boost_fiber"),
    "sim": ({"switches", "sleeps", "pipe"}, {"fiberrt"}, None),
    "echo": ({"64x100"}, ECHO, "epoll"),
    "http": ({"1k", "1k_2threads"}, {"fiberrt", "nginx"}, "nginx"),
    "https": ({"1k", "handshake"}, {"fiberrt", "nginx"}, "nginx"),
    "query": ({"100", "1000"}, {"fiberrt", "threads"}, "threads"),
    "python-yield": ({"pair"}, PYTHON, "gevent"),
    "python-spawn": ({"warm"}, PYTHON, "gevent"),
    "python-memory": ({"30000"}, PYTHON, "gevent"),
    "python-import": ({"fresh"}, PYTHON, "gevent"),
    "python-file": ({what + by for what in ("read", "open", "text") for by in ("-plain", "-fiber")}, {"fiberrt"}, None),
    "python-sim": ({"waits", "lines", "fork", "threads"}, {"fiberrt"}, None),
    "python-shrink": ({"1000"}, {"fiberrt"}, None),
    "python-echo": ({"64x50"}, (PYTHON | {"asyncio_protocol", "uvloop_protocol"}) - {"greenlet"}, "uvloop"),
    "python-gunicorn": ({"hello"}, {"fiberrt", "gevent"}, "gevent"),
    "copy": ({"tcp", "file", "pipe"}, {"fiberrt", "fiberrt_ev", "tool"}, "tool"),
}
OURS_ALONE = {"python-memory": {"30000-1MiB"}}  # shapes that only fiberrt has
FURTHER = {"memory": ["", "-vmas", "-guards"], "python-echo": ["", "-total", "-rate"],
           "python-gunicorn": ["", "-rate", "-p99"], "python-sim": ["", "-cpu"]}
MAY_BE_ZERO = {"% of stacks guarded"}
KEYS = {"bench", "subject", "shape", "unit", "median", "min", "max", "runs", "ratio_to", "ratio"}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def check_row(row):
    """The mistakes in one object of the file."""
    if not isinstance(row, dict) or set(row) != KEYS:
        return [f"not an object with the keys {sorted(KEYS)}: {row}"]
    name = f"{row['bench']}/{row['shape']} {row['subject']}"
    wrong = [f"{name}: {key} is no text" for key in ("bench", "subject", "shape", "unit")
             if not isinstance(row[key], str) or not row[key]]
    figures = [row["min"], row["median"], row["max"]]
    least = 0 if row["unit"] in MAY_BE_ZERO else sys.float_info.min
    if not all(is_number(figure) and figure >= least for figure in figures) or figures != sorted(figures):
        wrong.append(f"{name}: not 0 < min <= median <= max: {figures}")
    if not isinstance(row["runs"], int) or isinstance(row["runs"], bool) or row["runs"] < 5:
        wrong.append(f"{name}: runs is {row['runs']}, not an integer of at least 5")
    return wrong


def check(rows, names, subjects):
    if not isinstance(rows, list):
        return ["the file is not a list"]
    wrong = [fault for row in rows for fault in check_row(row)]
    if wrong:
        return wrong
    found = {}
    for row in rows:
        key = (row["bench"], row["shape"], row["subject"])
        if key in found:
            wrong.append(f"{key} is there twice")
        found[key] = row
    expected = {(bench, shape + further, subject)
                for bench, (shapes, able, _) in BENCHES.items() for subject in able & set(subjects)
                for shape in shapes | (OURS_ALONE.get(bench, set()) if subject == "fiberrt" else set())
                if bench in names or f"{bench}/{shape}" in names or not names and not bench.startswith("python-")
                for further in FURTHER.get(bench, [""])}
    # How much a copy of a file has resident is seen only if the copy lasts.
    expected |= {key for key in found if key[0] == "copy" and key[1].endswith("-resident")}
    wrong += [f"{key} is missing" for key in sorted(expected - set(found))]
    if not names or "memory" in names:  # there are shapes that ours alone has
        expected |= {key for key in found if key[0] == "memory"}
    wrong += [f"{key} was not expected" for key in sorted(set(found) - expected)]
    for (bench, shape, subject), row in found.items():
        yardstick = BENCHES[bench][2]
        reference = found.get((bench, shape, yardstick))
        if reference is None:
            if yardstick in subjects:
                continue  # reported as missing
            ratio = None
        else:
            ratio = row["median"] / reference["median"]
            if row["unit"] != reference["unit"]:
                wrong.append(f"{bench}/{shape} {subject}: another unit than the yardstick's")
        if row["ratio_to"] != (yardstick if ratio else None) or (row["ratio"] is None) != (ratio is None) or (
                ratio and not (is_number(row["ratio"]) and math.isclose(row["ratio"], ratio))):
            wrong.append(f"{bench}/{shape} {subject}: the ratio is {row['ratio']} to {row['ratio_to']}, not {ratio}")
    return wrong


def check_charts(directory, benches):
    wrong = []
    for bench in sorted(benches):
        path = directory / f"{bench}.svg"
        try:
            root = xml.etree.ElementTree.parse(path).getroot()
            if not root.tag.endswith("svg"):
                wrong.append(f"{path} is not SVG")
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            wrong.append(f"{path}: {error}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="the benchmarks that are expected, as bench or bench/shape; all if none is given")
    parser.add_argument("--subjects", required=True, metavar="A,B", help="whose figures are expected, all of them")
    parser.add_argument("--svg-dir", type=Path, metavar="DIR", help="check the charts there, too")
    arguments = parser.parse_intermixed_args()
    try:
        rows = json.loads(arguments.file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"{arguments.file}: {error}", file=sys.stderr)
        return 1
    known = {*BENCHES, *(f"{bench}/{shape}" for bench, (shapes, *_) in BENCHES.items()
                         for shape in shapes | OURS_ALONE.get(bench, set()))}
    for name in arguments.names:
        if name not in known:
            parser.error(f"unknown benchmark '{name}'; known: {', '.join(sorted(known))}")
    wrong = check(rows, arguments.names, arguments.subjects.split(","))
    if arguments.svg_dir:
        wrong += check_charts(arguments.svg_dir, {row["bench"] for row in rows if isinstance(row, dict)})
    for fault in wrong:
        print(fault, file=sys.stderr)
    if not wrong:
        print(f"{arguments.file}: {len(rows)} figures, as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
