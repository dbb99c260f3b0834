# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks the comments "// coverage: KEY" in src/; and, on a small source, to which lines they apply, and that mistakes
are found.

Usage: marks_test.py SOURCE_DIR FOLDER
"""

import sys
from pathlib import Path

SOURCE, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "tests/coverage"))
sys.dont_write_bytecode = True
from marks import Marks, read_reasons

TEXT = """// A source.
int none() { return 0; } // coverage where called: no cord
// coverage: race
int function(
    int a) {
    if (a == ';') { // coverage: no memory
        return call("}");
    } else {
        // coverage: no memory
        if (a) a = b;
        a = b;
    }
    return none();
}
int line = 1; // coverage: race
int other = none();
"""
MEMORY = ["no memory"] * 3
WANTED = ["", "no cord", "", "race", "race", *MEMORY, "race", *MEMORY, "race", "race", "race", "no cord", ""]
WRONG = [
    "// coverage: unknown",
    "// coverage:race",
    "//coverage: race",
    "// coverage",
    "// coverage where called: race",
]


def marks_of(text, keys):
    path = FOLDER / "src/a/a.cc"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return Marks(FOLDER, {key: "A sentence." for key in keys})


def keys_of(text):
    """The key of each line."""
    marks = marks_of(text, ("race", "no memory", "no cord"))
    found = [marks.find("src/a/a.cc", number) for number in range(1, text.count("\n") + 2)]
    return [mark.key if mark else "" for mark in found]


def main():
    failed = []
    found = keys_of(TEXT)
    if found != WANTED:
        failed.append(f"the lines of the source have {found}")
    if set(keys_of("// A source.\n// coverage: race\n\nint a;\n")) != {"race"}:
        failed.append("a comment that begins a file does not apply to all of it")
    if marks_of(TEXT, ("race", "no memory", "no cord")).wrong:
        failed.append("a source without mistakes has some")
    for comment in WRONG:
        if len(marks_of(f"int a;\nint b; {comment}\n", ()).wrong) != 1:
            failed.append(f"not found to be wrong: {comment}")
    if len(marks_of("int a; // coverage: race\n", ("race", "unused")).wrong) != 1:
        failed.append("a key that nothing uses is not found")
    marks = Marks(SOURCE, read_reasons(SOURCE / "tests/coverage/reasons.txt"))
    failed += marks.wrong
    print("\n".join(f"FAILED: {text}" for text in failed) or f"{len(marks.all())} comments in src/ have a known key")
    return 1 if failed else 0


sys.exit(main())
