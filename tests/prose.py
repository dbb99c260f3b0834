#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts turns of phrase that make comments, pages, messages and names of tests hard to read, per 1,000 words. Fails if
a rate is over its limit in an area of the project, in all of them, or in all messages; and for any such name of a test.

usage: prose.py [--show] [--root DIR] [AREA...]

An AREA is a folder or a file below the root; the default is the list AREAS. --show prints the place of each turn.
The script reads comments of C, C++, assembly, Go and Rust; comments and docstrings of Python; whole-line comments of shell
and CMake; and Markdown without its headings, code blocks and tables. Text between backticks counts as one word.
Messages are strings in code of more than three words: of C, C++, Go, Rust, Python, shell and CMake. Names of tests are
those of GoogleTest, Python, Go and Rust, and of CTest where add_test() has them.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

AREAS = """
    src include docs README.md CONTRIBUTING.md bindings tests tools dev fuzz bench examples
""".split()

# The most of each turn per 1,000 words: the rate of libdill, marl, liburing, tokio, redis and LMDB, and a little more.
LIMITS = {
    "headless who": 0.3,
    "nobody, somebody": 0.5,
    "what as a noun": 0.8,
    "of which, of its": 0.5,
    "but for, but that": 0.3,
    "is to be, to be had": 0.6,
    "headless the same": 0.3,
    "beside, likewise, hence": 0.5,
}
TURNS = {
    "headless who": r"\bwhoever\b|\bthose who\b|(?:^|(?<=[.:;,] ))who\b|\b(?:for|to|of|than|by|from) who\b",
    "nobody, somebody": r"\b(?:no|some|any)body\b",
    "what as a noun": r"\bwhat (?:is|was|has|had|can|could|comes|came|waits|they|it|he|others|that|nobody|we)\b",
    "of which, of its": r"\bof (?:its|theirs|ours|his|whom|which|whose)\b",
    "but for, but that": r"\bbut (?:for|that|of|as|what)\b",
    "is to be, to be had": r"\b(?:is|are|was|were) (?:not )?to (?:be|have)\b|\bto be had\b",
    "headless the same": r"(?:^|(?<=[.;:] ))the same[ ,.]",
    "beside, likewise, hence": r"\b(?:beside|likewise|hence|wherefore|all the same)\b",
}
PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in TURNS.items()}
# In names, where no sentence shows whether such a word is a turn. No name may have one.
NAME_TURN = re.compile(
    r"\b(?:who|whom|whoever|nobody|somebody|anybody|what|whatever|those|likewise|hence|beside|is to be|to be had|"
    r"but for)\b"
)
# The strings of these files are the turns themselves.
NO_MESSAGES = {"prose.py", "prose_test.py"}

C_LIKE = {".h", ".hpp", ".c", ".cc", ".cpp", ".S", ".go", ".rs"}
LICENCE = ("SPDX-License-Identifier:", "SPDX-FileCopyrightText:", "Copyright")
PYTHON = {".py", ".pyi"}
HASH = {".sh", ".cmake"}

# A comment, or a literal that may contain the signs of one. A quote after a letter or digit separates digits.
C_TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)
    |(?P<block>/\*.*?\*/)
    |R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"
    |"(?:\\.|[^"\\\n])*"
    |(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*'
    """,
    re.DOTALL | re.VERBOSE,
)
GO_TOKEN = re.compile(C_TOKEN.pattern + r"|`[^`]*`", re.DOTALL | re.VERBOSE)
# A quote may begin a lifetime; strings go on over lines.
RUST_TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)
    |(?P<block>/\*.*?\*/)
    |r(?P<mark>\#*)".*?"(?P=mark)
    |"(?:\\.|[^"\\])*"
    |'(?:\\[^\n']+|\\'|[^'\\\n])'
    """,
    re.DOTALL | re.VERBOSE,
)


