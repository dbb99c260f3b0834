# SPDX-License-Identifier: MIT OR Apache-2.0
"""Time limits around blocks of code, and blocks that cannot be cancelled."""

from __future__ import annotations

import errno

from . import _fiberrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_TIMED_OUT = -errno.ETIMEDOUT
_CANCELLED = -errno.ECANCELED


class _Scope:
    __slots__ = ("_seconds", "_scope")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._scope = 0

    def _open(self) -> None:
        if self._scope:
            raise RuntimeError("the scope is open already")
        self._scope = _fiberrt.scope_open(self._seconds)

    def _close(self, exception: BaseException | None, cancelled: bool = False) -> bool:
        """Close the scope. Return whether this scope has ended the block: its time limit, or its cancel()."""
        scope, self._scope = self._scope, 0
        verdict = _fiberrt.scope_close(scope)
        return (
            (verdict == _TIMED_OUT or (cancelled and verdict == _CANCELLED))
            and isinstance(exception, _fiberrt.CancelledError)
            and not _fiberrt.cancel_pending()
        )

    def reschedule(self, seconds: float | None) -> None:
        """Set a new time limit in seconds from now; None removes the limit. (The function fiberrt.reschedule lets other
        fibers run.)"""
        if not self._scope:
            raise RuntimeError("the scope is not open")
        _fiberrt.scope_set_timeout(self._scope, seconds)


class move_on_after(_Scope):
    """``with move_on_after(seconds) as scope:`` limits the time of the block's waits.

    When the time is up, the present wait in the block and each later one raise CancelledError. The end of the block
    drops this exception, and ``scope.expired`` is then true. A block that does not wait is not interrupted.
    """

    __slots__ = {"expired": "Whether the time has passed and that has ended the block."}

    def __init__(self, seconds: float | None) -> None:
        super().__init__(seconds)
        self.expired = False

    def __enter__(self) -> move_on_after:
        self._open()
        self.expired = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self.expired = self._close(exception)
        return self.expired


class fail_after(_Scope):
    """``with fail_after(seconds):`` limits the time of the block's waits, and raises TimeoutError.

    When the time is up, the present wait in the block and each later one raise CancelledError, which ``except
    Exception`` does not catch. The end of the block turns it into TimeoutError. If code in the block catches it and
    does not raise it again, there is no TimeoutError. A block that does not wait is not interrupted.
    """

    __slots__ = ()

    def __enter__(self) -> fail_after:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._close(exception):
            raise TimeoutError(f"the block was not done within {self._seconds} seconds") from exception


class CancelScope(_Scope):
    """``with CancelScope() as scope:`` is a block that scope.cancel() ends.

    After cancel(), or when its time in seconds is up, the present wait in the block and each later one raise
    CancelledError. The end of the block drops this exception, and ``scope.cancelled_caught`` is then true.
    """

    __slots__ = {
        "cancel_called": "Whether cancel() has been called.",
        "cancelled_caught": "Whether the scope has ended the block.",
    }

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__(seconds)
        self.cancel_called = False
        self.cancelled_caught = False

    def cancel(self) -> None:
        """End the block's waits. Any fiber of any thread may call this, even before the block begins."""
        self.cancel_called = True
        if self._scope:
            _fiberrt.scope_cancel(self._scope)

    def __enter__(self) -> CancelScope:
        self._open()
        self.cancelled_caught = False
        if self.cancel_called:
            _fiberrt.scope_cancel(self._scope)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self.cancelled_caught = self._close(exception, self.cancel_called)
        return self.cancelled_caught


class shield:
    """``with shield():`` delays cancels, thrown exceptions and outer time limits until the end of the block."""

    __slots__ = ("_scope",)

    def __init__(self) -> None:
        self._scope = 0

    def __enter__(self) -> shield:
        if self._scope:
            raise RuntimeError("the scope is open already")
        self._scope = _fiberrt.scope_open(None, True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        scope, self._scope = self._scope, 0
        _fiberrt.scope_close(scope)
