#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which lines of src/ the tests have reached, of a build with -DFIBERRT_COVERAGE=ON whose tests have run.

report.py SOURCE_DIR BUILD_DIR LEAST - prints each file's share, the functions with lines that nothing reached, with the
reasons that marks.py finds, and the whole. Ends with 1 if the whole is less than LEAST percent, or if a comment has no
key of reasons.txt. A line without a reason is reported loudly, but does not fail: threads reach some lines only if
they happen to meet.
"""

import collections
import gzip
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from marks import Marks, read_reasons


def counts(source, build):
    """{file: {line: (count, function)}}, of all objects together: a header is in many."""
    data = []
    for folder, _, names in os.walk(os.path.join(build, "src")):
        data += [os.path.join(folder, name) for name in names if name.endswith(".gcno")]
    if not data:
        sys.exit(f"report.py: {build} was not built with -DFIBERRT_COVERAGE=ON")
    if not any(os.path.exists(name[:-5] + ".gcda") for name in data):
        sys.exit(f"report.py: no test of {build} has run")
    lines = collections.defaultdict(dict)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([os.environ.get("GCOV", "gcov"), "--json-format", "--demangled-names", "--hash-filenames",
                        *map(os.path.abspath, data)],
                       cwd=work, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name in os.listdir(work):
            with gzip.open(os.path.join(work, name)) as report:
                told = json.load(report)
            at = told["current_working_directory"]
            for file in told["files"]:
                path = os.path.relpath(os.path.realpath(os.path.join(at, file["file"])), os.path.realpath(source))
                if not path.startswith("src/"):
                    continue
                functions = {function["name"]: plain(function["demangled_name"]) for function in file["functions"]}
                if not file["lines"]:
                    continue
                of_file = lines[path]
                for line in file["lines"]:
                    number = line["line_number"]
                    count, function = of_file.get(number, (0, "?"))
                    function = functions.get(line.get("function_name"), function)
                    of_file[number] = (count + line["count"], function)
    return lines


def plain(name):
    """A function's name without namespaces, arguments and return type."""
    name = name.replace("(anonymous namespace)::", "").replace("fiberrt::", "")
    depth, kept = 0, ""
    for character in name:  # without template arguments
        depth += (character == "<") - (character == ">")
        if depth == 0 and character != ">":
            kept += character
    return kept.split("(")[0].split()[-1].lstrip("*&") if kept.split("(")[0].split() else name


def ranges(numbers):
    """3, 4, 5, 9 as "3-5, 9"."""
    parts = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def main():
    source, build, least = sys.argv[1], sys.argv[2], float(sys.argv[3])
    lines = counts(source, build)
    reasons = read_reasons(os.path.join(os.path.dirname(os.path.abspath(__file__)), "reasons.txt"))
    marks = Marks(source, reasons)
    used, without = set(), []
    reached = total = 0
    print("   lines  reached")
    for path in sorted(lines):
        of_file = lines[path]
        hit = sum(count > 0 for count, _ in of_file.values())
        reached, total = reached + hit, total + len(of_file)
        print(f"   {len(of_file):5}  {100 * hit / len(of_file):5.1f} %  {path}")
    print("\nnot reached, and why:")
    for path in sorted(lines):
        missed = collections.defaultdict(list)
        for number, (count, function) in lines[path].items():
            if count == 0 and not marks.says_nothing(path, number):
                mark = marks.find(path, number)
                used.add(mark)
                missed[function, mark.key if mark else ""].append(number)
        for (function, key), numbers in sorted(missed.items(), key=lambda item: min(item[1])):
            text = f"{path}:{ranges(numbers)} {function}"
            if not key:
                without.append(text)
            print(f"   {text}: {reasons[key] if key else 'NO REASON GIVEN'}")
    for mark in marks.all():
        if mark not in used:
            print(f"   all is reached this time: {mark}")
    share = 100 * reached / total
    print(f"\n{share:.2f} % of {total} lines of src/ were reached; {least:g} % are wanted")
    if without:
        print(f"NO REASON in src/ for the lines of {len(without)} functions:", *without, sep="\n   ")
    if marks.wrong:
        print("WRONG comments:", *marks.wrong, sep="\n   ")
    return 1 if share < least or marks.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