class Paragraph:
    """Lines of prose that belong together, given as (line number, column of the text, text)."""

    def __init__(self, lines):
        self.lines = lines
        self.starts = []
        self.text = ""
        for number, _, text in lines:
            text = re.sub(r"\s+", " ", text.strip())
            if not text:
                continue
            self.text += " " if self.text else ""
            self.starts.append((len(self.text), number))
            self.text += text
        # Code between backticks becomes one word; its length stays, so that line_at() finds the line.
        self.text = re.sub(r"`[^`]*`", lambda code: "X" * len(code[0]), self.text)

    def line_at(self, offset):
        return max((start, number) for start, number in self.starts if start <= offset)[1]

    def words(self):
        return len(re.findall(r"[A-Za-z][A-Za-z'_-]*", self.text))


def joined(comments):
    """Paragraphs of comments, which are (line number, column, text, whether code stands before the comment). An empty
    comment, a list's mark, a gap in the lines or another column begins a new paragraph."""
    lines, previous, column_before = [], None, None
    for number, column, text, after_code in comments:
        if text.strip().startswith(LICENCE):
            text = ""
        goes_on = previous == number - 1 and column == column_before and not after_code
        if lines and (not goes_on or not text.strip() or re.match(r"\s*(?:[-*]|\d+\.) ", text)):
            yield Paragraph(lines)
            lines = []
        if text.strip():
            lines.append((number, column + len(text) - len(text.lstrip()), text.strip()))
        previous, column_before = number, column
    if lines:
        yield Paragraph(lines)


def of_c(text, token=C_TOKEN):
    comments = []
    for found in token.finditer(text):
        comment = found["line"] or found["block"]
        if not comment:
            continue
        number = text.count("\n", 0, found.start()) + 1
        column = found.start() - text.rfind("\n", 0, found.start()) - 1
        after_code = bool(text[found.start() - column : found.start()].strip())
        if found["line"]:
            mark = re.match(r"//+[!<]*", comment)[0]
            comments.append((number, column + len(mark), comment[len(mark) :], after_code))
            continue
        for offset, line in enumerate(comment[2:-2].split("\n")):
            mark = re.match(r"[*!<]*" if offset == 0 else r"\s*(?:\*+(?!\S)|\*$)?", line)[0]
            # The first line's text begins where the other lines' does, so that they are one paragraph.
            comments.append((number + offset, column + 3, line[len(mark) :], after_code and offset == 0))
    return joined(comments)


def of_go(text):
    return of_c(text, GO_TOKEN)


def of_rust(text):
    return of_c(text, RUST_TOKEN)


def of_python(text):
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return of_hash(text)
    return [*of_python_comments(text), *of_docstrings(text, tree)]


def of_python_comments(text):
    comments = []
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            number, column = token.start
            comments.append((number, column + 1, token.string[1:], bool(lines[number - 1][:column].strip())))
    return joined(comments)


def of_docstrings(text, tree):
    lines = text.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node, clean=False) is None:
            continue
        string = node.body[0].value
        within = lines[string.lineno - 1 : string.end_lineno]
        within[-1] = within[-1].rstrip().rstrip("\"'")
        opening = re.match(r"\s*\w*[\"']+", within[0])[0]
        within[0] = " " * len(opening) + within[0][len(opening) :]
        yield from joined([(string.lineno + offset, 0, line, False) for offset, line in enumerate(within)])


def of_hash(text):
    comments = []
    for number, line in enumerate(text.split("\n"), 1):
        found = re.match(r"(\s*)#(?!!)(.*)", line)
        if found:
            comments.append((number, len(found[1]) + 1, found[2], False))
    return joined(comments)


def of_markdown(text):
    """Leaves out headings, tables, blocks between fences or indented, and <!-- comments -->."""
    text = re.sub(r"<!--.*?-->", lambda mark: re.sub(r"[^\n]", " ", mark[0]), text, flags=re.DOTALL)
    comments, fence, in_list = [], None, False
    for number, line in enumerate(text.split("\n"), 1):
        found = re.match(r"\s*(```+|~~~+)", line)
        if found and (fence is None or found[1].startswith(fence)):
            fence = found[1] if fence is None else None
            continue
        item = bool(re.match(r"\s*(?:[-*+]|\d+\.) ", line))
        in_list = item or in_list and (not line.strip() or line.startswith(" "))
        if fence or re.match(r"\s*(?:#|\|)", line) or line.startswith("    ") and not in_list:
            continue
        comments.append((number, 0, line, False))
    return joined(comments)


