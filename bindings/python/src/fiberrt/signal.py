# SPDX-License-Identifier: MIT OR Apache-2.0
"""The standard library's ``signal``, with waits that let other fibers run, and an iterator of signals.

    with fiberrt.signal.receive(signal.SIGTERM, signal.SIGHUP) as signals:
        for number in signals: ...

Handlers set by ``signal()`` run in the main thread, in whichever fiber runs there, or while it is idle; what they raise
then is raised in its main flow. A handler must not wait. Set by the standard library's own ``signal()``, it may run as
late as the thread is idle, if the signal comes in the very moment in which it goes to sleep; by the one of this module,
and after ``monkey.patch("signal")``, it does not.
"""

from __future__ import annotations

import _thread
import errno
import os
import posix
import signal as _stdlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from signal import *
from types import FrameType, TracebackType
from typing import Any

from . import _fiberrt
from ._rebind import complete


_set = _stdlib.signal  # also when that is this module's by then
_pause = _stdlib.pause
_write = posix.write  # gives no turn: os.write may be that of fiberrt.monkey


class _Bell:
    """What wakes the main thread when a signal comes as it is about to sleep: a pipe that CPython writes to, and a fiber
    that reads it. That the thread then has not slept is all that is needed: handlers run after each sleep."""

    def __init__(self) -> None:
        self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before = -1  # whom CPython has told until now, and who is told by us
        self.rung = _fiberrt.Event()  # at the next signal; then it is another one
        self._over = False
        try:
            _fiberrt.spawn(self._hear)
            self.hang_up()
        except BaseException:
            self._over = True
            self._close()
            raise

    def hang_up(self) -> None:
        """CPython is to tell it, also if somebody else has had that changed."""
        now = _stdlib.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        if now != self._pipe[1]:
            self._before = now

    def take_down(self) -> None:
        now = _stdlib.set_wakeup_fd(-1)
        try:
            _stdlib.set_wakeup_fd(self._before if now == self._pipe[1] else now)
        except (OSError, ValueError):  # it is closed
            pass
        self._over = True
        try:
            _write(self._pipe[1], b"\0")  # for the fiber
        except BlockingIOError:  # there is something
            pass

    def after_fork(self) -> None:
        """In the child, which has no such fiber, and the pipe is the parent's, too."""
        if _stdlib.set_wakeup_fd(-1) == self._pipe[1] and self._before != -1:
            _stdlib.set_wakeup_fd(self._before)
        self._close()

    def _hear(self) -> None:
        if self._over:  # it is closed by now if it could not be hung up
            return self._close()
        try:
            while True:
                told = _fiberrt.read(self._pipe[0], 4096)
                if self._over:
                    return
                # Handlers have run: the thread looks for signals before it goes on with this fiber.
                rung, self.rung = self.rung, _fiberrt.Event()
                rung.set()
                if self._before != -1:
                    try:
                        _write(self._before, told)
                    except OSError:  # full, or closed
                        pass
        finally:
            if not self._over:  # it was cancelled
                _unlisten()
            self._close()

    def _close(self) -> None:
        pipe, self._pipe = self._pipe, (-1, -1)
        for fd in pipe:
            if fd != -1:
                os.close(fd)


_bell: _Bell | None = None
# How many fibers wait for a signal that their thread does not block otherwise, by (thread, number).
_blocked: dict[tuple[int, int], int] = {}
_heard: set[int] = set()  # the signals that have handlers for which it hangs
_pauses = 0  # how many fibers are in pause()
_forks_noticed = False


def _listen() -> None:
    global _bell, _forks_noticed
    if _bell is None:
        _bell = _Bell()
    else:
        _bell.hang_up()
    if not _forks_noticed:
        os.register_at_fork(after_in_child=_forked)
        _forks_noticed = True


def _unlisten() -> None:
    global _bell
    bell, _bell = _bell, None
    if bell is not None:
        bell.take_down()


def _forked() -> None:
    global _bell
    bell, _bell = _bell, None
    if bell is not None:
        bell.after_fork()
        try:
            _listen()
        except (OSError, RuntimeError):  # the child is to use no fibers, or has too many descriptors
            pass


def signal(  # type: ignore[no-redef]
    signalnum: int, handler: Callable[[int, FrameType | None], Any] | int | Handlers | None, /
) -> Callable[[int, FrameType | None], Any] | int | Handlers | None:
    """Set a signal's handler, as the standard library's does, and see to it that it runs at once, whatever the main
    thread's fibers wait for. As long as there is such a handler, that nothing else would ever end a wait is no error."""
    before = _set(signalnum, handler)
    try:
        if callable(handler) and handler is not default_int_handler:
            _listen()
            _heard.add(signalnum)
        else:
            _heard.discard(signalnum)
            if not _heard and not _pauses:
                _unlisten()
    except BaseException:
        _set(signalnum, SIG_DFL if before is None else before)
        raise
    return before


def _named(number: int) -> Signals | int:
    try:
        return Signals(number)
    except ValueError:  # one of those for real time
        return number


def pause() -> None:  # type: ignore[no-redef]
    """Wait until a signal has come and its handler, a function, has run. An exception of the handler is raised in the main
    flow. In other threads than the main one this is the standard library's function, and blocks the thread."""
    global _pauses
    if _thread.get_ident() != threading.main_thread().ident:
        return _pause()
    _pauses += 1
    try:
        _listen()
        assert _bell is not None
        _bell.rung.wait()
    finally:
        _pauses -= 1
        if not _heard and not _pauses:
            _unlisten()


def _take(sigset: Iterable[int], timeout: float | None = None) -> tuple[int, int, int, int, int, int, int]:
    """Wait for one of these signals and return its siginfo. The thread blocks these signals while fibers wait so."""
    numbers = set(sigset)
    if not numbers:  # no signal ends such a wait, and fiber_sigwait() refuses it
        if timeout is None:
            _fiberrt.Event().wait()
        else:
            _fiberrt.sleep(timeout)
        raise TimeoutError
    before = pthread_sigmask(SIG_BLOCK, numbers)
    mine = [(_thread.get_ident(), number) for number in numbers]
    for key in mine:
        if key[1] not in before:
            _blocked.setdefault(key, 0)
        if key in _blocked:
            _blocked[key] += 1
    try:
        return _fiberrt.sigwait(numbers, timeout)
    finally:
        for key in mine:
            if key in _blocked:
                _blocked[key] -= 1
                if not _blocked[key]:
                    del _blocked[key]
                    pthread_sigmask(SIG_UNBLOCK, [key[1]])


def sigwait(sigset: Iterable[int], /) -> Signals | int:  # type: ignore[no-redef]
    """Wait for one of these signals, take it, and return it. They should be blocked in all threads, by
    pthread_sigmask(): this call blocks them in its own thread, and only while it waits."""
    return _named(_take(sigset)[0])


def sigwaitinfo(sigset: Iterable[int], /) -> struct_siginfo:  # type: ignore[no-redef]
    """sigwait() that tells also who has sent the signal."""
    return struct_siginfo(_take(sigset))


def sigtimedwait(sigset: Iterable[int], timeout: float, /) -> struct_siginfo | None:  # type: ignore[no-redef]
    """sigwaitinfo() for at most so many seconds; then None."""
    if timeout is None:
        raise TypeError("a time is a number of seconds, not None")
    try:
        return struct_siginfo(_take(sigset, timeout))
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
                self._before[number] = _set(number, self._handle)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            _set(number, SIG_DFL if handler is None else handler)
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
                _write(self._pipe[1], b"\0")
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
