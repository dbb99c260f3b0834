# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares the frames that fiber_backtrace has stored with the frames that gdb shows: gdb -batch -x gdb_stacks.py
gdb_stacks. FIBERRT_GDB_SCRIPT is the library's script for gdb, FIBERRT_STACKS the file that gdb_stacks writes. The last
line is the result.

With FIBERRT_QEMU, an emulator of another processor, gdb asks that for the registers and the memory. FIBERRT_SYSROOT has
the processor's C library, and FIBERRT_LIBRARIES is the folder of libfiberrt.so. With FIBERRT_FRAMES_MOST, only so many
frames of each fiber are compared.
"""

import contextlib
import os
import subprocess
import tempfile
import time
from pathlib import Path

import gdb

MADE_UP = (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME)  # gdb knows these by debug information; the stack does not have them


theirs = {}  # the frames of each fiber


def note_frames():
    """Notes the frames of the fiber that the library's script shows."""
    frame = gdb.newest_frame().older()  # the newest is the thread's
    found = []
    while frame is not None:
        if frame.type() not in MADE_UP:
            found.append(hex(frame.pc()))
        frame = frame.older()
    theirs[hex(Shown.id)] = found  # noqa: F821 - a class of the library's script


@contextlib.contextmanager
def emulated(qemu):
    """The program in the emulator, until it stops in the debugger. gdb talks to it by a socket."""
    sysroot = os.environ["FIBERRT_SYSROOT"]
    for setting in ("sysroot " + sysroot, "solib-search-path " + os.environ["FIBERRT_LIBRARIES"]):
        gdb.execute("set " + setting)
    program = [gdb.current_progspace().filename, os.environ["FIBERRT_STACKS"]]
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # short: the path of a socket is limited
        socket = Path(folder, "gdb")
        with subprocess.Popen([qemu, "-L", sysroot, "-g", socket, *program], stdin=subprocess.DEVNULL) as emulator:
            try:
                while not socket.exists():
                    if emulator.poll() is not None:
                        raise SystemExit(f"{qemu} ended with {emulator.returncode}")
                    time.sleep(0.01)
                gdb.execute(f"target remote {socket}")
                gdb.execute("continue")
                yield
                gdb.execute("kill")
            finally:
                emulator.kill()


def main():
    for setting in ("confirm off", "debuginfod enabled off", "backtrace limit 200"):
        gdb.execute("set " + setting)
    with contextlib.ExitStack() as at_end:
        if qemu := os.environ.get("FIBERRT_QEMU"):
            at_end.enter_context(emulated(qemu))
        else:
            try:
                gdb.execute("run " + os.environ["FIBERRT_STACKS"])
            except gdb.error as error:
                print("SKIPPED:", error)
                return
            at_end.callback(gdb.execute, "kill")
        compare()


def compare():
    gdb.execute("source " + os.environ["FIBERRT_GDB_SCRIPT"])
    gdb.execute("fiber apply all python note_frames()", to_string=True)
    same = 0
    most = int(os.environ.get("FIBERRT_FRAMES_MOST", "1000"))
    for line in Path(os.environ["FIBERRT_STACKS"]).read_text().splitlines():
        fiber, *ours = line.split()
        gdbs = theirs.get(fiber, ["none"])
        if ours[:most] == gdbs[:most]:
            same += 1
        else:
            print("fiber", fiber, "ours:", *ours, "gdb's:", *gdbs)
    print(f"{same} fibers have the same frames")


main()
