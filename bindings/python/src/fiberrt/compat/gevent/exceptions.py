# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.exceptions."""

from __future__ import annotations

__all__ = [
    "BlockingSwitchOutError", "ConcurrentObjectUseError", "GreenletExit", "HubDestroyed", "InvalidSwitchError",
    "InvalidThreadUseError", "LoopExit",
]  # fmt: skip

try:
    from greenlet import GreenletExit  # the class that programs import from greenlet
except ImportError:

    class GreenletExit(BaseException):  # type: ignore[no-redef]
        """Raised in a greenlet that is killed. The greenlet then counts as successful."""


LoopExit = RuntimeError  # raised by a wait of the main flow that nothing would ever end


class BlockingSwitchOutError(AssertionError):
    """Never raised here."""


class InvalidSwitchError(AssertionError):
    """Never raised here."""


class InvalidThreadUseError(RuntimeError):
    """Never raised here: the objects may be used by several threads."""


class ConcurrentObjectUseError(AssertionError):
    """An object is used by two greenlets at the same time, and allows one."""


class HubDestroyed(RuntimeError):  # gevent's is a GreenletExit
    """Never raised here."""
