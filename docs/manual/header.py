# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads include/fiberrt.h: its sections, functions, types and constants, each with what its comment says; and of
fiberrt_dl.h what it has beside these.

How the comments are written is told in CONTRIBUTING.md, "The manual".
"""

import re
from dataclasses import dataclass, field

FIELDS = ("Where", "Switches", "Errors", "Since")
OF_A_SECTION = re.compile(r"(?:(?<=\s)|^)(Where|Switches|Since|Errors)(?:, beside the POSIX ones)?:\s+")
FIELD = re.compile(r"(?:(?<=\s)|^)(Where|Switches|Errors|Since):\s+")
HANDLES = ("fiber_t", "fiber_cord_t", "fiber_scope_t", "fiber_key_t", "fiber_chan_t", "fiber_pool_t")


@dataclass(eq=False)
class Section:
    """A part of the header, between two banners. `defaults` are fields for all of its functions."""

    title: str
    intro: list = field(default_factory=list)  # lines
    defaults: dict = field(default_factory=dict)
    include: str = "fiberrt.h"


@dataclass(eq=False)
class Function:
    """A function, or a macro with a comment of the same kind (then `macro` is set)."""

    name: str
    line: int
    section: Section
    returns: str = ""
    parameters: list = field(default_factory=list)  # (declaration, name)
    link_name: str = ""
    text: list = field(default_factory=list)  # lines of the description
    own: dict = field(default_factory=dict)  # the fields in this function's comment
    fields: dict = field(default_factory=dict)  # and those it has from elsewhere
    note: list | None = None  # a comment that stands before this and others: lines
    macro: bool = False

    def takes_handle(self):
        return any(re.fullmatch(r"(\w+) \w+", declaration) and declaration.split()[0] in HANDLES
                   for declaration, _ in self.parameters)

    def may_switch(self):
        return self.fields.get("Switches", "").startswith("yes")


@dataclass(eq=False)
class Block:
    """Types or constants that stand together under one comment."""

    line: int
    section: Section | None
    comment: list = field(default_factory=list)
    items: list = field(default_factory=list)  # (kind, name, text as it stands, comment behind it)

    def names(self):
        return [name for _, name, _, _ in self.items]


@dataclass(eq=False)
class Header:
    version: str
    head: list  # lines of the comment at the beginning
    sections: list
    functions: list
    blocks: list

    def function(self, name):
        return next((function for function in self.functions if function.name == name), None)


class Mistake(Exception):
    """Something that cannot be read at all."""


# --- Tokens ---------------------------------------------------------------------------------------------------------


@dataclass
class Token:
    kind: str  # comment, directive, declaration
    text: str
    line: int
    same_line: bool  # as the token before
    blank_before: bool


def tokens(text):
    place, line, newlines = 0, 1, 2
    while place < len(text):
        if text[place].isspace():
            if text[place] == "\n":
                newlines += 1
                line += 1
            place += 1
            continue
        if text.startswith("/*", place):
            kind, end = "comment", text.index("*/", place) + 2
        elif text[place] == "#":
            kind, end = "directive", directive_end(text, place)
        else:
            kind, end = "declaration", declaration_end(text, place, line)
        taken = text[place:end]
        yield Token(kind, taken.rstrip(), line, newlines == 0, newlines > 1)
        line += taken.count("\n")
        newlines = 0
        place = end


def directive_end(text, place):
    while place < len(text) and text[place] != "\n" and not text.startswith("/*", place):
        place += 2 if text.startswith("\\\n", place) else 1
    return place


def declaration_end(text, place, line):
    depth = 0
    while place < len(text):
        if text.startswith("/*", place):
            place = text.index("*/", place) + 1
        elif text[place] == "{":
            depth += 1
        elif text[place] == "}":
            depth -= 1
        elif text[place] == ";" and depth == 0:
            return place + 1
        place += 1
    raise Mistake(f"line {line}: a declaration without an end")


def comment_lines(text):
    """The lines of a comment without what makes it one, indented as they are relative to its text."""
    opening = re.match(r"/\*+ ?", text).group()
    lines = text[len(opening) : -2].rstrip().split("\n")
    beside = bool(lines[0].strip())  # the text begins beside the opening, and the rest is aligned with it
    out = [lines[0].strip()] if beside else []
    for line in lines[1:]:
        line = line.strip(" ") if not line.lstrip().startswith("*") else line.lstrip()[1:]
        spare = len(opening) - 2 if beside else 1
        while spare > 0 and line.startswith(" "):
            line, spare = line[1:], spare - 1
        out.append(line.rstrip())
    return out


# --- The header -----------------------------------------------------------------------------------------------------


def read_header(text, dl_text=None):
    # What is for C++ alone declares nothing.
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif", lambda match: "\n" * match.group().count("\n"), text, flags=re.S)
    stream = list(tokens(text))
    if len(stream) < 3 or stream[1].kind != "comment":
        raise Mistake("the header does not begin with a comment about all of it")
    header = Header("", comment_lines(stream[1].text), [], [], [])
    section, pending, note, block, last = None, None, None, None, None
    for at, token in enumerate(stream[2:], 2):
        if token.kind == "comment":
            if token.same_line and last is not None:
                kind, name, body, _ = last.items[-1]
                last.items[-1] = (kind, name, body, " ".join(comment_lines(token.text)).strip())
            elif token.text.startswith("/* ---"):
                section = read_banner(token)
                header.sections.append(section)
                pending = note = block = None
            elif token.text.startswith("/**") or (at + 1 < len(stream) and not stream[at + 1].blank_before):
                pending = token
            else:
                note, pending = comment_lines(token.text), None
            continue
        item = read_item(token, section, pending, note)
        documented = pending is not None and pending.text.startswith("/**")
        if item is None:
            last = None  # a forward declaration: a comment before it is meant for what follows
            continue
        if isinstance(item, Function):
            header.functions.append(item)
            last = block = None
        elif item[1].startswith("_"):
            last = None
        else:
            if block is None or token.blank_before or (pending is not None and not documented):
                lines = comment_lines(pending.text) if pending is not None else []
                block = Block(token.line, section, lines)
                header.blocks.append(block)
            block.items.append(item)
            last = block
        pending = None
    if dl_text is not None:
        read_dl(dl_text, header)
    numbers = dict(re.findall(r"#define FIBERRT_VERSION_(\w+) (\d+)", text))
    header.version = ".".join(numbers.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH"))
    for function in header.functions:
        complete_fields(function, header)
    return header


def read_dl(text, header):
    """fiberrt_dl.h: inline functions, and a table whose members are those of fiberrt.h."""
    head = re.search(r"/\*\n \* fiberrt_dl\.h.*?\*/", text, re.S)
    paragraphs = "\n".join(comment_lines(head.group())).strip().split("\n\n") if head else []
    lines = "\n\n".join(part for part in paragraphs if "MADE FROM" not in part).split("\n")
    section = Section("Loading at run time", lines, include="fiberrt_dl.h")
    header.sections.append(section)
    comment = r"(/\*(?:(?!\*/).)*\*/)\n"
    function_or_macro = r"(?:static inline ([^;{(]*?)(\w+)\(([^{]*?)\)\n\{|#define (\w+)\(([^)]*)\))"
    for match in re.finditer(comment + function_or_macro, text, re.S):
        if not match.group(1).startswith("/**"):
            continue
        line = text.count("\n", 0, match.start()) + 1
        token = Token("comment", match.group(1), line, False, True)
        function = Function(match.group(3) or match.group(5), line, section, (match.group(2) or "").strip(),
                            macro=bool(match.group(5)))
        for parameter in split_parameters(match.group(4) or match.group(6)):
            function.parameters.append((parameter, re.search(r"(\w+)$", parameter).group(1)))
        header.functions.append(documented(function, token, None))
    for match in re.finditer(comment + r"(?:typedef struct (\w+) \{|(#define (\w+) \S+)$)", text, re.S | re.M):
        item = (("type", match.group(2) + "_t", f"typedef struct {match.group(2)} {match.group(2)}_t;", "")
                if match.group(2) else ("macro", match.group(4), match.group(3), ""))
        line = text.count("\n", 0, match.start()) + 1
        header.blocks.append(Block(line, section, comment_lines(match.group(1)), [item]))


def read_banner(token):
    lines = [line for line in comment_lines(token.text) if not line.strip().startswith("-----")]
    section = Section(lines[0].strip(), lines[1:])
    while section.intro and not section.intro[0]:
        section.intro.pop(0)
    text = " ".join(line.strip() for line in section.intro)
    parts = OF_A_SECTION.split(text)
    for name, value in zip(parts[1::2], parts[2::2]):
        # The sentence, or the list, that follows; fields of a section end with its paragraph.
        section.defaults.setdefault(name, value.strip())
    for name in ("Where", "Switches", "Since"):
        if name in section.defaults:
            section.defaults[name] = section.defaults[name].split(". ")[0].rstrip(".")
    return section


PRIVATE = re.compile(r"FIBERRT_(?!VERSION_)\w*$|\w+_$")


def read_item(token, section, pending, note):
    """A Function, or a tuple for a Block, or None for what is not public."""
    if token.kind == "directive":
        match = re.match(r"#define (\w+)(\([^)]*\))?", token.text)
        if not match or PRIVATE.match(match.group(1)):
            return None
        if pending is not None and pending.text.startswith("/**"):
            parameters = [(name.strip(), name.strip()) for name in match.group(2).strip("()").split(",")]
            return documented(Function(match.group(1), token.line, section, "", parameters, macro=True), pending, note)
        return ("macro", match.group(1), token.text, "")
    if token.text.startswith("typedef"):
        match = re.search(r"\(\*(\w+)\)\([^)]*\);$|(\w+);$", token.text)
        return ("type", match.group(1) or match.group(2), token.text, "")
    if token.text.startswith("FIBERRT_API"):
        return documented(read_prototype(token, section), pending, note)
    return None


def read_prototype(token, section):
    text = " ".join(token.text.split())
    match = re.match(r"FIBERRT_API (.*?)(\w+)\((.*)\) FIBERRT_LINKNAME\((\w+)\)(?: FIBERRT_CHECK_RESULT)?;$", text)
    if not match:
        raise Mistake(f"line {token.line}: not a declaration as the others are: {text}")
    function = Function(match.group(2), token.line, section, match.group(1).strip(), link_name=match.group(4))
    for parameter in split_parameters(match.group(3)):
        if parameter != "void":
            name = re.search(r"\(\*(\w+)\)|(\w+)(?:\[\d*\])?$", parameter)
            function.parameters.append((parameter, name.group(1) or name.group(2)))
    return function


def split_parameters(text):
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def documented(function, pending, note):
    """Splits the comment into the description and the fields, which end it."""
    function.note = note
    if pending is None or not pending.text.startswith("/**"):
        return function
    lines = comment_lines(pending.text)
    for at, line in enumerate(lines):
        match = FIELD.search(line) or re.search(r"(?:(?<=\s)|^)(?:Where|Switches|Errors|Since):$", line)
        if match:
            function.text = lines[:at] + [line[: match.start()].rstrip()]
            parts = FIELD.split(" ".join([line[match.start() :]] + [rest.strip() for rest in lines[at + 1 :]]))
            for name, value in zip(parts[1::2], parts[2::2]):
                function.own[name] = value.strip().rstrip(".") if name != "Errors" else value.strip()
            break
    else:
        function.text = lines
    while function.text and not function.text[-1]:
        function.text.pop()
    return function


def complete_fields(function, header):
    """What a comment leaves out: of X_timeout it is as X has it, of all others as the section says."""
    function.fields = dict(function.own)
    base = None
    if function.name.endswith("_timeout"):
        base = header.function(function.name.removesuffix("_timeout"))
    defaults = dict(function.section.defaults) if function.section else {}
    if base is not None and base.section is function.section and defaults:
        for name in ("Where", "Switches", "Since"):
            if name in base.own:
                function.fields.setdefault(name, base.own[name])
        if "Errors" in base.own:
            function.fields.setdefault("Errors", f"as {base.name}; -ETIMEDOUT the time has passed")
        else:
            function.fields.setdefault("Errors", "-ETIMEDOUT the time has passed")
    for name in FIELDS:
        if name in defaults:
            function.fields.setdefault(name, "" if name == "Errors" else defaults[name])


# --- The structure of a comment's text ------------------------------------------------------------------------------

TAG = re.compile(
    r"^( {2,4})(?:(-E\w+(?:, -E\w+)*) +|([a-z]\w*) {2,}|(FIBER_\w+(?: \([^)]*\))?): )(\S.*)$")
BULLET = re.compile(r"^( {1,4})- (.*)$")


def indent(line):
    return len(line) - len(line.lstrip())


def structure(lines):
    """A list of ('text', str), ('code', [lines]), ('bullets', [str]) and ('tags', [(tag, str)])."""
    out, at = [], 0
    paragraph_open = False
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            paragraph_open = False
            at += 1
        elif TAG.match(line) or BULLET.match(line):
            pattern, kind = (TAG, "tags") if TAG.match(line) else (BULLET, "bullets")
            items = []
            while at < len(lines) and pattern.match(lines[at]):
                match = pattern.match(lines[at])
                text, at = [match.group(match.lastindex)], at + 1
                while at < len(lines) and indent(lines[at]) > len(match.group(1)) and not pattern.match(lines[at]):
                    text.append(lines[at].strip())
                    at += 1
                text = " ".join(text)
                items.append(text if kind == "bullets" else (match.group(2) or match.group(3) or match.group(4), text))
            out.append((kind, items))
            paragraph_open = False
        elif indent(line) >= 4:
            code = []
            while at < len(lines) and (indent(lines[at]) >= 4 or not lines[at].strip()):
                code.append(lines[at][4:])
                at += 1
            while code and not code[-1]:
                code.pop()
            out.append(("code", code))
            paragraph_open = False
        else:
            if paragraph_open:
                out[-1] = ("text", out[-1][1] + " " + line.strip())
            else:
                out.append(("text", line.strip()))
            paragraph_open = True
            at += 1
    return out


NAMES = r"-E[A-Z0-9]+(?:(?:,| or| and) -E[A-Z0-9]+)*(?:, …)?"


def split_errors(text):
    """The errors of a field: a list of ([names], explanation); no names for what is only told of."""
    parts = re.split(r"(?<=[;.])\s+(?=-E[A-Z0-9])|;\s+(?=(?:those|as|of)\b)", text.strip())
    out = []
    for part in parts:
        part = part.strip().rstrip(";.").strip()
        match = re.match(rf"({NAMES})(?=[\s,;.]|$),?\s*(.*)$", part, re.S)
        if match and not match.group(2):
            out += [([name], "") for name in re.findall(r"-E[A-Z0-9]+", match.group(1))]
        elif match:
            out.append((re.findall(r"-E[A-Z0-9]+", match.group(1)), match.group(2)))
        elif part and not re.match(r"none\b", part):
            out.append(([], part))
    return out
