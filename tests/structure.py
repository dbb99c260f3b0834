#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints figures of how the sources hang together, next to the goals in docs/design.md, "The structure in figures".
Fails if a figure is worse than its goal, or than the table's limit where the table has one, or if the table and the
figures differ in names. The minutes of CI are only printed: they depend on the machine's other work.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import layers

LONG = 450
LONG_IN_API = 200


def text_of(path):
    return path.read_text(errors="replace") if path.exists() else ""


def lines_of(path):
    return len(text_of(path).splitlines())


def tracked(source, pattern):
    """The files that git tracks; without git all files that are there."""
    if shutil.which("git"):
        found = subprocess.run(["git", "ls-files", "--", pattern], cwd=source, capture_output=True, text=True)
        if found.returncode == 0:
            return [path for path in (source / name for name in found.stdout.splitlines()) if path.exists()]
    return [path for path in source.rglob(pattern) if "build" not in path.relative_to(source).parts]


def members(text, name):
    """How many members a struct has itself, and how many of these are structs that it declares."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    begin = re.search(rf"^struct (?:alignas\(\w+\) )?{name}\b[^;{{]*{{", text, re.MULTILINE)
    if not begin:
        return 0, 0
    # The declarations, each pair of braces without its contents.
    declarations, declaration, depth = [], "", 0
    for char in text[begin.end() :]:
        if char == "}":
            depth -= 1
            if depth < 0:
                break
        if depth == 0:
            declaration += char
        if char == "{":
            depth += 1
        ends_function = char == "}" and depth == 0 and re.search(r"\)[^()=]*{}$", declaration)
        if depth == 0 and (char == ";" or ends_function):
            declarations.append(declaration.strip())
            declaration = ""
    declared = {match[1] for match in (re.match(r"(?:struct|union) (\w+) *{", text) for text in declarations) if match}
    count = structs = 0
    for declaration in declarations:
        declaration = re.sub(r"^(private|public|protected):\s*|alignas\(\w+\) ", "", declaration)
        if re.match(r"(using|static|friend|constexpr)\b|(struct|union|enum|class) \w+( *{})?;", declaration):
            continue
        if "(" in declaration and "(*" not in declaration:  # a function
            continue
        if declaration == ";":
            continue
        count += 1
        structs += bool(re.match(r"(struct|union) (\w+ )?{} *\w", declaration)) or declaration.split()[0] in declared
    return count, structs


def files_to_change(contributing, heading):
    """The number of steps in one of CONTRIBUTING's lists, and the number of changes that it asks for by convention."""
    section = contributing.partition(f"### {heading}\n")[2].partition("\n#")[0]
    by_convention = re.search(r"By convention also: (.*?)\.(\s|$)", section, re.DOTALL)
    return len(re.findall(r"^\d+\. ", section, re.MULTILINE)), len(re.findall("`[^`]*`", by_convention[1]))


def figures(source, nm, objects):
    files, cycles, taken, _wrong = layers.examine(source, nm, objects)
    lengths = {str(path.relative_to(source)): lines_of(path) for path in files}
    in_api = {name: lines for name, lines in lengths.items() if name.startswith("src/api/")}
    yield "objects in the largest cycle of calls", max(map(len, cycles), default=0), f"{len(cycles)} cycles"
    yield "symbols that core takes from io, sync, sim", sum(len(taken["core", of]) for of in ("io", "sync", "sim")), ""
    yield "symbols that sync takes from io", len(taken["sync", "io"]), ""
    over = [name for name, lines in in_api.items() if lines > LONG_IN_API]
    longest = max(in_api, key=in_api.get)
    yield f"files of src/api over {LONG_IN_API} lines", len(over), f"the longest: {longest}, {in_api[longest]}"
    over = [name for name, lines in lengths.items() if lines > LONG]
    longest = max(lengths, key=lengths.get)
    yield f"files of src over {LONG} lines", len(over), f"the longest: {longest}, {lengths[longest]}"
    for name, header in (("CordWorld", "cord.h"), ("Fiber", "fiber.h")):
        count, structs = members(text_of(source / "src/core" / header), name)
        yield f"members of {name} itself", count, f"{structs} of them are its own structs"
    hosted = [path for path in files if path.parent.name != "stackless" and "hosted" in text_of(path).lower()]
    yield "files outside src/stackless that name hosted fibers", len(hosted), ""
    contributing = text_of(source / "CONTRIBUTING.md")
    for what in ("primitive", "blocking call"):
        forced, by_convention = files_to_change(contributing, f"Adding a {what}")
        yield f"files that must change for a {what}", forced, ""
        yield f"files that change by convention for a {what}", by_convention, ""
    fuzz = text_of(source / "fuzz/CMakeLists.txt")
    planted = re.findall(r"\[\[(?:s|/[^\]\n]*/s)\W", fuzz + text_of(source / "tests/sim.cmake"))
    yield "planted bugs that are sed on source lines", len(planted), ""
    left_out = re.sub("#[^\n]*", "", "".join(re.findall(r"set\(left_out_\w+([^)]*)\)", fuzz)))
    inner = len(left_out.split()) + len(re.findall("--wrap=_Z", fuzz))
    yield "inner functions that fuzz/CMakeLists.txt names", inner, ""
    tools = sum(map(lines_of, tracked(source, "tools/dev/*.py")))
    yield "lines of dev", lines_of(source / "dev"), f"tools/dev has {tools} of Python"
    yield "shell scripts", len(tracked(source, "*.sh")), ""
    seconds = json.loads(text_of(source / "build/seconds.json") or "{}")
    ci = [seconds[command] for command in ("test", "test --all") if command in seconds]
    yield "minutes of ./dev test and ./dev test --all", sum(ci) / 60 if len(ci) == 2 else None, ""


def goals(source):
    """By figure: the goal and the limit."""
    section = text_of(source / "docs/design.md").partition("## The structure in figures\n")[2].partition("\n## ")[0]
    found = {}
    rows = re.findall(r"^\| ([^|]+?) \| (\d+) \|(?: at most (\d+):[^|]*|\s*)\|$", section, re.MULTILINE)
    for figure, goal, allowed in rows:
        found[figure] = int(goal), int(allowed or goal)
    return found


def main():
    arguments = layers.arguments_of_build(__doc__)
    source = arguments.source.resolve()
    limits, wrong, names = goals(source), [], set()
    print(f"{'':52}{'now':>6}{'goal':>6}")
    for name, value, more in figures(source, arguments.nm, arguments.objects):
        names.add(name)
        goal, allowed = limits.get(name, (None, None))
        verdict = ""
        if goal is None:
            wrong.append(f"docs/design.md has no goal for: {name}")
        elif value is not None and value > allowed and not name.startswith("minutes"):
            wrong.append(f"{name}: {value:g}, and docs/design.md allows {allowed}")
        elif value is not None and value > goal:
            verdict = "missed: docs/design.md says why"
        shown = "?" if value is None else f"{value:.0f}"
        told = "; ".join(filter(None, (verdict, more)))
        print(f"{name:52}{shown:>6}{'?' if goal is None else goal:>6}  {told}".rstrip())
    wrong += [f"docs/design.md has a goal for an unknown figure: {name}" for name in limits.keys() - names]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


sys.exit(main())
