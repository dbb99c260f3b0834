#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks the spelling of every text file in git by codespell, except the words in spelling-words.txt; and that codespell
finds a planted mistake.

usage: spelling.py SOURCE     (CODESPELL: the program, codespell without it)
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NOT_CHECKED = 77  # CTest then counts the test as skipped
# No person writes these: inputs of the fuzz targets, and the record of the binary interface.
LEFT_OUT = r"fuzz/corpus|abi/.*\.abi$"


def tracked(source):
    """The regular files that git tracks; None outside a checkout, or without git."""
    try:
        done = subprocess.run(["git", "ls-files", "-sz"], cwd=source, capture_output=True, text=True)
    except OSError:
        return None
    if done.returncode:
        return None
    rows = [row.split("\t", 1) for row in done.stdout.split("\0") if row]
    return [name for mode, name in rows if mode.startswith("100") and not re.match(LEFT_OUT, name)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    source = parser.parse_args().source
    program = os.environ.get("CODESPELL", "codespell")
    if not shutil.which(program):
        print(f"NOT CHECKED: there is no {program} (package codespell)")
        return NOT_CHECKED
    files = tracked(source)
    if files is None:
        print("NOT CHECKED: these sources are not in git, or there is no git")
        return NOT_CHECKED
    files = [name for name in files if (source / name).is_file()]
    list_of_words = "tests/spelling-words.txt"
    lines = (source / list_of_words).read_text(encoding="utf-8").splitlines()
    words = [line.split()[0] for line in lines if line and not line.startswith("#")]
    failed = [f"{list_of_words} gives no reason for a word: {line}" for line in lines if line and " " not in line]
    texts = [(source / name).read_bytes().lower() for name in files if name != list_of_words]
    failed += [f"{list_of_words} has {word}, which no file has" for word in words
               if not any(re.search(rb"\b" + word.encode() + rb"\b", text) for text in texts)]  # fmt: skip
    if len(files) < 500:
        failed.append(f"only {len(files)} files were found: is {source} the source tree?")

    with tempfile.TemporaryDirectory() as folder:
        ignored = Path(folder, "words")
        ignored.write_text("".join(f"{word}\n" for word in words))
        planted = Path(folder, "planted")
        mistake = "rec" + "ieves"  # in two parts, as this file is checked too
        planted.write_text(f"The fiber {mistake} a byte.\n")

        def found(names):
            done = subprocess.run([program, "-I", ignored, *names], cwd=source, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace")  # fmt: skip
            return done.stdout if done.returncode else ""

        if mistake not in found([planted]):
            failed.append(f"{program} does not find a mistake")
        failed += [f"misspelled: {line}" for line in found(files).splitlines()]
    for line in failed:
        print(f"FAILED: {line}")
    if failed:
        print(f"A word that is right goes into {list_of_words}, with its reason.")
        return 1
    print(f"{len(files)} files are spelled well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
