# SPDX-License-Identifier: MIT OR Apache-2.0
"""The standard library's ``signal``, with waits that let other fibers run, and an iterator of signals.

    with fiberrt.signal.receive(signal.SIGTERM, signal.SIGHUP) as signals:
        for number in signals: ...

Handlers set by ``signal()`` run in the main thread, in whichever fiber runs there, or while it is idle; what they raise
then is raised in its main flow. A handler must not wait.
"""

from __future__ import annotations

import errno
import os
import signal as _stdlib
from collections import deque
from collections.abc import Iterable, Iterator
from signal import *
from types import FrameType, TracebackType
from typing import Any

from . import _fiberrt
from ._rebind import complete


def _named(number: int) -> Signals | int:
    try:
        return Signals(number)
    except ValueError:  # one of those for real time
        return number


def sigwait(sigset: Iterable[int], /) -> Signals | int:  # type: ignore[no-redef]
    """Wait for one of these signals, take it, and return it. They must be blocked in all threads, by pthread_sigmask().
    OSError: in this one they are not."""
    return _named(_fiberrt.sigwait(sigset)[0])


def sigwaitinfo(sigset: Iterable[int], /) -> struct_siginfo:  # type: ignore[no-redef]
    """sigwait() that tells also who has sent the signal."""
    return struct_siginfo(_fiberrt.sigwait(sigset))


def sigtimedwait(sigset: Iterable[int], timeout: float, /) -> struct_siginfo | None:  # type: ignore[no-redef]
    """sigwaitinfo() for at most so many seconds; then None."""
    try:
        return struct_siginfo(_fiberrt.sigwait(sigset, timeout))
    except TimeoutError:
        return None


class receive:
    """``with receive(*signals) as numbers: for number in numbers: ...`` waits for signals and gives each that comes.

    Within the block they do nothing else: their handlers are back when it is left. It is entered in the main thread,
    as signal() is called there; any fibers may iterate. Each signal is given once. When the block is left, those who
    still wait come to the end of their loops.
    """

    def __init__(self, *signals: int) -> None:
        if not signals:
            raise TypeError("receive() takes at least one signal")
        self._signals = [_named(number) for number in signals]
        self._before: dict[Signals | int, Any] = {}
        self._got: deque[Signals | int] = deque()
        self._pipe: tuple[int, int] | None = None
        self._wakeup_before = -1

    def __enter__(self) -> receive:
        if self._pipe is not None:
            raise RuntimeError("it has been entered already")
        self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            # A signal that comes as the thread is about to sleep wakes it by this.
            self._wakeup_before = _stdlib.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
            if self._wakeup_before != -1:
                _stdlib.set_wakeup_fd(self._wakeup_before)  # that of others does as well
            for number in self._signals:
                self._before[number] = _stdlib.signal(number, self._handle)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            _stdlib.signal(number, SIG_DFL if handler is None else handler)
        self._before.clear()
        pipe, self._pipe = self._pipe, None
        if pipe is None:
            return
        if self._wakeup_before == -1:
            try:
                now = _stdlib.set_wakeup_fd(-1)
                if now not in (pipe[1], -1):
                    _stdlib.set_wakeup_fd(now)  # it is another's by now
            except ValueError:  # not in the main thread: then it was not set
                pass
        for fd in pipe:
            _fiberrt.close(fd)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._got.append(_named(number))
        if self._pipe is not None:
            try:
                os.write(self._pipe[1], b"\0")
            except BlockingIOError:  # there is enough in it
                pass

    def __iter__(self) -> Iterator[Signals | int]:
        return self

    def __next__(self) -> Signals | int:
        while not self._got:
            if self._pipe is None:
                raise StopIteration
            try:
                _fiberrt.read(self._pipe[0], 1)
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
                raise StopIteration from None
        return self._got.popleft()


complete(globals(), _stdlib)
