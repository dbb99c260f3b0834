#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks prose.py: it passes a plain text, and finds sentences planted for each rule, with their lines, in the
comments, pages and messages of each kind of file, but not in code. It finds planted names of tests.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import prose  # noqa: E402

# Each sentence has its rule's turn once, and no other turn.
PLANTED = {
    "headless who": "The lock goes to whoever comes first",
    "nobody, somebody": "Then nobody wakes the fiber",
    "what as a noun": "The call returns what has come",
    "of which, of its": "There are two fibers, of which the first runs",
    "but for, but that": "All of them end but for the main flow",
    "is to be, to be had": "The record is to be freed by the caller",
    "headless the same": "The same, for a thread",
    "beside, likewise, hence": "The queue is empty, hence the thread sleeps",
}
PLAIN = [
    "The caller closes the descriptor",
    "A fiber that waits for a lock can be cancelled",
    "The kernel completes the read",
]

# A file for each kind of reader. {} is the text; the turns outside it are code, and do not count.
FILES = {
    "line.cc": 'const char *text = "nobody // whoever"; // {}\n',
    "block.h": "int a; /* {}\n        * and goes on. */\nchar c = '\"'; int nobody; // plain\n",
    "switch.S": "/* {} */\n    ret\n",
    "pipe.go": "var text = `nobody\n// whoever`\n\n// {}\n",
    "lifetime.rs": "fn f<'a>(t: &'a str) { let s = \"nobody\\\n // whoever\"; let c = '\\''; } /// {}\n",
    "docstring.py": 'class Nobody:\n    """{}"""\ntext = "# whoever"\n',
    "comment.py": "nobody = 1  # {}\n",
    "run.sh": "#!/bin/sh\n# {}\necho nobody\n",
    "CMakeLists.txt": "# {}\nset(nobody)\n",
    "page.md": "# Whoever\n\n```c\n// nobody\n```\n\n| what is | nobody |\n\n    whoever\n\n`nobody` is a name. {}\n",
    "tool": "#!/usr/bin/env python3\n# {}\n",
}

# A file for each kind of message, and the line of the message. The comments and short strings are plain.
MESSAGES = {
    "message.cc": ('// plain\n#include "nobody.h"\nf("{}" // plain\n  " now", R"(nobody has)", "nobody", \'"\');\n', 3),
    "message.go": ('package p\n\nvar text = `nobody`\nvar said = "{}"\n', 4),
    "message.rs": ("// plain\nconst T: &'static str = r\"nobody has it now\";\npanic!(\"{}\");\n", 3),
    "message.py": ('"""Plain."""\n\nprint(f"{} {{a}}")\n', 3),
    "message.sh": ("#!/bin/sh\n# Plain.\necho 'nobody' \"{}\"\n", 3),
    "message.cmake": ('# Plain.\nmessage(STATUS\n    "{}")\n', 3),
}
# Names of tests for each language, and the line of the name that has a turn.
NAMES = {
    "names.cc": ("TEST(Fiber, WhoeverWaits) {}\nTEST_P(Fiber, EndsOnce) {}\n", "1: 'whoever'", "Fiber.WhoeverWaits"),
    "names.go": ("func TestEnds(t *T) {}\nfunc TestNobodyEnds(t *T) {}\n", "2: 'nobody'", "TestNobodyEnds"),
    "names.rs": ("#[test]\nfn it_ends() {}\n#[test]\nfn nobody_ends() {}\n", "3: 'nobody'", "nobody_ends"),
    "names.py": ("def test_ends():\n    pass\n\n\ndef test_what_ends():\n    pass\n", "5: 'what'", "test_what_ends"),
    "names.cmake": ("add_test(NAME a.to_be_had COMMAND a)\n", "1: 'to be had'", "a.to_be_had"),
}

wrong = 0


def check(text, holds):
    global wrong
    if not holds:
        wrong += 1
        print(f"FAILED: {text}")


def run(root, *arguments):
    command = [sys.executable, HERE / "prose.py", "--root", root, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def tree(root, text_of):
    """Writes the files of FILES, each with as many paragraphs as text_of(name) returns."""
    for name, form in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(form.replace("{}", text) + "\n" for text in text_of(name)))


check("each rule has a limit and a planted sentence", set(prose.LIMITS) == set(prose.TURNS) == set(PLANTED))
for name, sentence in PLANTED.items():
    found = [rule for rule, pattern in prose.PATTERNS.items() if pattern.search(sentence)]
    check(f"{sentence!r} has only the turn {name!r}, but has {found}", found == [name])

with tempfile.TemporaryDirectory() as folder:
    root = Path(folder)
    tree(root / "good", lambda name: [text + "." for text in PLAIN])
    said = run(root, "--show", "good")
    check(f"a plain text passes: {said.stdout}{said.stderr}", said.returncode == 0 and "good/" not in said.stdout)

    # Twice, as a single turn is no rate.
    for rule, sentence in PLANTED.items():
        tree(root / "bad", lambda name: [sentence + ".", sentence + "."])
        for name in FILES:
            text = (root / "bad" / name).read_text().split("\n")
            lines = [number for number, line in enumerate(text, 1) if sentence in line]
            found = [(line, found_rule) for line, found_rule, _ in prose.turns_in(root / "bad" / name)[1]]
            check(f"{rule!r} is found in {name} at {lines}, but {found}", found == [(line, rule) for line in lines])
        said = run(root, "--show", "bad")
        check(f"{rule!r} fails: {said.stdout}", said.returncode == 1 and f"FAILED: bad: {rule}: " in said.stdout)
        places = [line for line in said.stdout.splitlines() if line.startswith("bad/") and f": {rule}: " in line]
        check(f"--show prints each place of {rule!r}: {said.stdout}", len(places) == 2 * len(FILES))

    for name, (form, line) in MESSAGES.items():
        for rule, sentence in PLANTED.items():
            text = form.replace("{{a}}", "{a}").replace("{}", sentence)
            (root / name).write_text(text)
            found = [(line, rule) for line, rule, _ in prose.turns_of(prose.messages(root / name))[1]]
            check(f"{rule!r} is found in the message of {name}, but {found}", found == [(line, rule)])
    (root / "twice").mkdir()
    (root / "twice/a.cc").write_text(MESSAGES["message.cc"][0].replace("{}", PLANTED["nobody, somebody"]) * 2)
    said = run(root, "twice")
    check(f"messages fail: {said.stdout}",
          said.returncode == 1 and "FAILED: messages: nobody, somebody: " in said.stdout)  # fmt: skip

    for name, (text, place, test) in NAMES.items():
        (root / name).write_text(text)
        said = run(root, name, "good")
        check(f"the name {test} fails: {said.stdout}",
              f"FAILED: {name}:{place} in the name of a test: {test}" in said.stdout)  # fmt: skip
        check(f"only the name {test} fails: {said.stdout}", said.stdout.count("FAILED: ") == 1)

    (root / "once.md").write_text(PLANTED["headless who"] + ".\n")
    check("a single turn passes", run(root, "once.md").returncode == 0)
    tree(root / "good", lambda name: [text + "." for text in PLAIN * 400])
    said = run(root, "good", "bad")
    check("a good area does not hide a bad one", said.returncode == 1 and "FAILED: bad: " in said.stdout)
    check("nor does a bad area fail a good one", "FAILED: good: " not in said.stdout)
    said = run(root, "missing")
    check("a missing area is an error", said.returncode == 1 and "there is no" in said.stderr)

if wrong:
    sys.exit(1)
print(f"{len(PLANTED)} rules are found in {len(FILES)} kinds of files, messages and names of tests")
