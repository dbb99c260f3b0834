#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes programs of the examples in fiberrt.h, fiberrt_dl.h and fiberrt.7: examples.c and fiberrt.7.c in a folder. Also
checks that each page of several functions has an example in docs/manual/examples.

manual_examples.c has the code around each example: a line //@example WORDS is the place of the example that begins with
these words. (Parts of an example with an empty line between them are several.)

Usage: manual_examples.py SOURCE_DIR OUT
"""

import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
source_dir, out = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(source_dir / "docs/manual"))
from check import texts, without_example
from header import read_header, structure
from manual import dl_header
from pages import Names

header_path = source_dir / "include/fiberrt.h"
header = read_header(header_path.read_text(encoding="utf-8"), dl_header(header_path))
missing = without_example(Names(header))
if missing:
    sys.exit("docs/manual/examples: " + "; ".join(missing))
examples = {}
for where, lines in texts(header):
    for kind, content in structure(lines):
        if kind == "code":
            for part in "\n".join(content).split("\n\n"):
                examples[part.strip("\n")] = where

template = (source_dir / "tests/manual_examples.c").read_text(encoding="utf-8")


def example(match):
    indent, words = match.groups()
    found = [part for part in examples if part.startswith(words)]
    if len(found) != 1:
        sys.exit(f"manual_examples.c: {len(found)} examples begin with: {words}")
    del examples[found[0]]
    return "\n".join(indent + line for line in found[0].split("\n"))


program = re.sub(r"^( *)//@example (.*)$", example, template, flags=re.M)
for part, where in examples.items():
    print(f"{where}: this example is not tested (tests/manual_examples.c):\n{part}")
if examples:
    sys.exit(1)
(out / "examples.c").write_text(program, encoding="utf-8")

page = (source_dir / "docs/manual/fiberrt.7").read_text(encoding="utf-8")
blocks = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed$", page, flags=re.M | re.S)
if len(blocks) != 1:
    sys.exit(f"fiberrt.7 has {len(blocks)} examples, and not one")
(out / "fiberrt.7.c").write_text(blocks[0].replace("\\e", "\\"), encoding="utf-8")
