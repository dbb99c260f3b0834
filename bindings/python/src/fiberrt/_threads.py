# SPDX-License-Identifier: MIT OR Apache-2.0
"""to_thread(): a thread calls a blocking function while a fiber waits."""

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
    """Call a blocking function on another thread, with a copy of this fiber's context variables. Wait for its end, and
    return its result or raise its exception.

    If a cancel or a time limit ends the wait, the function continues by itself, and its result is lost; ``offload``
    always waits for the end. At most 64 such functions run at once; further calls wait.
    """
    run: Callable[..., T] = copy_context().run
    return offload_detached(run, function, *args, **kwargs)
