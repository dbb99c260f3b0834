# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes fibers that import the same module at the same time wait for each other, as threads do."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from . import _fiberrt


class _Lock(_fiberrt.Lock):
    """A lock for importlib, which relies on calls that do not raise: a cancel ends only acquire() without arguments."""

    def acquire(self, blocking: bool = True) -> bool:  # type: ignore[override]
        if blocking:
            return super().acquire()
        if self._is_owned():  # whether it is locked at all; unlike acquire(False), this never switches
            return False
        self._acquire_restore(None)
        return True

    def __enter__(self) -> bool:
        self._acquire_restore(None)
        return True


class _RLock(_fiberrt.RLock):
    """Such a lock that its owner may take several times."""

    def __enter__(self) -> bool:
        if self._is_owned():
            return self.acquire()
        self._acquire_restore(1)
        return True


def _adopt(lock: Any, thread: int, fiber: int) -> None:
    """Make a module's lock, which threads have used, one of fibers. If the thread has it, the fiber gets it."""
    if lock.waiters:  # other threads wait for it
        return
    lock.lock = _Lock() if sys.version_info < (3, 12) else _RLock()
    lock.wakeup = _Lock()
    if lock.owner == thread:
        lock.owner = fiber


def patch(ident: Any) -> None:
    """Give the importlib locks of fibers. ident: returns the number of the calling fiber or thread.

    importlib keeps a lock for each module that is being imported. Its own locks are those of threads: a second fiber of
    the thread would count as an import within the import, and get a module that is half initialized.
    """
    importlib: Any = sys.modules["_frozen_importlib"]
    thread = importlib._thread.get_ident()
    for reference in list(importlib._module_locks.values()):
        if (lock := reference()) is not None:
            _adopt(lock, thread, ident())
    importlib._thread = SimpleNamespace(allocate_lock=_Lock, RLock=_RLock, get_ident=ident)