QUOTED = r'"(?:\\.|[^"\\\n])*"'
# Strings next to each other are one message.
C_MESSAGE = re.compile(
    rf"//[^\n]*|/\*.*?\*/|^[ \t]*\#[ \t]*include[^\n]*|R\"([^\s()\\]{{0,16}})\(.*?\)\1\""
    rf"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*'|(?P<text>{QUOTED}(?:\s*{QUOTED})*)",
    re.DOTALL | re.MULTILINE,
)
GO_MESSAGE = re.compile(rf"//[^\n]*|/\*.*?\*/|`[^`]*`|'(?:\\.|[^'\\\n])*'|(?P<text>{QUOTED})", re.DOTALL)
RUST_MESSAGE = re.compile(
    r"//[^\n]*|/\*.*?\*/|r(\#*)\".*?\"\1|'(?:\\[^\n']+|\\'|[^'\\\n])'|(?P<text>\"(?:\\.|[^\"\\])*\")", re.DOTALL
)
HASH_MESSAGE = re.compile(rf"^[ \t]*\#[^\n]*|(?P<text>{QUOTED}|'[^'\n]*')", re.MULTILINE)
TEST_NAMES = {
    "c": re.compile(r"^[ \t]*TEST(?:_F|_P)?\(\s*(\w+,\s*\w+)\)", re.MULTILINE),
    "go": re.compile(r"^func ((?:Test|Benchmark|Fuzz)\w*)\(", re.MULTILINE),
    "rust": re.compile(r"^[ \t]*(?:#\[test\]\s*fn |\(\")(\w+)(?:\(|\", \w+\),)", re.MULTILINE),
    "python": re.compile(r"^[ \t]*(?:async )?def (test_\w+)\(", re.MULTILINE),
    "cmake": re.compile(r"\badd_test\(\s*NAME ([\w.]+)"),
}


def message(number, text):
    """A string as a paragraph, or None if it is none: too short, or a whole program."""
    text = re.sub(r"\\[a-z]|\s+", " ", text)
    return Paragraph([(number, 0, text)]) if len(re.findall(r"[A-Za-z]{2,}", text)) > 3 else None


def strings_of_python(text):
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            docstrings |= {id(part) for part in node.values}
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def strings_of(path, text):
    kind = kind_of(path)
    if kind == "python":
        yield from (found for found in strings_of_python(text) if found[1].count("\n") < 4)
        return
    pattern = {"c": C_MESSAGE, "go": GO_MESSAGE, "rust": RUST_MESSAGE, "hash": HASH_MESSAGE, "cmake": HASH_MESSAGE}.get(kind)
    for found in pattern.finditer(text) if pattern else ():
        if found["text"]:
            yield text.count("\n", 0, found.start()) + 1, re.sub(r'["\']\s*["\']', "", found["text"])[1:-1]


def messages(path):
    if path.name in NO_MESSAGES:
        return
    for number, text in strings_of(path, path.read_text(errors="replace")):
        paragraph = message(number, text)
        if paragraph:
            yield paragraph


def names_in(path):
    """The names of a file's tests, as (line number, name, the name's words in lower case)."""
    text = path.read_text(errors="replace")
    pattern = TEST_NAMES.get(kind_of(path))
    for found in pattern.finditer(text) if pattern else ():
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_.,\s]+", " ", found[1]).lower()
        yield text.count("\n", 0, found.start()) + 1, re.sub(r",\s*", ".", found[1]), words


def kind_of(path):
    if path.suffix == ".cmake" or path.name == "CMakeLists.txt":
        return "cmake"
    return {of_c: "c", of_go: "go", of_rust: "rust", of_python: "python", of_hash: "hash"}.get(reader_of(path))


