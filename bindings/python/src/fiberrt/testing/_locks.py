# SPDX-License-Identifier: MIT OR Apache-2.0
"""The locks and queues of a simulated program: those of fiberrt, with preemption points, and with a record of the
callers that wait for them and that hold them, if the run is recorded."""

from __future__ import annotations

import threading
from typing import Any

from .. import _condition, _fiberrt
from . import _record


def _point(when: str, thing: Any) -> None:
    """A place where the thread may be preempted."""
    recorder = _record.current
    if recorder is None:
        _fiberrt.preemption_point()
    else:
        with recorder.at(when, thing):
            _fiberrt.preemption_point()


class _Lock:
    """The methods of Lock, RLock and the semaphores."""

    __slots__ = ()
    _first: Any  # the class of fiberrt

    def acquire(self, *args: Any, **options: Any) -> bool:
        _point("before it takes", self)
        recorder = _record.current
        if recorder is None:
            return self._first.acquire(self, *args, **options)  # type: ignore[no-any-return]
        with recorder.waits(self):
            taken: bool = self._first.acquire(self, *args, **options)
        if taken:
            self._note_taken(recorder)
        elif self._waits(*args, **options):
            recorder.timed_out(self)
        return taken

    def _note_taken(self, recorder: _record.Recorder) -> None:
        recorder.taken(self)

    @staticmethod
    def _waits(blocking: bool = True, timeout: float | None = None) -> bool:
        return blocking and timeout != 0

    def __enter__(self) -> bool:
        return self.acquire()

    def release(self, *args: Any, **options: Any) -> None:
        self._first.release(self, *args, **options)  # RuntimeError: another thread holds it
        if _record.current is not None:
            _record.current.released(self)
        _point("after it has released", self)

    def __exit__(self, *error: object) -> None:
        self.release()

    def _release_save(self) -> Any:  # by Condition.wait(), which waits then
        saved = self._first._release_save(self)
        if _record.current is not None:
            _record.current.released_wholly(self)
        return saved

    def _acquire_restore(self, saved: Any) -> None:  # by Condition.wait(): another thread may be faster
        _point("before it takes again", self)
        recorder = _record.current
        if recorder is None:
            return self._first._acquire_restore(self, saved)  # type: ignore[no-any-return]
        with recorder.waits(self):
            self._first._acquire_restore(self, saved)
        recorder.taken_again(self)


class Lock(_Lock, _fiberrt.Lock):
    __slots__ = ()
    _first = _fiberrt.Lock


class RLock(_Lock, _fiberrt.RLock):
    __slots__ = ()
    _first = _fiberrt.RLock


class Semaphore(_Lock, _fiberrt.Semaphore):
    """Has no holders: it may be a signal, which one thread takes and another one gives."""

    _first = _fiberrt.Semaphore
    _release_save = _acquire_restore = None  # type: ignore[assignment]

    def _note_taken(self, recorder: _record.Recorder) -> None:
        pass


class BoundedSemaphore(Semaphore, _fiberrt.BoundedSemaphore):
    _first = _fiberrt.BoundedSemaphore


class Event(_fiberrt.Event):
    def wait(self, timeout: float | None = None) -> bool:
        _point("before it waits for", self)
        recorder = _record.current
        if recorder is None:
            return super().wait(timeout)
        with recorder.waits(self):
            done = super().wait(timeout)
        if not done:
            recorder.timed_out(self)
        return done

    def set(self) -> None:
        super().set()
        _point("after it has set", self)

    def clear(self) -> None:
        super().clear()
        _point("after it has cleared", self)

    def is_set(self) -> bool:
        _point("before it looks at", self)
        return super().is_set()


class Condition(_condition.Condition):
    def __init__(self, lock: Any = None) -> None:
        super().__init__(RLock() if lock is None else lock)
        if _record.current is not None:
            _record.current.belongs(self._lock, self)

    def wait(self, timeout: float | None = None) -> bool:
        recorder = _record.current
        if recorder is None:
            return super().wait(timeout)
        recorder.begins_to_wait(self)
        try:
            with recorder.waits(self):
                done = super().wait(timeout)
            if not done:
                recorder.timed_out(self)
            return done
        finally:
            recorder.ends_to_wait(self)

    def _notify(self, n: int) -> None:
        if _record.current is not None:
            _record.current.notifies(self, n)
        super()._notify(n)


class SimpleQueue(_fiberrt.Queue[Any]):
    """queue.SimpleQueue."""

    def __init__(self) -> None:
        super().__init__()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        super().put_nowait(item)
        _point("after it has put an item into", self)

    def put_nowait(self, item: Any) -> None:
        self.put(item)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        _point("before it gets an item of", self)
        recorder = _record.current
        if recorder is None:
            return super().get(block, timeout)
        with recorder.waits(self):
            return super().get(block, timeout)

    def get_nowait(self) -> Any:
        return self.get(False)

    def empty(self) -> bool:
        _point("before it looks at", self)
        return super().empty()

    def qsize(self) -> int:
        _point("before it looks at", self)
        return super().qsize()


REPLACED: dict[str, Any] = {
    "BoundedSemaphore": BoundedSemaphore,
    "Condition": Condition,
    "Event": Event,
    "Lock": Lock,
    "RLock": RLock,
    "Semaphore": Semaphore,
    "_CRLock": RLock,
    "_allocate_lock": Lock,
}


def record_joins() -> None:
    """Let the recorder know of waits for the end of a thread."""
    first = threading.Thread.join

    def join(self: threading.Thread, timeout: float | None = None) -> None:
        recorder = _record.current
        if recorder is None:
            return first(self, timeout)
        with recorder.waits(self):
            return first(self, timeout)

    threading.Thread.join = join  # type: ignore[method-assign]
