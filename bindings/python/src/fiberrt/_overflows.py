# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints the name of a fiber whose stack overflows before the program dies, also together with faulthandler."""

from __future__ import annotations

import faulthandler

from . import _fiberrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_on = False


def report_overflows(on: bool = True) -> None:
    """Print the name of a fiber whose stack overflows on standard error, before the program dies of SIGSEGV as usual.

    This is on from the start; False turns it off. It installs a handler of SIGSEGV, which passes every fault on to the
    previous handler. Only compiled extensions overflow stacks: recursion in Python raises RecursionError. stack_size()
    makes the stacks of new fibers larger.

    Raises OSError. EBUSY: a handler installed later may call this one, so it cannot be removed. ENOTSUP: the signal is
    not available. ENOMEM: there is no memory for the handler's stack.
    """
    global _on
    _fiberrt.report_overflows(bool(on))
    _on = bool(on)


def _begin() -> None:
    """Turn the reports on at the start. Without the signal or the memory there are no reports."""
    try:
        report_overflows()
    except OSError:
        pass


def _with_ours_above(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of faulthandler that changes its handlers. The wrapper removes our handler during the call and
    then installs it again, on top. Otherwise, a handler of faulthandler above ours would raise the signal anew, without
    the details of the fault, and removing that handler would also remove ours."""

    def change(*args: Any, **options: Any) -> Any:
        again = _on
        if again:
            try:
                report_overflows(False)
            except OSError:  # a later handler, which stays
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
