# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which code is the program's own."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from importlib.util import find_spec
from types import CodeType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TEXTS = ("<doctest", "<ipython", "<stdin")
_INSTALLED = ("site-packages", "dist-packages")


def _codes_of_command() -> set[tuple[str, int]] | None:
    """Return the names and first lines of all code of the text after python -c; None: this is another program. Code that
    namedtuple and dataclass compile has the same file name, and so has code that xdist sends to its workers."""
    if sys.argv[:1] != ["-c"]:
        return None
    options = sys.orig_argv[1:]
    text = next((text for option, text in zip(options, options[1:]) if re.fullmatch("-[a-zA-Z]*c", option)), "")
    left, found = [compile(text, "<string>", "exec")], set()
    while left:
        code = left.pop()
        found.add((code.co_qualname, code.co_firstlineno))
        left += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found


class Program:
    """The code whose lines are traced and shown: all except the standard library and installed packages. `modules` are
    names of other modules or packages that belong to it."""

    def __init__(self, modules: Iterable[str] = ()) -> None:
        paths = sysconfig.get_paths()
        self._library = tuple({os.path.realpath(paths[name]) + os.sep for name in ("stdlib", "platstdlib")})
        self._more = tuple(self._place_of(name) for name in modules)
        self._known: dict[str, bool] = {}  # the answers for names of files
        self._command = _codes_of_command()

    @staticmethod
    def _place_of(name: str) -> str:
        """Return the file of a module, or the folder of a package. ImportError: there is none of that name."""
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise ImportError(f"there is no module {name!r} with a source", name=name)
        return os.path.dirname(spec.origin) + os.sep if spec.submodule_search_locations else spec.origin

    def contains_file(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._contains_file(name)
        return known

    def look_at_modules(self) -> None:
        """Find the answers for the files of all modules, so that a run need not ask the system."""
        for module in list(sys.modules.values()):
            name = getattr(module, "__file__", None)
            if isinstance(name, str):
                self.contains_file(name)

    def _contains_file(self, name: str) -> bool:
        if name.startswith("<"):  # compiled from a text
            return name.startswith(_TEXTS) or (name == "<string>" and self._command is not None)
        if name.startswith(self._more) if self._more else False:
            return True
        if name.startswith(_PACKAGE + os.sep):
            return False
        if any(part in _INSTALLED for part in name.split(os.sep)):
            return False
        return not os.path.realpath(name).startswith(self._library)

    def contains(self, code: CodeType) -> bool:
        if code.co_filename == "<string>":
            return self._command is not None and (code.co_qualname, code.co_firstlineno) in self._command
        return self.contains_file(sys.intern(code.co_filename))
