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


def _wait(fd: Any, events: int, timeout: float | None, error: Any) -> None:
    if not _fiberrt.wait_fd(fd, events, timeout):
        raise _stdlib.timeout("timed out") if error is None else error


def wait_read(fileno: Any, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until a descriptor can be read. timeout_exc: raised after the timeout in seconds,
    instead of socket.timeout."""
    _wait(fileno, _select.POLLIN, timeout, timeout_exc)


def wait_write(fileno: Any, timeout: float | None = None, timeout_exc: Any = None, event: Any = None) -> None:
    """Wait until a descriptor can be written. timeout_exc: raised after the timeout in seconds,
    instead of socket.timeout."""
    _wait(fileno, _select.POLLOUT, timeout, timeout_exc)


def wait_readwrite(fileno: Any, timeout: float | None = None, timeout_exc: Any = None, event: Any = None) -> None:
    """Wait until a descriptor can be read or written. timeout_exc: raised after the timeout in seconds,
    instead of socket.timeout."""
    _wait(fileno, _select.POLLIN | _select.POLLOUT, timeout, timeout_exc)


def cancel_wait(watcher: Any, error: BaseException | None = None) -> None:
    """End the wait of get_hub().wait(watcher) by an exception, an OSError by default."""
    watcher.fail(error or OSError(9, "File descriptor was closed in another greenlet"))
