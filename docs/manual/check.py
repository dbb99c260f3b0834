# SPDX-License-Identifier: MIT OR Apache-2.0
"""Looks for mistakes in the header's comments, and in the pages made of them."""

import errno
import re
import subprocess

from header import FIELDS, split_errors
from pages import GENERAL_ON_PAGES, home

# Places that do not exist on a separate page, where the header's reader would find them above or below.
POSITION = re.compile(r"\b(?:see|said|told|as|seen|I/O|signals|errors|the (?:two|three|four|five|six)|of them|listed)"
                      r" (above|below)\b(?! \d)|\((?:see )?(above|below)\)")


def home_of(block, name, header, names):
    """The page where a type or constant is explained: (name, section)."""
    if block.section is None and not set(block.names()) & set(GENERAL_ON_PAGES):
        return "fiberrt", "7"
    page = home(block, names, header, name)
    if page is not None:
        return page, "3"
    if block.section is not None and block.section.title in names.topics:
        return names.topics[block.section.title], "7"
    return "fiberrt", "7"


def comments(header, exported):
    """What is wrong with the comments: a line for each mistake. exported: the library's functions, {name: release}."""
    return (fields(header) + constants(header) + errors(header) + positions(header) + exports(header, exported)
            + references(header))


def made(header, pages, folder):
    """What is wrong with the pages, which `folder` has as files."""
    return names_on_pages(header, pages) + links(pages) + lint(folder)


def without_example(names):
    """Pages of several functions need an example (see examples/examples.h): a line for each that has none."""
    return [f"the page {page} has no example" for page, (_, functions) in names.groups.items()
            if len(functions) > 1 and not any(function.name in names.examples for function in functions)]


def has_release(function):
    return re.fullmatch(r"\d+\.\d+", function.fields.get("Since", ""))


def fields(header):
    out = []
    for function in header.functions:
        where = f"line {function.line}: {function.name}"
        if not " ".join(function.text).strip():
            out.append(f"{where}: it has no description")
        for name in FIELDS:
            if name not in function.fields or (name != "Errors" and not function.fields[name]):
                out.append(f"{where}: the field {name} is missing")
        switches = function.fields.get("Switches")
        if switches and not re.match(r"(yes|no)\b", switches):
            out.append(f"{where}: Switches begins with neither yes nor no: {switches}")
        if function.fields.get("Errors") and not split_errors(function.fields["Errors"]):
            if not re.match(r"none\b", function.fields["Errors"]):
                out.append(f"{where}: Errors are not understood")
        if function.fields.get("Since") and not has_release(function):
            out.append(f"{where}: Since is no release: {function.fields['Since']}")
    return out


def texts(header):
    """Every comment: (where it is, lines)."""
    yield "the comment at the head", header.head
    for section in header.sections:
        yield f'section "{section.title}"', section.intro
    for function in header.functions:
        yield f"line {function.line}: {function.name}", function.text + [f"{name}: {text}" for name, text in
                                                                         function.own.items()]
        if function.note:
            yield f"the comment before {function.name}", function.note
    for block in header.blocks:
        yield f"line {block.line}: {block.names()[0]}", block.comment + [behind for _, _, _, behind in block.items]


def errors(header):
    out = []
    for where, lines in texts(header):
        for name in re.findall(r"(?<![\w-])-?(E[A-Z0-9]{2,})\b(?!_)", " ".join(lines)):
            if not hasattr(errno, name) and name not in ("EXCHANGE",):
                out.append(f"{where}: there is no error {name}")
    return sorted(set(out))


def positions(header):
    out = []
    for function in header.functions:
        text = " ".join(line.strip() for line in function.text + list(function.own.values()))
        match = POSITION.search(text)
        if match:
            out.append(f"line {function.line}: {function.name}: on its page there is nothing {match.group()!r}: "
                       "name it, or the section in quotation marks")
    return out


def exports(header, exported):
    """Where this and src/exported.awk, which makes the library's names, read the header differently."""
    out = []
    for function in header.functions:
        if function.macro or function.section.include != "fiberrt.h":
            continue
        if function.name not in exported:
            out.append(f"line {function.line}: {function.name} is not among the exported names")
        elif exported[function.name] != function.fields.get("Since", "") and has_release(function):
            out.append(f"line {function.line}: {function.name} is exported as of {exported[function.name]}, and is not")
        if function.link_name != function.name:
            out.append(f"line {function.line}: {function.name} has the linker name of {function.link_name}")
    declared = {function.name for function in header.functions}
    for name in sorted(set(exported) - declared):
        out.append(f"the exported name {name} is not in the header")
    return out


def references(header):
    """Names in comments that nothing has."""
    known = {function.name for function in header.functions} | {"fiberrt_fiber_dump", "fiberrt_"}
    known |= {parameter for function in header.functions for _, parameter in function.parameters}
    for block in header.blocks:
        known |= set(block.names())
    out = []
    for where, lines in texts(header):
        for name in re.findall(r"\b(?:fiber|FIBER)_\w+\b(?!\.[ch])", " ".join(lines)):
            # FIBER_OP_* and the like stand for several.
            if name not in known and not (name.endswith("_") and any(other.startswith(name) for other in known)):
                out.append(f"{where}: there is nothing called {name}")
    return sorted(set(out))


def constants(header):
    """Types and constants that nothing is said about."""
    out = []
    for block in header.blocks:
        if not block.comment:
            out += [f"line {block.line}: {name}: it has no description"
                    for _, name, _, behind in block.items if not behind]
    return out


def names_on_pages(header, pages):
    """Each public name stands on a page, and can be asked for by man."""
    out = []
    whole = "\n".join("\n".join(lines) for lines in pages.values())
    for function in header.functions:
        if (function.name, "3") not in pages:
            out.append(f"there is no page for {function.name}")
    for block in header.blocks:
        for name in block.names():
            if not re.search(rf"\b{name}\b", whole):
                out.append(f"line {block.line}: {name} is on no page")
    return out


def links(pages):
    """Aliases lead to pages that tell of them, and references to pages that there are."""
    out = []
    ours = re.compile(r"(fiber|FIBER)[\w-]*")
    for (name, section), lines in pages.items():
        if lines[0].startswith(".so "):
            target = re.fullmatch(r"\.so man(\d)/(.+)\.\1", lines[0])
            text = pages.get((target.group(2), target.group(1))) if target else None
            if text is None:
                out.append(f"{name}({section}): leads to {lines[0][4:]}, which there is not")
            elif not any(re.search(rf"\b{name}\b", line) for line in text):
                out.append(f"{name}({section}): leads to {target.group(2)}, which does not tell of it")
            continue
        for line in lines:
            for other, number in re.findall(r"\bXr (\S+) (\d)", line):
                if ours.fullmatch(other) and (other, number) not in pages:
                    out.append(f"{name}({section}): refers to {other}({number}), which there is not")
    return out


def lint(folder):
    files = sorted(path for path in folder.glob("man?/*") if not path.read_text(encoding="utf-8").startswith(".so "))
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *map(str, files)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, check=False)
    text = done.stdout.decode().replace(str(folder) + "/", "")
    if done.returncode and not text:
        text = f"mandoc ended with {done.returncode}"
    return [line for line in text.split("\n") if line]
