# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.util: the stacks of all fibers, and a wrapper that returns errors."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable
from typing import Any

from ..._dump import dump

__all__ = ["format_run_info", "print_run_info", "wrap_errors"]


def format_run_info(*args: Any, **kwargs: Any) -> list[str]:
    """Return the lines of fiberrt.dump()."""
    out = io.StringIO()
    dump(out)
    return out.getvalue().splitlines()


def print_run_info(*args: Any, file: Any = None, **kwargs: Any) -> None:
    """Print the stacks of all fibers, to standard error or a file."""
    dump(file or sys.stderr)


class wrap_errors:
    """Wraps a function: it returns, instead of raising, exceptions of the given types."""

    def __init__(self, errors: Any, func: Callable[..., Any]) -> None:
        self._errors, self._function = errors, func
        functools.update_wrapper(self, func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._function(*args, **kwargs)
        except self._errors as error:
            return error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)
