#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts the instructions per yield, wake and spawn by Callgrind, and compares them with those recorded in counts.json:
more than 5 % away, either way, is a failure, so that gains are recorded too.

Usage: counts.py COUNTS          COUNTS is the program made of counts.c (build/release/tests/counts)
       counts.py COUNTS record   writes counts.json anew
Ends with 77 if there is no valgrind, or if the program was made otherwise than the recorded one: then the figures cannot be
compared.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

RECORD = Path(__file__).with_name("counts.json")
SHAPES = ("yield", "wake", "spawn")
FEW, MANY = 2000, 22000


def instructions(program, shape, count):
    """Of the whole process."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, shape, str(count)]
    try:
        said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    except FileNotFoundError:
        print("NOT COUNTED: there is no valgrind (package valgrind)")
        sys.exit(77)
    collected = re.search(r"^==\d+== Collected : (\d+)$", said, re.MULTILINE)
    return int(collected[1]) if collected else sys.exit(f"FAILED: valgrind counted nothing for {shape}")


def per_unit(program, shape):
    """The difference of two runs, so that start and end count for nothing."""
    return round((instructions(program, shape, MANY) - instructions(program, shape, FEW)) / (MANY - FEW), 2)


def main(program, action="compare"):
    recorded = json.loads(RECORD.read_text())
    made_with = subprocess.run([program, "made-with"], capture_output=True, text=True, check=True).stdout.strip()
    if action == "record":
        recorded |= {"made with": made_with, **{shape: per_unit(program, shape) for shape in SHAPES}}
        RECORD.write_text(json.dumps(recorded, indent=2) + "\n")
        print(RECORD.read_text(), end="")
        return 0
    if made_with != recorded["made with"]:
        print(f"NOT COMPARED: made with {made_with}, but the figures were recorded with {recorded['made with']}")
        return 77
    failed = False
    for shape in SHAPES:
        now, was = per_unit(program, shape), recorded[shape]
        far = not was * 0.95 <= now <= was * 1.05
        failed |= far
        verdict, more = "FAILED" if far else "passed", (now / was - 1) * 100
        print(f"{verdict} {shape}: {now} instructions, recorded {was} ({more:+.1f} %)")
    if failed:
        print("If that is meant: bench/counts.py build/release/tests/counts record")
    return int(failed)


sys.exit(main(*sys.argv[1:]))
