# SPDX-License-Identifier: MIT OR Apache-2.0
"""dump(): the stacks of all fibers."""

from __future__ import annotations

import sys

from . import _fiberrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def dump(file: TextIO | None = None) -> None:
    """Write every live fiber of every thread, the reason why it waits, and its stack, the innermost call last."""
    import threading  # imported here, because they take longer to import than this package
    import traceback

    file = file or sys.stderr
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    last = None
    for fiber in _fiberrt.fibers():
        ident = _fiberrt.thread_of(fiber)
        if ident != last:
            file.write(f"Thread {names.get(ident, ident)}\n")
            last = ident
        file.write(f"  {fiber!r}\n")
        frame = _fiberrt.frame(fiber)
        if frame is not None:
            for line in traceback.format_stack(frame):
                file.write("".join(f"  {part}\n" for part in line.rstrip("\n").split("\n")))
