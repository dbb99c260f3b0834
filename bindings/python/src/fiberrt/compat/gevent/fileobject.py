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


def FileObjectPosix(fobj: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    """Return a file for a descriptor, a path or a file, whose reads and writes let other fibers run while a pipe,
    terminal or the like makes them wait. Other arguments: as for io.open(); bufsize is another name of buffering. The
    descriptor of a file is duplicated."""
    kwargs["buffering"] = kwargs.pop("bufsize", kwargs.get("buffering", -1))
    close = kwargs.pop("close", kwargs.pop("closefd", True))
    if isinstance(fobj, (str, bytes, os.PathLike)):
        return io.open(fobj, mode, *args, **kwargs)
    if not isinstance(fobj, int):
        fobj.flush()
        fobj = os.dup(fobj.fileno())
        close = True
    binary = mode.replace("b", "").replace("t", "").replace("U", "") or "r"
    raw: Any = _Raw(fobj, binary, closefd=close)
    buffering = args[0] if args else kwargs["buffering"]
    text = "b" not in mode
    if buffering == 0 and not text:
        return raw
    size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
    buffered: Any
    if "+" in mode:
        buffered = io.BufferedRandom(raw, size)
    elif "r" in mode or not binary.strip("U"):
        buffered = io.BufferedReader(raw, size)
    else:
        buffered = io.BufferedWriter(raw, size)
    if not text:
        return buffered
    known = {name: kwargs[name] for name in ("encoding", "errors", "newline") if name in kwargs}
    return io.TextIOWrapper(buffered, line_buffering=buffering == 1, write_through=buffering == 0, **known)


FileObject = FileObjectThread = FileObjectBlock = FileObjectPosix