def reader_of(path):
    if path.suffix in C_LIKE:
        return {".go": of_go, ".rs": of_rust}.get(path.suffix, of_c)
    if path.suffix in PYTHON:
        return of_python
    if path.suffix in HASH or path.name == "CMakeLists.txt":
        return of_hash
    if path.suffix == ".md":
        return of_markdown
    if not path.suffix and path.is_file():
        with path.open("rb") as file:
            first = file.readline(80)
        if first.startswith(b"#!"):
            return of_python if b"python" in first else of_hash if b"sh" in first else None
    return None


def paragraphs(path):
    reader = reader_of(path)
    return reader(path.read_text(errors="replace")) if reader else []


def turns_in(path):
    """The number of words in a file's prose, and its turns as (line number, name, text around it)."""
    return turns_of(paragraphs(path))


def turns_of(paragraphs):
    words, turns = 0, []
    for paragraph in paragraphs:
        words += paragraph.words()
        for name, pattern in PATTERNS.items():
            for hit in pattern.finditer(paragraph.text):
                around = paragraph.text[max(0, hit.start() - 50) : hit.end() + 50]
                turns.append((paragraph.line_at(hit.start()), name, around))
    return words, sorted(turns)


def files_of(area):
    if area.is_file():
        return [area]
    try:  # the files that git tracks; outside a checkout all files
        names = subprocess.run(["git", "ls-files", "-z"], cwd=area, capture_output=True, text=True, check=True).stdout
        found = [area / name for name in names.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = []
    found = found or [path for path in area.rglob("*") if "build" not in path.relative_to(area).parts]
    return sorted(path for path in found if path.is_file() and reader_of(path))


def too_many(count, limit, words):
    """Whether the rate is over its limit. A single turn is allowed in any area: in a short one it says nothing."""
    return count > 1 and 1000 * count > limit * words


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("areas", nargs="*", default=AREAS, metavar="AREA")
    arguments.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    arguments.add_argument("--show", action="store_true")
    options = arguments.parse_args()

    words, counts, names, bad_names = {}, {}, 0, []
    in_messages = [0, dict.fromkeys(LIMITS, 0)]
    for area in options.areas:
        if not (options.root / area).exists():
            sys.exit(f"prose.py: there is no {options.root / area}")
        words[area], counts[area] = 0, dict.fromkeys(LIMITS, 0)
        for path in files_of(options.root / area):
            more, turns = turns_in(path)
            words[area] += more
            for line, name, around in turns:
                counts[area][name] += 1
                if options.show:
                    print(f"{path.relative_to(options.root)}:{line}: {name}: …{around}…")
            more, turns = turns_of(messages(path))
            in_messages[0] += more
            for line, name, around in turns:
                in_messages[1][name] += 1
                if options.show:
                    print(f"{path.relative_to(options.root)}:{line}: message: {name}: …{around}…")
            for line, name, text in names_in(path):
                names += 1
                found = NAME_TURN.search(text)
                if found:
                    place = f"{path.relative_to(options.root)}:{line}"
                    bad_names.append(f"{place}: {found[0]!r} in the name of a test: {name}")
    if not sum(words.values()):
        sys.exit("prose.py: no prose found")
    if len(options.areas) > 1:
        words["all"] = sum(words.values())
        counts["all"] = {name: sum(of_area[name] for of_area in counts.values()) for name in LIMITS}

    words["messages"], counts["messages"] = in_messages

    failed = bad_names
    print(f"{'per 1,000 words':26}" + "".join(f"{area[:9]:>10}" for area in words))
    print(f"{'words':26}" + "".join(f"{count:10}" for count in words.values()))
    for name, limit in LIMITS.items():
        rates = "".join(f"{1000 * counts[area][name] / max(1, words[area]):10.2f}" for area in words)
        print(f"{name:26}{rates}   at most {limit}")
        failed += [
            f"{area}: {name}: {counts[area][name]} in {words[area]} words, at most {limit} per 1,000"
            for area in words
            if too_many(counts[area][name], limit, words[area])
        ]
    print(f"{names} names of tests")
    for line in failed:
        print(f"FAILED: {line}")
    if failed:
        print("python3 tests/prose.py --show AREA prints the places.")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
