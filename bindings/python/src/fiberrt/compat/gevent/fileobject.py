# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.fileobject: files that wait as fibers do."""

from __future__ import annotations

import io
import os
from typing import Any

from .os import nb_read, nb_write

__all__ = ["FileObject", "FileObjectBlock", "FileObjectPosix", "FileObjectThread"]


class _Raw(io.FileIO):
    """An unbuffered file whose reads and writes let other fibers run."""

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = nb_read(self.fileno(), len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        parts = []
        while data := nb_read(self.fileno(), 64 * 1024):
            parts.append(data)
        return b"".join(parts)

    def read(self, size: int | None = -1, /) -> bytes:
        return self.readall() if size is None or size < 0 else nb_read(self.fileno(), size)

    def write(self, data: Any, /) -> int:
        return nb_write(self.fileno(), data)


def FileObjectPosix(
    fobj: Any, mode: str = "r", bufsize: int | None = None, close: bool | None = None, encoding: str | None = None,
    errors: str | None = None, newline: str | None = None, buffering: int | None = None, closefd: bool | None = None,
) -> Any:  # fmt: skip
    """Return a file for a descriptor, a path or a file, whose reads and writes let other fibers run while a pipe,
    terminal or the like makes them wait. Other arguments: as for io.open(); bufsize and close are other names of
    buffering and closefd. The descriptor of a file is duplicated."""
    size = next((each for each in (bufsize, buffering) if each is not None), -1)
    close = next((each for each in (close, closefd) if each is not None), True)
    if isinstance(fobj, (str, bytes, os.PathLike)):
        return io.open(fobj, mode, size, encoding, errors, newline, close)
    binary = mode.replace("b", "").replace("t", "").replace("U", "") or "r"
    text = "b" not in mode
    if isinstance(fobj, int):
        raw: Any = _Raw(fobj, binary, closefd=close)
    else:
        fobj.flush()
        fobj = os.dup(fobj.fileno())
        try:
            raw = _Raw(fobj, binary)
        except BaseException:
            os.close(fobj)
            raise
    if size == 0 and not text:
        return raw
    room = size if size > 1 else io.DEFAULT_BUFFER_SIZE
    buffered: Any
    if "+" in mode:
        buffered = io.BufferedRandom(raw, room)
    elif "r" in mode or not binary.strip("U"):
        buffered = io.BufferedReader(raw, room)
    else:
        buffered = io.BufferedWriter(raw, room)
    if not text:
        return buffered
    return io.TextIOWrapper(buffered, encoding, errors, newline, size == 1, size == 0)


FileObject = FileObjectThread = FileObjectBlock = FileObjectPosix
