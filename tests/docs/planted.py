#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks that blocks.py finds mistakes: in a small tree of documentation without a mistake it reports none, and in a
tree with a mistake of each kind it reports all of them, and nothing else.

Usage: planted.py BUILD SOURCE
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

BUILD, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
WORK = BUILD / "tests/docs/planted"
TREE = WORK / "tree"

RIGHT = """\
# A page
<!-- A comment. -->
## Its second `part`

The function `fiber_sleep`, a family: `fiber_*`.

<!-- frame: main -->
```c
puts("hello");
```

<!-- output -->
```text
hello
```

```cpp
int main() { return [] { return 0; }(); }
```

<!-- file: one.txt -->
```toml
one = 1
```

<!-- kind: sh -->

    grep -q one one.txt
    cd "$HOME"/fiberrt/include

```console
$ echo a; echo b
a
b
$ true
```

<!-- as in: include/fiberrt.h -->
```none
int fiber_sleep(long);
```

<!-- checked by: tests/checks.py -->
```python
nonsense
```

<!-- not run: there is no such machine -->

    left out
"""

FRAME = "#include <stdio.h>\nint main(void) {\nBLOCK\nreturn 0; }\n"

# The message that blocks.py must print for a page, as a pattern, and the page.
WRONG = [
    ("does not compile", """\
```c
int main(void) { return fiber_slep(1); }
```
"""),
    ("does not compile", """\
<!-- frame: main -->
```c
int unused = 1; /* a warning */
```
"""),
    ("ends with 3", """\
```c
int main(void) { return 3; }
```
"""),
    ("ends with -", """\
<!-- frame: main -->
```cpp
__builtin_trap();
```
"""),
    ("ends with 1", """\
```sh
false
true
```
"""),
    (".echo one. puts out", """\
```console
$ echo one
two
```
"""),
    ("the block before puts out", """\
<!-- frame: main -->
```c
puts("one");
```

<!-- output -->
```text
two
```
"""),
    ("a block without a kind", """\
    int main(void)
"""),
    ("a block without a kind", """\
```
int main(void)
```
"""),
    ("a block of kind 'rust'", """\
```rust
fn main() {}
```
"""),
    ("the reason why it is not run is missing", """\
<!-- not run: -->
```c
int main(void)
```
"""),
    ("there is no frame", """\
<!-- frame: mian -->
```c
puts("");
```
"""),
    ("unknown mark", """\
<!-- farme: main -->
```text
puts("");
```
"""),
    ("no block follows the mark", """\
<!-- frame: main -->
Prose.
"""),
    ("no later sh block uses", """\
<!-- file: unused.c -->
```c
int main(void) { return 0; }
```
"""),
    ("does not stand so in", """\
<!-- as in: include/fiberrt.h -->
```none
int fiber_sleep(int);
```
"""),
    (".*does not check this page", """\
<!-- checked by: tests/checks.py -->
```python
pass
```
"""),
    ("there is no fiber_slep", """\
Call `fiber_slep`.
"""),
    ("this block has no end", """\
```text
"""),
]

def fail(text):
    sys.exit(f"FAILED: {text}")


def put(name, text):
    path = TREE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + ("" if text.endswith("\n") else "\n"))


def check(*options):
    """Runs blocks.py. Returns whether it passed, and its output."""
    command = [sys.executable, SOURCE / "tests/docs/blocks.py", TREE, BUILD, WORK / "work", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0, done.stdout


shutil.rmtree(WORK, ignore_errors=True)
put("include/fiberrt.h", "int fiber_sleep(long);")
put("tests/docs/frames/main.c", FRAME)
put("tests/docs/frames/main.cc", FRAME)
put("tests/checks.py", "# names docs/right.md")
put("docs/right.md", RIGHT)
content, said = check("--at-least", "4")
if not content:
    fail(f"of a tree without a mistake it says: {said}")
if check("--at-least", "5")[0]:
    fail("it does not tell that there are too few blocks")

for number, (_, page) in enumerate(WRONG, 1):
    put(f"docs/wrong{number}.md", page)
content, said = check()
if content:
    fail(f"it finds none of the mistakes: {said}")
for number, (message, _) in enumerate(WRONG, 1):
    if not re.search(rf"^FAILED: docs/wrong{number}\.md:\d*: {message}", said, re.MULTILINE):
        fail(f"it does not say of page {number} '{message}': {said}")
found = len(re.findall("^FAILED", said, re.MULTILINE))
if found != len(WRONG):
    fail(f"it tells of {found} mistakes instead of {len(WRONG)}: {said}")

# A block that hangs is ended, together with the processes that it started.
shutil.rmtree(TREE / "docs")
put("docs/hangs.md", "```sh\nsleep 600 & wait\n```")
content, said = check("--seconds", "1")
if content:
    fail("it does not tell of what hangs")
if not re.search("^FAILED: docs/hangs.md:2: has not ended", said, re.MULTILINE):
    fail(f"of what hangs it says: {said}")
print(f"ok: all of {found} mistakes found, and what hangs")
