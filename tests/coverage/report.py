#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which lines of src/ the tests have reached, of a build with -DFIBERRT_COVERAGE=ON whose tests have run.

report.py SOURCE_DIR BUILD_DIR LEAST - prints each file's share, the functions with lines that nothing reached, with the
reason of reasons.txt, and the whole. Ends with 1 if the whole is less than LEAST percent. A function without a reason is
told of loudly, and does not fail: whether a line is reached that threads must meet for is luck.
"""

import collections
import fnmatch
import gzip
import json
import os
import subprocess
import sys
import tempfile


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
    """A function's name without namespaces, arguments and what it returns."""
    name = name.replace("(anonymous namespace)::", "").replace("fiberrt::", "")
    depth, kept = 0, ""
    for character in name:  # without template arguments
        depth += (character == "<") - (character == ">")
        if depth == 0 and character != ">":
            kept += character
    return kept.split("(")[0].split()[-1].lstrip("*&") if kept.split("(")[0].split() else name


def read_reasons(path):
    """[(file, function, reason)], the first two as patterns."""
    reasons = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                where, function, reason = line.split(None, 2)
                reasons.append((where, function, reason.strip()))
    return reasons


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
            if count == 0:
                missed[function].append(number)
        for function, numbers in sorted(missed.items(), key=lambda item: min(item[1])):
            why = [reason for reason in reasons if fnmatch.fnmatchcase(path, reason[0])
                   and fnmatch.fnmatchcase(function, reason[1])]
            used.update(why[:1])
            if not why:
                without.append(f"{path} {function}")
            print(f"   {path}:{ranges(numbers)} {function}: {why[0][2] if why else 'NO REASON GIVEN'}")
    for reason in reasons:
        if reason not in used:
            print(f"   all is reached this time: {reason[0]} {reason[1]}")
    share = 100 * reached / total
    print(f"\n{share:.2f} % of {total} lines of src/ were reached; {least:g} % are wanted")
    if without:
        print(f"NO REASON in tests/coverage/reasons.txt for {len(without)} functions:", *without, sep="\n   ")
    return 1 if share < least else 0


if __name__ == "__main__":
    sys.exit(main())
