# SPDX-License-Identifier: MIT OR Apache-2.0
"""``python -m fiberrt script.py args`` and ``python -m fiberrt -m module args``: runs a program as Python itself would,
with the standard library's waits replaced by those of fibers (fiberrt.monkey)."""

from __future__ import annotations

import os
import runpy
import sys


def main() -> None:
    arguments = sys.argv[1:]
    as_module = arguments[:1] == ["-m"]
    if as_module:
        del arguments[0]
    if not arguments or arguments[0].startswith("-"):
        print("usage: python -m fiberrt (script.py | -m module) [argument ...]", file=sys.stderr)
        raise SystemExit(2)
    from . import monkey

    monkey.patch()
    sys.argv[:] = arguments
    if as_module:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    if not os.path.exists(arguments[0]):
        print(f"python -m fiberrt: there is no file {arguments[0]!r}", file=sys.stderr)
        raise SystemExit(2)
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
