# SPDX-License-Identifier: MIT OR Apache-2.0
"""Turns the text of comments and docstrings into Markdown."""

import re


def fenced(language: str, lines: "list[str]") -> "list[str]":
    return [f"```{language}", *"\n".join(lines).strip("\n").split("\n"), "```", ""]


def prose(lines: "list[str]", language: str, indent: str = "    ") -> "list[str]":
    """The text as Markdown: indented lines become a block of that language, and other letters than those of code mean
    themselves."""
    out, code = [], []
    for line in [*lines, "end"]:
        if code and line and not line.startswith(indent):
            out += fenced(language, code)
            code = []
        if line.startswith(indent) or code:
            code.append(line.removeprefix(indent))
            continue
        pieces = line.replace("``", "`").split("`")  # every second one is code
        pieces[::2] = [re.sub(r"(?<!\w)_|\*", r"\\\g<0>", piece).replace("<", "&lt;") for piece in pieces[::2]]
        out.append("`".join(pieces))
    return out[:-1] + [""]


def member(declarations: "list[str]", language: str, comment: "list[str]") -> "list[str]":
    """A member of a class: its declarations, and their comment as Markdown."""
    return ['<div class="member" markdown>', "", *fenced(language, declarations), *comment, "", "</div>", ""]
