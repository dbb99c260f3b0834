#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the benchmark subjects interleaved and compares them: a table, JSON, and bars as SVG. See README.md here."""

import argparse
import json
import sys
from pathlib import Path

from runner.benches import BENCHES, GROUPS, OURS, ROOT
from runner.charts import draw, draw_curve
from runner.running import run_all
from runner.subjects import SUBJECTS, find_subjects, select_runs
from runner.table import beyond_bounds, print_table, summarize


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="benchmarks to run, as bench or bench/shape; python: those of the Python package; all "
                             "but these if none is given. Known: " + ", ".join(BENCHES))
    parser.add_argument("--build-dir", required=True, type=Path, metavar="DIR",
                        help="the build tree; the subjects are in its directory bench")
    parser.add_argument("--peers-dir", type=Path, metavar="DIR", default=ROOT / "build" / "peers",
                        help="where nginx is unpacked, if it is not installed (default: %(default)s)")
    parser.add_argument("--python", type=Path, metavar="FILE", default=ROOT / "build" / "bench" / "python" / "venv/bin/python",
                        help="the interpreter that has the Python package and its peers (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as JSON")
    parser.add_argument("--svg-dir", type=Path, metavar="DIR", default=ROOT / "build" / "bench",
                        help="where the charts go (default: %(default)s)")
    parser.add_argument("--repetitions", type=int, metavar="N", help="5 or more (default: 7, of long benchmarks 5)")
    parser.add_argument("--subjects", metavar="A,B",
                        help="run these subjects only. Known: " + ", ".join(SUBJECTS))
    parser.add_argument("--min-time", type=float, default=0.05, metavar="SECONDS",
                        help="the least time that each run measures; servers are measured longer "
                             "(default: %(default)s)")
    arguments = parser.parse_intermixed_args()
    if arguments.repetitions is not None and arguments.repetitions < 5:
        parser.error("--repetitions: 5 is the least that gives a median worth its name")
    if not 0 < arguments.min_time <= 60:
        parser.error("--min-time: more than 0 and at most 60 seconds")
    arguments.names = [name for given in arguments.names for name in GROUPS.get(given, [given])]
    arguments.subjects = arguments.subjects.split(",") if arguments.subjects else list(SUBJECTS)
    for subject in arguments.subjects:
        if subject not in SUBJECTS:
            parser.error(f"unknown subject '{subject}'; known: {', '.join(SUBJECTS)}")
    return parser, arguments


def main():
    parser, arguments = parse_arguments()
    if not arguments.build_dir.is_dir():
        parser.error(f"--build-dir: {arguments.build_dir} is not a directory")
    if arguments.json and not arguments.json.resolve().parent.is_dir():
        parser.error(f"--json: {arguments.json.parent} is not a directory")
    for name in arguments.names:  # checked before the search for subjects: a misspelt name is the caller's error
        if name.split("/")[0] not in BENCHES:
            parser.error(f"unknown benchmark '{name}'; known: {', '.join(BENCHES)}")
    arguments.names = arguments.names or [name for name in BENCHES if name not in GROUPS["python"]]
    benches = dict.fromkeys(name.split("/")[0] for name in arguments.names)
    found, missing = find_subjects(arguments, benches)
    for (subject, kind), reason in missing.items():
        print(f"LEFT OUT: {subject} ({kind.__name__}): {reason}", file=sys.stderr)
    runs = select_runs(parser, arguments.names, found)
    if not runs:
        print(f"run.py: nothing that is built in {arguments.build_dir} measures that", file=sys.stderr)
        return 1

    figures, failures, left_out, stretch = run_all(found, runs, arguments.repetitions)
    rows = summarize(figures)
    print_table(rows, failures, stretch)

    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"JSON: {arguments.json}")
    arguments.svg_dir.mkdir(parents=True, exist_ok=True)
    for bench in dict.fromkeys(row["bench"] for row in rows):
        path = arguments.svg_dir / f"{bench}.svg"
        of_one_unit = [row for row in rows if row["bench"] == bench and row["unit"] == BENCHES[bench].unit]
        (draw_curve if BENCHES[bench].curve else draw)(bench, of_one_unit, path)
        print(f"Chart: {path}")
    for (subject, kind), reason in missing.items():
        print(f"LEFT OUT: {subject} ({kind.__name__}): {reason}")
    for (bench, shape, subject), reason in left_out.items():
        print(f"LEFT OUT: {subject} {bench}/{shape}: {reason}")
    for (bench, shape, subject), reason in failures.items():
        print(f"FAILED: {subject} {bench}/{shape}: {reason}")
    beyond = list(beyond_bounds(rows))
    for text in beyond:
        print(f"ABOVE ITS BOUND: {text}")
    lacking = {*(subject for subject, _ in missing), *(subject for _, _, subject in failures)}
    return 1 if beyond or lacking.intersection(OURS) else 0


if __name__ == "__main__":
    sys.exit(main())
