# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a line with the editor of the module readline, for input(): the fiber waits for each key.

input() itself cannot do this, because it waits for the keys in C. Here the library of the module readline is called
directly, by its functions for programs that wait by themselves. The program's settings of the module apply.
"""

from __future__ import annotations

import ctypes
import select
import sys
from typing import Any

from . import _fiberrt

_Handler = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

# Whether lines are added to the history: readline.set_auto_history().
_adds = True


def follow_auto_history(module: Any) -> None:
    """Notice the program's calls of readline.set_auto_history()."""
    original = module.set_auto_history

    def set_auto_history(enabled: object, /) -> None:
        global _adds
        original(enabled)
        _adds = bool(enabled)

    set_auto_history.__doc__ = original.__doc__
    module.set_auto_history = set_auto_history


class Editor:
    """The library behind the module readline. AttributeError: it does not have the functions."""

    def __init__(self, module: Any) -> None:
        self._module = module
        # Looking a name up in the module also finds it in the library that the module is linked with.
        library = ctypes.PyDLL(getattr(module, "__file__", None))
        self._install = library.rl_callback_handler_install
        self._install.argtypes = [ctypes.c_char_p, _Handler]
        self._install.restype = None
        self._read_key = library.rl_callback_read_char
        self._read_key.restype = None
        self._remove = library.rl_callback_handler_remove
        self._remove.restype = None
        # Readline has these, and editline does not.
        self._clean_up = [
            getattr(library, name) for name in ("rl_free_line_state", "rl_callback_sigcleanup") if hasattr(library, name)
        ]
        for function in self._clean_up:
            function.restype = None
        self._free = ctypes.PyDLL(None).free
        self._free.argtypes = [ctypes.c_void_p]
        self._free.restype = None
        self._handler = _Handler(self._take)  # kept as long as the library may call it
        self._line: bytes | None = None
        self._done = False

    def _take(self, text: int | None) -> None:
        self._done = True
        if text:
            self._line = ctypes.string_at(text)
            self._free(text)
        self._remove()

    def read(self, prompt: str) -> str:
        """Show the prompt, and let the user edit a line; return it without its end. EOFError: there is none."""
        self._line, self._done = None, False
        self._install(prompt.encode(sys.stdout.encoding, sys.stdout.errors), self._handler)
        try:
            while not self._done:
                _fiberrt.wait_fd(0, select.POLLIN)
                self._read_key()
        except BaseException:
            if not self._done:
                for function in self._clean_up:
                    function()
                self._remove()
            raise
        if self._line is None:
            raise EOFError
        line = self._line.decode(sys.stdin.encoding, sys.stdin.errors)
        self._remember(line)
        return line

    def _remember(self, line: str) -> None:
        length = self._module.get_current_history_length()
        if _adds and line and line != (self._module.get_history_item(length) if length else None):
            self._module.add_history(line)
