# SPDX-License-Identifier: MIT OR Apache-2.0
"""The standard library's ``signal``, with waits that let other fibers run, and an iterator of signals.

    with fiberrt.signal.receive(signal.SIGTERM, signal.SIGHUP) as signals:
        for number in signals: ...

Handlers set by ``signal()`` run in the main thread, in the fiber that runs there, or while the thread is idle; then
their exceptions are raised in the main flow. A handler must not wait. If a signal comes at the moment when the thread
goes to sleep, a handler set by the standard library's own ``signal()`` may be delayed until the thread wakes up for
another reason. A handler set by this module's ``signal()``, or after ``monkey.patch("signal")``, is not delayed.
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


_set = _stdlib.signal  # kept, because patching replaces it by this module's function
_pause = _stdlib.pause
_write = posix.write  # never switches; os.write may be that of fiberrt.monkey


class _Bell:
    """Wakes the main thread when a signal comes as it is about to sleep. CPython writes each signal to a pipe, and a
    fiber reads it, so the thread does not sleep. Handlers then run as they do after each sleep."""

    def __init__(self) -> None:
        self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before = -1  # the previous wakeup descriptor, to which this object forwards the signals
        self.rung = _fiberrt.Event()  # set by the next signal, and then replaced
        self._over = False
        try:
            _fiberrt.spawn(self._hear)
            self.hang_up()
        except BaseException:
            self._over = True
            self._close()
            raise

    def hang_up(self) -> None:
        """Make the pipe CPython's wakeup descriptor, also if other code has changed it."""
        now = _stdlib.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        if now != self._pipe[1]:
            self._before = now

    def take_down(self) -> None:
        now = _stdlib.set_wakeup_fd(-1)
        try:
            _stdlib.set_wakeup_fd(self._before if now == self._pipe[1] else now)
        except (OSError, ValueError):  # the previous descriptor is closed
            pass
        self._over = True
        try:
            _write(self._pipe[1], b"\0")  # wakes the fiber
        except BlockingIOError:  # the pipe is full, which wakes it, too
            pass

    def after_fork(self) -> None:
        """Close the pipe in the child of a fork: the fiber is missing there, and the parent uses the pipe."""
        if _stdlib.set_wakeup_fd(-1) == self._pipe[1] and self._before != -1:
            _stdlib.set_wakeup_fd(self._before)
        self._close()

    def _hear(self) -> None:
        if self._over:  # hang_up() has failed
            return self._close()
        try:
            while True:
                told = _fiberrt.read(self._pipe[0], 4096)
                if self._over:
                    return
                # Handlers have run: the thread checks for signals before it resumes this fiber.
                rung, self.rung = self.rung, _fiberrt.Event()
                rung.set()
                if self._before != -1:
                    try:
                        _write(self._before, told)
                    except OSError:  # the descriptor is full or closed
                        pass
        finally:
            if not self._over:  # the fiber was cancelled
                _unlisten()
            self._close()

    def _close(self) -> None:
        pipe, self._pipe = self._pipe, (-1, -1)
        for fd in pipe:
            if fd != -1:
                os.close(fd)


_bell: _Bell | None = None
# The number of fibers that wait for a signal which their thread did not block before, by (thread, number).
_blocked: dict[tuple[int, int], int] = {}
_heard: set[int] = set()  # the signals whose handlers need _bell
_pauses = 0  # the number of fibers in pause()
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
        except (OSError, RuntimeError):  # the child must not use fibers, or has too many descriptors
            pass


def signal(  # type: ignore[no-redef]
    signalnum: int, handler: Callable[[int, FrameType | None], Any] | int | Handlers | None, /
) -> Callable[[int, FrameType | None], Any] | int | Handlers | None:
    """Set a signal's handler, as the standard library's function does, so that it runs at once, even while all fibers
    of the main thread wait. While there is such a handler, a wait that nothing else could end is not an error."""
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
    except ValueError:  # a real-time signal
        return number


def pause() -> None:  # type: ignore[no-redef]
    """Wait until a signal has come and its handler, a function, has run. An exception of the handler is raised in the
    main flow. In threads other than the main one, the standard library's function is called and blocks the thread."""
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
    """Wait for one of these signals and return its siginfo. The thread blocks the signals during such waits."""
    numbers = set(sigset)
    if not numbers:  # no signal can end such a wait, and fiber_sigwait() refuses it
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
    """Wait for one of these signals, take it, and return it. Block the signals in all threads before, by
    pthread_sigmask(): this call blocks them only in its own thread and while it waits."""
    return _named(_take(sigset)[0])


def sigwaitinfo(sigset: Iterable[int], /) -> struct_siginfo:  # type: ignore[no-redef]
    """Like sigwait(), but return a struct_siginfo, which also names the sender."""
    return struct_siginfo(_take(sigset))


def sigtimedwait(sigset: Iterable[int], timeout: float, /) -> struct_siginfo | None:  # type: ignore[no-redef]
    """Like sigwaitinfo(), but return None when the timeout in seconds has passed."""
    if timeout is None:
        raise TypeError("a time is a number of seconds, not None")
    try:
        return struct_siginfo(_take(sigset, timeout))
    except TimeoutError:
        return None


class receive:
    """``with receive(*signals) as numbers: for number in numbers: ...`` waits for signals and yields each number.

    In the block, the signals have no other effect; their handlers are restored at its end. Enter the block in the main
    thread, because it calls signal(). Any fiber may iterate, and each signal is yielded once. When the block ends, the
    loops that still wait end, too.
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
            raise RuntimeError("the receiver has been entered already")
        self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            # A signal that comes as the thread is about to sleep wakes the thread by this pipe.
            self._wakeup_before = _stdlib.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
            if self._wakeup_before != -1:
                _stdlib.set_wakeup_fd(self._wakeup_before)  # another descriptor serves as well
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
                    _stdlib.set_wakeup_fd(now)  # other code has changed it meanwhile
            except ValueError:  # not in the main thread, where it was not set
                pass
        for fd in pipe:
            _fiberrt.close(fd)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._got.append(_named(number))
        if self._pipe is not None:
            try:
                _write(self._pipe[1], b"\0")
            except BlockingIOError:  # the pipe is full, which is enough
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
