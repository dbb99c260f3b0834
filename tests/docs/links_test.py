#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks that links.py finds mistakes: in a small tree without a mistake it reports none, and in a tree with a mistake
of each kind it reports all of them, and nothing else.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

LINKS = Path(__file__).resolve().parent / "links.py"

RIGHT = {
    "docs/right.md": """\
# A page
<!-- A comment. -->
## Its second `part`
### Twice
### Twice

A [link](#its-second-part), [another](#twice-1), a [file](../include/fiberrt.h), a [URL](https://example.org/a#b), a
picture ![A picture](right.svg), the paths `src/core/fiber.h`, `src/core/*.h`, `docs/right.md`, `examples/hello`,
`src/core/NAME.h`, `other/a.h` and `usr/include/a.h`, and http://127.0.0.1:8080/.

```text
[No link](nowhere.md), `src/no.h`
```
""",
    "docs/right.svg": '<svg xmlns="http://www.w3.org/2000/svg"><title>Right</title></svg>',
    "docs/man1/fiberrt-sim.1": ".Nm\n.Xr fiberrt-sim 1 ,\n.Xr fiber_sleep 3 ,\n.Xr open 2 .\n",
    "include/fiberrt.h": "// As in src/core/fiber.h\nint fiber_sleep(long);\n",
    "src/core/fiber.h": "// See docs/right.md and other/no.h.\nconst char *a = \"src/no.h\";\n",
    "src/run.sh": "#!/bin/sh\n# The files of build/release/no.c.\n",
    "examples/hello.c": "int main(void) { return 0; }\n",
}

# The file, its text, and the message that links.py must print for it, as a pattern.
WRONG = [
    ("docs/wrong1.md", "[A page](nowhere.md)\n", "1: the link leads nowhere: nowhere.md"),
    ("docs/wrong2.md", "\n[A page](right.md#its-third-part)\n", "2: there is no such heading: right.md#its-third-part"),
    ("docs/wrong3.md", "[A page][a]\n\n[a]: right.md#twice-2\n", "3: there is no such heading"),
    ("docs/wrong4.md", "![A picture](picture.svg)\n", "1: docs/picture.svg is no picture"),
    ("docs/wrong5.md", "![A picture](untitled.svg)\n", "1: docs/untitled.svg has no title"),
    ("docs/wrong6.md", "![](right.svg)\n", "1: the picture has no alternative text"),
    ("docs/wrong7.md", "[A page](https:/example.org)\n", "1: this is no URL: https:/example.org"),
    ("docs/wrong8.md", "See http://-example.org/.\n", "1: this is no URL"),
    ("docs/wrong9.md", "The file `src/core/fibre.h`.\n", "1: there is no src/core/fibre.h"),
    ("docs/wrong10.md", "The files `src/cores/*.h`.\n", "1: there is no src/cores/"),
    ("docs/wrong11.md", "<img src=\"nowhere.png\" alt=\"A picture\">\n", "1: the link leads nowhere: nowhere.png"),
    ("docs/wrong12.md", "[Outside](../../outside.md)\n", "1: the link leads nowhere"),
    ("docs/wrong13.md", "| a |\n|---|\n| a row that\ngoes on |\n", "3: this row of a table does not end in this line"),
    ("docs/man1/fiberrt-a.1", ".Nm\n.Xr fiberrt-none 1 .\n", r"2: there is no page fiberrt-none\(1\)"),
    ("docs/man1/fiberrt-b.1", ".Xr fiber_slep 3\n", r"1: there is no page fiber_slep\(3\)"),
    ("docs/man1/fiberrt-c.1", ".Xr open\n", "1: .Xr needs a name and a section"),
    ("src/wrong.cc", "int a; // as in src/core/cord.h\n", "1: there is no src/core/cord.h"),
    ("src/wrong.py", '"""The file\n    src/no.cc."""\n', "2: there is no src/no.cc"),
    ("src/wrong.sh", "#!/bin/sh\n# The file docs/no.md.\n", "2: there is no docs/no.md"),
]
PICTURES = {
    "docs/picture.svg": '<svg xmlns="http://www.w3.org/2000/svg"><title>Right</svg>',
    "docs/untitled.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
}


def fail(text):
    sys.exit(f"FAILED: {text}")


with tempfile.TemporaryDirectory() as folder:
    root = Path(folder)

    def put(name, text):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(*options):
        """Runs links.py. Returns its status and output."""
        done = subprocess.run([sys.executable, LINKS, root, *options], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    for name, text in RIGHT.items():
        put(name, text)
    status, said = check("--at-least", "4")
    if status:
        fail(f"a tree without a mistake does not pass: {said}")
    if not check("--at-least", "5")[0]:
        fail("too few links pass")

    for name, text in PICTURES.items():
        put(name, text)
    for name, text, _ in WRONG:
        put(name, text)
    status, said = check()
    if status != 1:
        fail(f"a tree with mistakes passes: {said}")
    for name, _, message in WRONG:
        if not re.search(rf"^FAILED: {re.escape(name)}:{message}", said, re.MULTILINE):
            fail(f"{name} lacks the message '{message}': {said}")
    found = said.count("FAILED: ")
    if found != len(WRONG):
        fail(f"there are {found} messages for {len(WRONG)} mistakes: {said}")
print(f"ok: all of {len(WRONG)} mistakes are found")
