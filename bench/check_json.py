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

SHAPES = {
    "yield": {"same", "different", "1000", "100000", "1000x16", "deep3"},
    "parkwake": {"pair"},
    "spawn": {"warm"},
}
KEYS = {"bench", "subject", "shape", "unit", "median", "min", "max", "runs", "ratio_to", "ratio"}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def check_row(row):
    """What is wrong with one object of the file."""
    if not isinstance(row, dict) or set(row) != KEYS:
        return [f"not an object with the keys {sorted(KEYS)}: {row}"]
    name = f"{row['bench']}/{row['shape']} {row['subject']}"
    wrong = [f"{name}: {key} is no text" for key in ("bench", "subject", "shape", "unit")
             if not isinstance(row[key], str) or not row[key]]
    figures = [row["min"], row["median"], row["max"]]
    if not all(is_number(figure) and figure > 0 for figure in figures) or figures != sorted(figures):
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
    expected = {(bench, shape, subject) for bench, shapes in SHAPES.items() for shape in shapes for subject in subjects
                if not names or bench in names or f"{bench}/{shape}" in names}
    wrong += [f"{key} is missing" for key in sorted(expected - set(found))]
    wrong += [f"{key} was not expected" for key in sorted(set(found) - expected)]
    for (bench, shape, subject), row in found.items():
        yardstick = found.get((bench, shape, "bare"))
        if yardstick is None:
            continue  # reported as missing
        ratio = row["median"] / yardstick["median"]
        if row["ratio_to"] != "bare" or not is_number(row["ratio"]) or not math.isclose(row["ratio"], ratio):
            wrong.append(f"{bench}/{shape} {subject}: the ratio is {row['ratio']} to {row['ratio_to']}, not {ratio}")
        if row["unit"] != yardstick["unit"]:
            wrong.append(f"{bench}/{shape} {subject}: another unit than the yardstick's")
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
    known = {*SHAPES, *(f"{bench}/{shape}" for bench, shapes in SHAPES.items() for shape in shapes)}
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
