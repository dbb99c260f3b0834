# SPDX-License-Identifier: MIT OR Apache-2.0
"""The standard input of a program whose fibers wait for it: sys.stdin and input(), as fiberrt.monkey sets them."""

from __future__ import annotations

import _thread
import builtins
import io
import os
import sys
from typing import Any

from . import _fiberrt, _files

_input = builtins.input
_lock = _fiberrt.Lock()  # one at a time: readline has one line
_owner: tuple[int, int] | None = None  # the thread and the fiber, by their numbers, that have the lock


def standard_input() -> Any:
    """Return a file for fibers in place of sys.stdin, or sys.stdin itself if the program has replaced it."""
    old: Any = sys.stdin
    if old is not sys.__stdin__ or type(old) is not io.TextIOWrapper or type(old.buffer) is not io.BufferedReader:
        return old
    try:
        raw = _files.FileIO(old.fileno(), "r", closefd=False)
    except (OSError, ValueError):  # it is closed
        return old
    raw.name = old.name
    made = _files.TextIOWrapper(
        _files.BufferedReader(raw), old.encoding, old.errors, newline="\n", line_buffering=old.line_buffering
    )
    made.mode = "r"
    return made


def _is_terminal(file: Any, descriptor: int) -> bool:
    try:
        return file.fileno() == descriptor and os.isatty(descriptor)  # type: ignore[no-any-return]
    except Exception:
        return False


def _make_editor() -> Any:
    """Return the editor of readline; None: the program has not imported it; False: only readline itself can use it."""
    module = sys.modules.get("readline")
    if module is None:
        return None
    try:
        from ._readline import Editor

        return Editor(module)
    except (AttributeError, ImportError, OSError):
        return False


_editor: Any = None


def _read_line(prompt: object) -> str:
    """Read a line from the terminal, which no other fiber reads meanwhile."""
    global _editor
    if _editor is None:
        _editor = _make_editor()
    if _editor is False:
        return _input(prompt)
    sys.audit("builtins.input", prompt)
    if sys.stderr is not None:
        sys.stderr.flush()
    if _editor is not None:
        sys.stdout.flush()
        line: str = _editor.read(str(prompt))
    else:
        sys.stdout.write(str(prompt))
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        line = line.removesuffix("\n")
    sys.audit("builtins.input/result", line)
    return line


def _read(prompt: object = "", /) -> str:
    """The builtin input() that lets other fibers run while it waits. A cancel or a time limit ends the wait."""
    global _owner
    # Within another call, a signal handler cannot wait for the end of that call.
    me = _thread.get_ident(), _fiberrt.ident()
    if _owner and _owner[0] == me[0] and (_owner == me or not _fiberrt.may_wait()):
        raise RuntimeError("can't re-enter readline")
    if not (_is_terminal(sys.stdin, 0) and _is_terminal(sys.stdout, 1) and _fiberrt.may_wait()):
        return _input(prompt)  # which calls sys.stdin.readline()
    with _lock:
        _owner = me
        try:
            return _read_line(prompt)
        finally:
            _owner = None


_read.__name__ = _read.__qualname__ = "input"
input = _fiberrt.FileCall(_read, None)
