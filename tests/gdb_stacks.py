# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares the frames that fiber_backtrace has stored with the frames that gdb shows: gdb -batch -x gdb_stacks.py
gdb_stacks. FIBERRT_GDB_SCRIPT is the library's script for gdb, FIBERRT_STACKS the file that gdb_stacks writes. The last
line is the result.
"""

import os
from pathlib import Path

import gdb

MADE_UP = (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME)  # gdb knows these by debug information; the stack does not have them


def frames_in_gdb(fiber):
    gdb.execute("fiber " + fiber, to_string=True)
    frame = gdb.newest_frame().older()  # the newest is the thread's
    while frame is not None:
        if frame.type() not in MADE_UP:
            yield frame.pc()
        frame = frame.older()


def main():
    for setting in ("confirm off", "debuginfod enabled off", "backtrace limit 200"):
        gdb.execute("set " + setting)
    try:
        gdb.execute("run " + os.environ["FIBERRT_STACKS"])
    except gdb.error as error:
        print("SKIPPED:", error)
        return
    gdb.execute("source " + os.environ["FIBERRT_GDB_SCRIPT"])
    same = 0
    for line in Path(os.environ["FIBERRT_STACKS"]).read_text().splitlines():
        fiber, *ours = line.split()
        theirs = [hex(pc) for pc in frames_in_gdb(fiber)]
        if ours == theirs:
            same += 1
        else:
            print("fiber", fiber, "ours:", *ours, "gdb's:", *theirs)
    gdb.execute("kill")
    print(f"{same} fibers have the same frames")


main()
