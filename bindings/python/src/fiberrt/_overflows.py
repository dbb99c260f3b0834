# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fibers whose stacks overflow: they are named before the program dies, also where faulthandler tells of faults."""

from __future__ import annotations

import faulthandler

from . import _fiberrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_on = False


def report_overflows(on: bool = True) -> None:
    """Name each fiber whose stack overflows, on standard error, before the program dies of SIGSEGV as it would have.

    That is on from the start; with False it ends. A handler of SIGSEGV does it, which passes all faults on to the handler
    before it. Compiled extensions overflow stacks; Python's own recursion raises RecursionError. stack_size() makes the
    stacks of new fibers larger.

    Raises OSError: EBUSY, another handler has been installed later and may call this one, which stays; ENOTSUP, the
    signal cannot be had; ENOMEM, there is no memory for a stack of the handler.
    """
    global _on
    _fiberrt.report_overflows(bool(on))
    _on = bool(on)


def _begin() -> None:
    """From the start; where the signal or memory cannot be had, there are no reports."""
    try:
        report_overflows()
    except OSError:
        pass


def _with_ours_above(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of faulthandler that changes its handlers. One of them above ours would tell it too little: it raises
    the signal anew. And with its own it would remove ours."""

    def change(*args: Any, **options: Any) -> Any:
        again = _on
        if again:
            try:
                report_overflows(False)
            except OSError:  # a later handler, which is left alone
                again = False
        try:
            return function(*args, **options)
        finally:
            if again:
                _begin()

    change.__name__ = change.__qualname__ = function.__name__
    change.__doc__ = function.__doc__
    return change


faulthandler.enable = _with_ours_above(faulthandler.enable)
faulthandler.disable = _with_ours_above(faulthandler.disable)
_begin()
