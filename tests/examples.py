#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks the files of examples/ except those of httpd, httpsd and troubled: each has at most 60 lines, opens with a comment that
gives its name and what it shows, and is in README.md. Programs are built, listed in the order of the table of README.md,
and run by examples_test, except troubled, which troubled.py runs. Usage: examples.py SOURCE_DIR"""

import re
import sys
from pathlib import Path

MOST_LINES = 60
source_dir = Path(sys.argv[1])
folder = source_dir / "examples"
readme = (folder / "README.md").read_text(encoding="utf-8")
cmake = (folder / "CMakeLists.txt").read_text(encoding="utf-8")
test = (source_dir / "tests/examples_test.cc").read_text(encoding="utf-8")
test = re.sub(r"^\s*//.*$|\s//\s.*$", "", test, flags=re.M)
run = set(re.findall(r'\b(?:Example|ExpectOutput)\("(\w+)"', test))
loops = re.search(r"\bEmbed, testing::Values\((.*?)\)", test)
run |= {f"embed_{name}" for name in re.findall(r'"(\w+)"', loops[1] if loops else "")}
table = re.findall(r"^\| \[([\w.]+)\]\(\1\) \|", readme, re.M)
mistakes = []

for path in sorted(folder.iterdir()):
    name = path.name
    if name in ("README.md", "CMakeLists.txt") or name.startswith(("httpd", "httpsd", "troubled")):
        continue
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) > MOST_LINES:
        mistakes.append(f"{name} has {len(lines)} lines, and may have {MOST_LINES}")
    opening = " ".join(re.sub(r"^[/* ]+", "", line) for line in lines[1:4]).strip()
    if not lines[1].startswith(("/*", "//")) or not re.match(rf"{re.escape(name)} - \w", opening):
        mistakes.append(f'{name} does not begin with a comment "{name} - what it shows"')
    if path.suffix in (".c", ".cc") and f"[{name}]({name})" not in readme:
        mistakes.append(f"{name} is not in README.md")
    if not re.search(r"^int main\(", "\n".join(lines), re.M):
        continue
    if name not in table:
        mistakes.append(f"{name} is not in the table of README.md")
    if path.stem not in run:
        mistakes.append(f"{name} is not run by tests/examples_test.cc")

for name in table:
    if not (folder / name).is_file():
        mistakes.append(f"README.md names {name}, which does not exist")
built = re.findall(r"^ *fiberrt_(?:cxx_|adopting_)?example\((\w+)", cmake, re.M)
built = [name for at, name in enumerate(built) if name not in built[:at]]
in_table = [name.partition(".")[0] for name in table]
if built != in_table:
    at = next((at for at, both in enumerate(zip(built, in_table)) if both[0] != both[1]), min(len(built), len(in_table)))
    mistakes.append(f"the order of CMakeLists.txt, {built[at:at + 3]}…, is not that of README.md, {in_table[at:at + 3]}…")

for mistake in mistakes:
    print(mistake)
if mistakes or len(table) < 20:
    sys.exit(f"examples.py: {len(mistakes)} mistakes in examples/, {len(table)} programs in its table")
print(f"ok: {len(table)} programs")
