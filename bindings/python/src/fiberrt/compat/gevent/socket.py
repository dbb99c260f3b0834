# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.socket: fiberrt.socket, and waits for descriptors."""

from __future__ import annotations

import select as _select
import socket as _stdlib
from typing import Any

from ... import _fiberrt
from ... import socket as _own
from ._names import take

take(globals(), _own)
take(globals(), _stdlib)
__all__ = [*_stdlib.__all__, "cancel_wait", "wait_read", "wait_readwrite", "wait_write"]

_DEFAULT = _stdlib.timeout("timed out")


def _wait(fd: Any, events: int, timeout: float | None, error: BaseException) -> None:
    if not _fiberrt.wait_fd(fd, events, timeout):
        raise error


def wait_read(fileno: Any, timeout: float | None = None, timeout_exc: Any = _DEFAULT) -> None:
    """Wait until a descriptor can be read. timeout_exc: raised after the timeout in seconds."""
    _wait(fileno, _select.POLLIN, timeout, timeout_exc)


def wait_write(fileno: Any, timeout: float | None = None, timeout_exc: Any = _DEFAULT, event: Any = None) -> None:
    """Wait until a descriptor can be written. timeout_exc: raised after the timeout in seconds."""
    _wait(fileno, _select.POLLOUT, timeout, timeout_exc)


def wait_readwrite(fileno: Any, timeout: float | None = None, timeout_exc: Any = _DEFAULT, event: Any = None) -> None:
    """Wait until a descriptor can be read or written. timeout_exc: raised after the timeout in seconds."""
    _wait(fileno, _select.POLLIN | _select.POLLOUT, timeout, timeout_exc)


def cancel_wait(
    watcher: Any, error: BaseException = OSError(9, "File descriptor was closed in another greenlet")
) -> None:
    """End the wait of get_hub().wait(watcher) by an exception."""
    watcher.fail(error)
