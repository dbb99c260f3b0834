# SPDX-License-Identifier: MIT OR Apache-2.0
"""``python -m fiberrt script.py args`` and ``python -m fiberrt -m module args``: runs a program as Python itself would,
after fiberrt.monkey has replaced the waiting calls of the standard library."""

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


def _run_module(name: str, alter_argv: bool) -> None:
    _new_main()
    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _run_script(path: str) -> None:
    if pkgutil.get_importer(path) is not None:  # a folder, or an archive, with a __main__.py
        sys.path[0] = path
        return _run_module("__main__", False)
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    code = _code_of(path)
    names = vars(_new_main())
    names.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
    exec(code, names)


def main() -> None:
    arguments = sys.argv[1:]
    as_module = arguments[:1] == ["-m"]
    if as_module:
        del arguments[0]
    if not arguments or arguments[0].startswith("-"):
        print("usage: python -m fiberrt (script.py | -m module) [argument ...]", file=sys.stderr)
        raise SystemExit(2)
    if not as_module and not os.path.exists(arguments[0]):
        print(f"python -m fiberrt: there is no file {arguments[0]!r}", file=sys.stderr)
        raise SystemExit(2)
    from . import monkey

    monkey.patch()
    sys.argv[:] = arguments
    if as_module:
        _run_module(arguments[0], True)
    else:
        _run_script(arguments[0])


if __name__ == "__main__":
    main()
