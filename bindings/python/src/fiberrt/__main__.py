# SPDX-License-Identifier: MIT OR Apache-2.0
"""``python -m fiberrt script.py args`` and ``python -m fiberrt -m module args``: runs a program as Python itself would,
after fiberrt.monkey has replaced the waiting calls of the standard library. ``--native psycopg2,MySQLdb`` before the
program adopts these C extensions, see fiberrt.native; ``--no-native`` does not adopt the ones that are known.
``--gevent`` lets the program find the modules of fiberrt.compat.gevent as gevent."""

from __future__ import annotations

import io
import os
import pkgutil
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType


def _code_of(path: str) -> CodeType:
    with io.open_code(path) as file:
        compiled = pkgutil.read_code(file)
    if compiled is not None:
        return compiled  # type: ignore[no-any-return]
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec")


def _new_main() -> ModuleType:
    """Make a new module __main__. It stays after the end of the script, for threads and for functions of atexit."""
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    return main


def _adopt(names: list[str]) -> None:
    """Adopt the extensions of --native. sys.path is that of the program by now."""
    if not names:
        return
    from . import native

    try:
        native.adopt(*names)
    except (ImportError, LookupError, OSError, ValueError) as error:
        print(f"python -m fiberrt: --native: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _run_module(name: str, alter_argv: bool, native: list[str]) -> None:
    _adopt(native)
    _new_main()
    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _run_script(path: str, native: list[str]) -> None:
    if pkgutil.get_importer(path) is not None:  # a folder, or an archive, with a __main__.py
        sys.path[0] = path
        return _run_module("__main__", False, native)
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    _adopt(native)
    code = _code_of(path)
    names = vars(_new_main())
    names.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
    exec(code, names)


class _Options:
    """The options before the program, which are removed from the arguments."""

    def __init__(self, arguments: list[str]) -> None:
        self.names: list[str] = []
        self.known: bool | None = None
        self.as_module = self.wrong = self.gevent = False
        while arguments and arguments[0].startswith("-") and not self.as_module and not self.wrong:
            option, _, value = arguments.pop(0).partition("=")
            if option == "--native" and (value or arguments):
                self.names += (value or arguments.pop(0)).split(",")
            elif option == "--no-native" and not value:
                self.known = False
            elif option == "--gevent" and not value:
                self.gevent = True
            elif option == "-m" and not value:
                self.as_module = True
            else:
                self.wrong = True
        self.wrong |= not arguments or arguments[0].startswith("-")


def main() -> None:
    arguments = sys.argv[1:]
    options = _Options(arguments)
    if options.wrong:
        print(
            "usage: python -m fiberrt [--native MODULE,...] [--no-native] [--gevent] (script.py | -m module) [argument ...]",
            file=sys.stderr,
        )
        raise SystemExit(2)
    if not options.as_module and not os.path.exists(arguments[0]):
        print(f"python -m fiberrt: there is no file {arguments[0]!r}", file=sys.stderr)
        raise SystemExit(2)
    from . import monkey

    monkey.patch(native=options.known)
    if options.gevent:
        from .compat import gevent

        gevent.install()
    sys.argv[:] = arguments
    if options.as_module:
        _run_module(arguments[0], True, options.names)
    else:
        _run_script(arguments[0], options.names)


if __name__ == "__main__":
    main()
