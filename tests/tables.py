#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Breaks each table of the library in a copy of the sources, one at a time: the build then fails, and names the mistake
in one sentence. Usage: tables.py SOURCE_DIR FOLDER, with the compilers in CC and CXX."""

import json
import os
from pathlib import Path
import re
import shlex
import shutil
import subprocess
import sys

MOMENT = 'X(moment, "moment", none, other)'
NEW_OP = ("src/io/ops.h", MOMENT, f'{MOMENT} X(latch, "latch", none, other)')
LACKS_OP = "enumeration value 'latch' not handled in switch"
# A file, a text in it, its replacement; the target, or file of the sources, to build then; and the expected sentence.
BROKEN = [
    (*NEW_OP, "src/backend/uring.cc", LACKS_OP),
    (*NEW_OP, "src/io/blocking_fallback.cc", LACKS_OP),
    (*NEW_OP, "src/io/try_op.cc", LACKS_OP),
    ("src/io/ops.h", '"fsync"', '', "src/io/op.cc", "src/io/ops.h: the operation fsync has no name"),
    ("src/io/ops.h", '"fsync"', '""', "src/io/op.cc", "src/io/ops.h: the operation fsync has no name"),
    ("src/core/wait.h", '"sleeps"', '', "src/core/scheduler.cc", "src/core/wait.h: the reason time has no text"),
    ("src/debug/texts.h", '"running"', '', "src/debug/dump_text.cc", "src/debug/texts.h: the state running has no text"),
    ("src/debug/texts.h", 'X(dead, "ended, not joined")', '', "src/debug/dump_text.cc",
     "enumeration value 'dead' not handled in switch"),
    ("src/core/fiber.h", "    dead,", "    dead, lost,", "src/debug/dump_text.cc",
     "enumeration value 'lost' not handled in switch"),
    ("src/sim/choice_source.cc", '"stack",', '', "src/sim/choice_source.cc", "src/sim/choice_source.cc: a Site has no name"),
    ("include/fiberrt.h", "Since: 0.1\n */\nFIBERRT_API int fiber_set_fork_policy(",
     "\n */\nFIBERRT_API int fiber_set_fork_policy(", "fiberrt_names",
     'fiber_set_fork_policy: no "Since:" says which release it comes with'),
    ("include/fiberrt.h", "FIBERRT_LINKNAME(fiber_cord_fd)", "FIBERRT_LINKNAME(fiber_cord_df)", "fiberrt_names",
     "fiber_cord_fd is declared with the linker name of fiber_cord_df"),
    ("include/fiberrt.h", "/** Destroys a barrier. Errors: -EBUSY a caller waits at it. */", "", "manual",
     "fiber_barrier_destroy has no comment to make its page of"),
]


def run(command, folder):
    env = dict(os.environ, LC_ALL="C")
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    return done.returncode, done.stdout


def make_copy(source, folder):
    shutil.rmtree(folder, ignore_errors=True)
    left_out = shutil.ignore_patterns("build", ".git", "corpus", "bindings", "__pycache__")
    shutil.copytree(source, folder / "copy", ignore=left_out)
    options = ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DCMAKE_BUILD_TYPE=Debug"]
    options += [f"-DFIBERRT_{part}=OFF" for part in ("TESTS", "TOOLS", "EXAMPLES")]
    for name, variable in (("C", "CC"), ("CXX", "CXX")):
        if variable in os.environ:
            options.append(f"-DCMAKE_{name}_COMPILER={os.environ[variable]}")
    status, said = run(["cmake", "-S", "copy", "-B", "build"] + options, folder)
    if status:
        sys.exit(said)


def compilation(folder, what):
    """How the build compiles that file, but without making an object; None: it does not."""
    for entry in json.loads((folder / "build" / "compile_commands.json").read_text()):
        if entry["file"] == str(folder / "copy" / what):
            words = shlex.split(entry["command"])
            at = words.index("-o")
            return words[:at] + words[at + 2 :] + ["-fsyntax-only"], entry["directory"]
    return None


def build(folder, what):
    if "/" not in what:
        return run(["cmake", "--build", "build", "--target", what], folder)
    how = compilation(folder, what)
    return run(*how) if how else None


def main():
    source, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    make_copy(source, folder)
    tables = {row[0] for row in BROKEN}
    failed = 0
    for what in sorted({row[3] for row in BROKEN}):
        whole = build(folder, what)
        if whole and whole[0]:
            sys.exit(f"FAILED: {what} cannot be built as it is: {whole[1]}")
    for name, before, after, what, sentence in BROKEN:
        text = (source / name).read_text()
        if text.count(before) < 1:
            sys.exit(f"FAILED: tests/tables.py: {name} does not have {before!r}")
        (folder / "copy" / name).write_text(text.replace(before, after, 1))
        done = build(folder, what)
        (folder / "copy" / name).write_text(text)
        if not done and what == "src/backend/uring.cc":
            print(f"LEFT OUT: {what} is not built here, without liburing")
            continue
        if not done:
            failed += 1
            print(f"FAILED: no command of the build compiles {what}")
            continue
        lines = done[1].splitlines()
        errors = [line for line in lines if re.search(r"\berror:", line)]
        errors = errors or [line for line in lines if sentence in line] # not a compiler's
        if done[0] and len(errors) == 1 and sentence in errors[0]:
            print(f"told: {sentence}")
            continue
        failed += 1
        print(f"FAILED: {name} with {after!r} for {before!r}: instead of '{sentence}', {what} said: {done[1]}")
    if failed:
        sys.exit(1)
    print(f"ok: {len(tables)} tables")


if __name__ == "__main__":
    main()
