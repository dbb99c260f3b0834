#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks the map in CONTRIBUTING.md: each function or type that it names is in the file that it names for it.
"""

import argparse
import re
import sys
from pathlib import Path

FILE = r"\[(src/[^\]]+)\]\([^)]*\)"
NAME = r"`([A-Za-z_]+(?:::[A-Za-z_]+)?)`"


def is_in(name, text):
    """Whether a function or a type of this name is declared or defined in the text."""
    name = name.split("::")[-1]
    return re.search(rf"(?:^|[\s*&:~]){name}(?:\(|\s*=|:$)|(?:struct|class|enum class) (?:alignas\(\w+\) )?{name}\b", text, re.MULTILINE)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="the folder of the sources")
    source = parser.parse_args().source
    text = (source / "CONTRIBUTING.md").read_text()
    begin = text.index("## The sources in ten minutes")
    section = re.sub(r"\s+", " ", text[begin : text.index("\n## ", begin)])
    pairs = [(name, path) for name, path in re.findall(NAME + r"(?:,[^`\[]*,)? in " + FILE, section)]
    pairs += [(name, path) for path, name in re.findall(FILE + r",(?: above all)? " + NAME, section)]
    wrong = [f"{name} is not in {path}" for name, path in pairs
             if not (source / path).is_file() or not is_in(name, (source / path).read_text())]
    if len(pairs) < 20:
        wrong.append(f"only {len(pairs)} names were found in the map")
    print("\n".join(wrong) or f"{len(pairs)} names of CONTRIBUTING's map are where it says")
    return 1 if wrong else 0


sys.exit(main())
