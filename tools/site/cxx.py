# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes Markdown of fiberrt.hpp: a page for each section, with the comments and the declarations, without the
bodies of functions and the private parts of classes."""

import re
from dataclasses import dataclass, field

from comments import fenced, member, prose

BANNER = re.compile(r"// ---- (.*?) -+$")


@dataclass
class Part:
    """A comment, and the declarations that stand under it."""

    comment: "list[str]"
    declarations: "list[str]" = field(default_factory=list)
    name: str = ""
    members: "list[Part]" = field(default_factory=list)  # of a class or a namespace


@dataclass
class Section:
    title: str
    comment: "list[str]" = field(default_factory=list)
    parts: "list[Part]" = field(default_factory=list)


def sections(text: str) -> "list[Section]":
    """Reads the header. The first section is the comment at its head."""
    head, _, rest = text.partition("#ifndef FIBERRT_HPP")
    lines = [line.removeprefix("//").removeprefix(" ") for line in head.splitlines() if "SPDX-" not in line]
    found = [Section("", lines)]
    rest = re.sub(r"^\} // namespace fiberrt\n.*?^namespace fiberrt \{\n", "", rest, flags=re.S | re.M)
    rest = re.sub(r"\nnamespace detail \{\n.*?\n\} // namespace detail\n", "\n", rest, flags=re.S)
    for piece in re.split(r"(?=^// ---- )", rest, flags=re.M)[1:]:
        lines = piece.splitlines()
        section = Section(BANNER.match(lines.pop(0))[1])
        while lines and lines[0].startswith("//") and not lines[0].startswith("///"):
            section.comment.append(lines.pop(0).removeprefix("//").removeprefix(" "))
        section.parts = parts(lines)
        if section.parts:
            found.append(section)
    return found


def parts(lines: "list[str]", owner: str = "") -> "list[Part]":
    """The documented things in these lines. `owner`: the class whose members they are."""
    found, comment, at, public = [], None, 0, True
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        if line.startswith("///"):
            comment = comment or []
            comment.append(line.removeprefix("///").removeprefix(" "))
        elif not line:
            if found and owner:
                found[-1].name = "ended"  # what follows a blank line is not under this comment
            comment = None if found and not comment else comment
        elif line in ("public:", "private:", "protected:"):
            public = line == "public:"
        elif line.startswith(("#", "//", "}", "static_assert", "using ", "friend ")):
            comment = None
        else:
            declaration, body, at = read(lines, at - 1)
            if not public or "= delete" in declaration or re.search(r"\bclass \w+;$", declaration) and not comment:
                comment = None
                continue
            add(found, comment, declaration, body, owner)
            comment = None
    return found


def read(lines: "list[str]", at: int) -> "tuple[str, list[str], int]":
    """Reads a declaration that begins in lines[at]. Returns its text without the body, the lines of the body, and the
    number of the line after it."""
    begin, text, depth, body_at = at, "", 0, None
    while at < len(lines):
        line = re.sub(r'"(\\.|[^"])*"|//.*', lambda match: "" if match[0][0] == "/" else match[0], lines[at])
        at += 1
        text += line + "\n"
        depth = sum(text.count(letter) for letter in "({") - sum(text.count(letter) for letter in ")}")
        if depth == 0 and re.search(r"[;}]\s*$", line):
            break
    indent = len(lines[begin]) - len(lines[begin].lstrip())
    text = "\n".join(line[indent:] for line in text.rstrip().split("\n"))
    if re.match(r"(template <.*>\n)?(class|struct|namespace) ", text):
        body_at = text.index("{") if "{" in text else None
        head = text[:body_at].rstrip() if body_at is not None else text
        return head, lines[begin + head.count("\n") + 1 : at - 1] if body_at is not None else [], at
    return head_of(text), [], at


def head_of(text: str) -> str:
    """A declaration without the body and the initialisers of a constructor."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "(<[") - (letter in ")]" or letter == ">" and text[place - 1] != "-")
        starts_list = letter == ":" and depth == 0 and text[place + 1] == " " and text[place - 1] in " \n"
        if depth == 0 and (letter == "{" and text[place - 1] in " )" or starts_list):
            return text[:place].rstrip() + ";"
    return text


def name_of(declaration: str) -> str:
    plain = re.sub(r"template <.*?>\n", "", declaration, flags=re.S)
    kind = re.match(r"(?:class|struct|namespace) (?:\[\[\w+\]\] )?(\w+)", plain)
    if kind:
        return kind[1]
    named = re.search(r"(operator\s?[^\s(]+|~?\w+)\s?(?:\(| =|;|\{)", plain)
    return named[1] if named else plain


def add(found: "list[Part]", comment, declaration: str, body: "list[str]", owner: str) -> None:
    name = name_of(declaration)
    last = found[-1] if found else None
    if owner:
        # A comment also speaks of the members right after it that have a similar name: wait_for, wait_until.
        same = last is not None and (not last.comment or name.split("_")[0] == last.name.split("_")[0])
        if comment is None and same and (last.name != "ended" or not last.comment):
            last.declarations.append(declaration)
        else:
            found.append(Part(comment or [], [declaration], name))
        return
    known = next((part for part in found if part.name == name), None)
    if known is not None and (comment is None or not known.members and declaration.endswith(";")):
        known.declarations.append(declaration)  # another overload
        if comment:
            known.comment += ["", *comment]
    else:
        known = Part(comment or [], [declaration], name)
        found.append(known)
    if body:
        known.members += parts(body, name)


def page(section: Section) -> str:
    lines = [f"# {section.title or 'fiberrt.hpp'}", "", *prose(section.comment, "cpp")]
    for part in section.parts:
        lines += ["", f"## {part.name}", "", *prose(part.comment, "cpp")]
        heads = part.declarations[-1:] if part.members else part.declarations
        if not re.fullmatch(r"(class|struct|namespace) \w+", heads[0]):  # else the heading says as much
            lines += fenced("cpp", heads)
        for each in part.members:
            lines += member(each.declarations, "cpp", prose(each.comment, "cpp"))
    return "\n".join(lines) + "\n"


def file_of(section: Section) -> str:
    return re.sub(r"\W+", "-", section.title.lower()).strip("-") or "index"


def pages(text: str) -> "dict[str, str]":
    """The pages, by the names of their files without a suffix; `index` is the first."""
    found = sections(text)
    index, *rest = found
    made = {"index": page(index)}
    made["index"] += "\n## Classes and functions\n\n| | |\n|---|---|\n"
    for section in rest:
        file = file_of(section)
        made[file] = page(section)
        names = ", ".join(f"[`{part.name}`]({file}.md#{part.name.lower()})" for part in section.parts)
        made["index"] += f"| [{section.title}]({file}.md) | {names} |\n"
    return made
