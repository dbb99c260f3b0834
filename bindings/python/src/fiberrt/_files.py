# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that wait as fibers do: open(), and the types of the files that it returns."""

from __future__ import annotations

import io
import os
import sys
from itertools import permutations
from typing import Any

from ._fiberrt import BufferedRandom, BufferedReader, BufferedRWPair, BufferedWriter, FileCall, FileIO, TextIOWrapper

__all__ = ["BufferedRWPair", "BufferedRandom", "BufferedReader", "BufferedWriter", "FileIO", "TextIOWrapper", "open"]

_open = io.open  # before fiberrt.monkey replaces it


def _modes() -> dict[str, tuple[str, Any, bool]]:
    """For each valid mode: the mode of FileIO, the type of the buffered file, and whether it is a text file."""
    modes = {}
    for kind in "rwax":
        for parts in (kind, kind + "b", kind + "t", kind + "+", kind + "+b", kind + "+t"):
            buffered: Any = BufferedRandom if "+" in parts else BufferedReader if kind == "r" else BufferedWriter
            for order in permutations(parts):
                modes["".join(order)] = parts.rstrip("bt"), buffered, "b" not in parts
    return modes


_MODES = _modes()


def _open_file(
    file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: str | None = None,
    newline: str | None = None, closefd: bool = True, opener: Any = None,
) -> Any:  # fmt: skip
    """The builtin open(), for fibers: opening, reading, writing and closing the file let other fibers run while they
    wait. Arguments, results and errors are those of the builtin open().

    Data in the page cache is read at once, without a switch. A cancel or a time limit ends the wait for a FIFO, a pipe
    or a terminal, and also a read from a disk, with CancelledError; a write to a disk is completed. Fibers that use a
    file at the same time take turns.
    """
    known = _MODES.get(mode) if isinstance(mode, str) else None
    if known is None or not isinstance(buffering, int):
        return _open(file, mode, buffering, encoding, errors, newline, closefd, opener)  # raises an exception
    raw_mode, buffered, text = known
    if text:
        if buffering == 0:
            return _open(file, mode, buffering, encoding, errors, newline, closefd, opener)  # raises an exception
        if sys.flags.warn_default_encoding:
            encoding = io.text_encoding(encoding)
    elif encoding is not None or errors is not None or newline is not None:
        return _open(file, mode, buffering, encoding, errors, newline, closefd, opener)  # raises an exception
    elif buffering == 1:
        import warnings

        message = "line buffering (buffering=1) isn't supported in binary mode, the default buffer size will be used"
        warnings.warn(message, RuntimeWarning, 2)
    if not isinstance(file, (str, bytes, int)) and not hasattr(file, "__index__"):
        file = os.fspath(file)
    made = raw = FileIO(file, raw_mode, closefd, opener)
    try:
        if buffering == 0:
            return raw
        lines = buffering == 1 or (buffering < 0 and raw.isatty())
        if lines or buffering < 0:
            buffering = raw._blksize
            if sys.version_info >= (3, 14):
                buffering = max(min(buffering, 8192 * 1024), io.DEFAULT_BUFFER_SIZE)
        made = buffered(raw, buffering)
        if text:
            made = TextIOWrapper(made, encoding, errors, newline, lines)
            made.mode = mode
    except BaseException:
        made.close()
        raise
    return made


_open_file.__name__ = _open_file.__qualname__ = "open"
open = FileCall(_open_file, None)
