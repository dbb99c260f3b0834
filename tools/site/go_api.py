# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes Markdown of the Go package's API: the exported declarations and their comments, as gofmt lays them out."""

import re
from pathlib import Path

from comments import fenced, prose

DECLARATION = re.compile(r"((?://.*\n)*)((?:func|type|const|var) .*(?:\n(?:\t.*|\)|\}.*|)(?=\n))*)")


def text_of(comment: str) -> "list[str]":
    lines = [line.removeprefix("//").removeprefix(" ") for line in comment.splitlines()]
    lines = [re.sub(r"\[(\*?(?:\w+\.)*\w+)\](?!\()", r"`\1`", line) for line in lines]
    return [re.sub(r"^# ", "### ", line) for line in prose(lines, "go", "\t")]


def head(declaration: str) -> str:
    """The declaration without the body of a function and without fields that are not exported."""
    lines = re.sub(r"struct\{ [a-z*].* \}$", "struct{ ... }", declaration.rstrip()).split("\n")
    if lines[0].startswith("func "):
        return re.sub(r" \{( .*\})?$", "", lines[0])
    kept = [line for line in lines if re.match(r"\t*(//|[A-Z]|[^\t])", line) or not line]
    if kept[0].endswith("struct {") and len(kept) == 2:
        return kept[0] + " ... }"
    return "\n".join(kept)


def page(folder: Path) -> str:
    about, entries = [], {}
    for path in sorted(folder.glob("*.go")):
        text = path.read_text(encoding="utf-8")
        if path.name.endswith("_test.go") or path.name == "nocgo.go":
            continue
        if path.name == "doc.go":
            about = text_of("\n".join(line for line in re.search(r"((?://.*\n)+)package", text)[1].splitlines()))
            continue
        for comment, declaration in re.findall(rf"^{DECLARATION.pattern}", text, re.M):
            method = re.match(r"func \(\w+ \*?(\w+)(?:\[.*?\])?\) ([A-Z]\w*)", declaration)
            plain = re.match(r"(?:func|type|const|var) ([A-Z]\w*)", declaration)
            group = re.match(r"(?:const|var) \(\n(?:\t//.*\n)*\t([A-Z]\w*)", declaration)
            if method and method[1][0].isupper():
                entries.setdefault(method[1], []).append((f"{method[1]}.{method[2]}", comment, declaration))
            elif plain or group:
                name = (plain or group)[1]
                entries.setdefault(name, []).insert(0, (name, comment, declaration))
    lines = ["# Go: the API", "", *about, ""]
    for name, members in sorted(entries.items()):
        for title, comment, declaration in members:
            level = "##" if title == name else "###"
            lines += [f"{level} {title}", "", *fenced("go", [head(declaration)]), *text_of(comment), ""]
    return "\n".join(lines)
