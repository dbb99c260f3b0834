# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions that block, for which a fiber waits while a thread calls them."""

from __future__ import annotations

from contextvars import copy_context

from ._fiberrt import offload_detached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")


def to_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that blocks on another thread, with a copy of this fiber's context variables; wait for its end,
    and return what it returned or raise what it raised.

    When the fiber is cancelled or a time limit ends the wait, the function goes on by itself, and its result is lost;
    ``offload`` waits for it in any case. At most 64 such functions run at once; more wait for these.
    """
    run: Callable[..., T] = copy_context().run
    return offload_detached(run, function, *args, **kwargs)
