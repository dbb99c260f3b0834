# SPDX-License-Identifier: MIT OR Apache-2.0
"""ThreadPoolExecutor. Apart, because it imports concurrent.futures, which a program should patch first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _fiberrt
from ..._executor import FiberExecutor


class ThreadPoolExecutor(FiberExecutor):
    """An Executor of concurrent.futures. The functions run on threads; fibers wait for their Futures."""

    kill_on_exit = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Let a thread call fn(*args, **kwargs), and return a Future."""
        return super().submit(_fiberrt.offload, fn, *args, **kwargs)

    def kill(self, wait: bool = True) -> None:
        """shutdown()"""
        self.shutdown(wait)
