# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the comments in src/ that say why the tests of ./dev coverage do not reach a line: "// coverage: KEY".
reasons.txt has the keys, each with a sentence. A comment applies to

    the statement, block or function that begins in its line, if it stands behind code;
    the rest of its block, or, outside all blocks, the code that begins in the next line, if it stands alone;
    the whole file, if it is a line of the comment that begins the file.

"// coverage where called: KEY" at a function or macro applies to it and to each line of src/ that calls it.
__builtin_unreachable() needs no comment: its key is "never".
"""

import dataclasses
import re
from pathlib import Path

COMMENT = re.compile(r"//\s*coverage\b.*", re.IGNORECASE)
MARK = re.compile(r"// coverage( where called)?: ([a-z][a-z ]*[a-z])")
# Brackets and semicolons in these are not the code's.
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])\'', re.DOTALL)


@dataclasses.dataclass(eq=False)
class Mark:
    path: str
    line: int
    key: str
    first: int = 0  # the lines of the file to which it applies
    last: int = 0
    name: str = ""  # the function whose callers it applies to

    def __str__(self):
        return f"{self.path}:{self.line} {self.key}"


class Marks:
    """All marks of a source tree. `wrong` lists the mistakes."""

    def __init__(self, source, reasons):
        self.reasons, self.wrong = reasons, []
        self.of_file, self.code = {}, {}
        for path in sorted((Path(source) / "src").rglob("*")):
            if path.suffix in (".cc", ".c", ".h"):
                self._read(str(path.relative_to(source)), path.read_text(encoding="utf-8"))
        self.called = [mark for mark in self.all() if mark.name]
        self.called.append(Mark("", 0, "never", name="__builtin_unreachable"))
        used = {mark.key for mark in self.all()}
        self.wrong += [f"reasons.txt: no comment in src/ has the key {key!r}" for key in reasons if key not in used]

    def all(self):
        return [mark for marks in self.of_file.values() for mark in marks]

    def find(self, path, line):
        """The mark that applies to a line, or None. Of several, the one that applies to the fewest lines."""
        for mark in sorted(self.of_file.get(path, []), key=lambda mark: mark.last - mark.first):
            if mark.first <= line <= mark.last:
                return mark
        code = self.code[path][line - 1]
        return next((mark for mark in self.called if re.search(rf"\b{mark.name}\(", code)), None)

    def says_nothing(self, path, line):
        """Whether a line only ends a block: gcov counts some of these and not others."""
        return re.fullmatch(r"\s*}[;)]*\s*", self.code[path][line - 1])

    def _read(self, path, text):
        lines = text.split("\n")
        code = NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text).split("\n")
        self.code[path] = code
        marks = self.of_file[path] = []
        begins = next((number for number, line in enumerate(lines, 1) if not line.startswith("//")), 0)
        for number, line in enumerate(lines, 1):
            comment = COMMENT.search(line)
            if not comment:
                continue
            found = MARK.fullmatch(comment.group().rstrip("\\ "))
            if not found or found.group(2) not in self.reasons:
                self.wrong.append(f"{path}:{number}: no key of reasons.txt: {comment.group()}")
                continue
            mark = Mark(path, number, found.group(2))
            if number < begins:
                mark.first, mark.last = 1, len(lines)
            else:
                alone = not code[number - 1].strip()
                mark.first = number + alone
                mark.last = end(code, mark.first, whole_block=alone and line.startswith(" "))
            marks.append(mark)
            if found.group(1):
                name = re.search(r"(\w+)\(", code[mark.first - 1])
                if name:
                    mark.name = name.group(1)
                else:
                    self.wrong.append(f"{path}:{number}: there is no function: {comment.group()}")


def end(code, first, whole_block):
    """The last line of the statement or block that begins in line `first`, or of the block around that line."""
    depth = 0
    for number in range(first, len(code) + 1):
        line = code[number - 1]
        for character in line if number > first or whole_block else line.lstrip(" }"):
            if character in "([{":
                depth += 1
            elif character in ")]}":
                if character == "}" and depth == (0 if whole_block else 1):
                    return number
                depth = max(depth - 1, 0)
            elif character == ";" and depth == 0 and not whole_block:
                return number
    return len(code)


def read_reasons(path):
    """{key: sentence}"""
    reasons = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            key, sentence = line.split(":", 1)
            reasons[key] = sentence.strip()
    return reasons
