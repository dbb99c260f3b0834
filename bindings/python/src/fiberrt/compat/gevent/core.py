# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.core: the numbers of the loop's events."""

from ... import _fiberrt
from ._loop import READ, WRITE, Loop
from ._loop import Loop as loop

__all__ = ["READ", "WRITE", "Loop", "get_version", "loop"]


def get_version() -> str:
    """Return the name of libfiberrt's backend."""
    return f"fiberrt-{_fiberrt.backend()}"
