# SPDX-License-Identifier: MIT OR Apache-2.0
"""asyncio and fibers: an event loop that a fiber runs, coroutines that wait for fibers, fibers that wait for coroutines.

    import asyncio
    import fiberrt.aio

    with asyncio.Runner(loop_factory=fiberrt.aio.EventLoop) as runner:
        runner.run(main())

While the loop waits, the thread's other fibers run. Several fibers of a thread may each run a loop.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import sys
import weakref
from asyncio import base_events, events, format_helpers, unix_events
from asyncio.log import logger
from collections.abc import Awaitable, Callable, Generator
from typing import Any, ParamSpec, TypeVar

from . import _fiberrt, _streams  # noqa: F401
from ._async_files import AsyncFile, open
from ._datagrams import DatagramTransport
from ._pipes import ReadPipeTransport, WritePipeTransport
from ._scopes import shield
from ._transports import StreamTransport

__all__ = ["AsyncFile", "EventLoop", "await_", "new_event_loop", "open", "run"]

P = ParamSpec("P")
T = TypeVar("T")


def _repr_of_handle(handle: Any) -> str:
    """The repr() of handles outside of debug mode, like that of asyncio's."""
    info = [type(handle).__name__]
    if handle.cancelled():
        info.append("cancelled")
    if hasattr(handle, "when"):
        info.append(f"when={handle.when()}")
    if handle._callback is not None:
        info.append(format_helpers._format_callback_source(handle._callback, handle._args))  # type: ignore[attr-defined]
    return f"<{' '.join(info)}>"


class _Watches:
    """Stands where asyncio's loop has its selector, for code that looks into it: the loop waits by the fibers'
    runtime."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = weakref.ref(loop)

    def get_key(self, file: Any) -> selectors.SelectorKey:
        """Return what the loop waits for at a descriptor. KeyError: nothing."""
        loop = self._loop()
        reader, writer = (None, None) if loop is None else loop._handles_of(file)
        if reader is None and writer is None:
            raise KeyError(file)
        reads = selectors.EVENT_READ if reader is not None else 0
        writes = selectors.EVENT_WRITE if writer is not None else 0
        return selectors.SelectorKey(file, file, reads | writes, (reader, writer))

    def close(self) -> None:
        pass


class EventLoop(_fiberrt.Loop, asyncio.SelectorEventLoop):
    """An asyncio event loop. The fiber that calls run_forever() or run_until_complete() runs it.

    It differs from asyncio's in this: other fibers of the thread run while it waits; they may call call_soon(),
    call_later() and call_at(), which wake it; and a cancel or a time limit of that fiber cancels the task of
    run_until_complete(), which then raises fiberrt.CancelledError when the task has ended.
    """

    def __init__(self) -> None:
        super().__init__(_Watches(self))  # type: ignore[arg-type]
        self._children: dict[int, int] = {}  # the descriptors of child processes
        self._debug_timers: dict[int, Any] = {}  # the handles behind asyncio's TimerHandles in debug mode, by id()

    # --- Running

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until the future, or the coroutine's task, is done. Return its result or raise its exception."""
        self._check_closed()  # type: ignore[attr-defined]
        self._check_running()  # type: ignore[attr-defined]
        new = not asyncio.isfuture(future)
        task = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
        if new:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        try:
            return super().run_until_complete(task)  # type: ignore[no-any-return]
        except _fiberrt.CancelledError:
            if not task.done():
                task.cancel()
                with shield():
                    try:
                        super().run_until_complete(task)
                    except asyncio.CancelledError:
                        pass
            raise
        except BaseException:
            if new and task.done() and not task.cancelled():
                task.exception()  # the caller has it already
            raise

    def close(self) -> None:
        """Forget all callbacks and close the loop. It must not run."""
        if self.is_running():
            raise RuntimeError("Cannot close a running event loop")
        if self.is_closed():
            return
        super().close()
        self._drop()
        self._debug_timers.clear()
        while self._children:
            os.close(self._children.popitem()[1])

    def run_forever(self) -> None:
        """Run until stop() is called."""
        # asyncio checks this, too; but in Python 3.13.0 a refused call then clears the running loop of the caller.
        self._check_closed()  # type: ignore[attr-defined]
        self._check_running()  # type: ignore[attr-defined]
        _fiberrt.keep_settings()
        super().run_forever()

    def _callback_failed(self, handle: Any, error: BaseException) -> None:
        if handle is None:  # of a transport
            self.call_exception_handler({"message": "Exception in a transport's callback", "exception": error})
            return
        what = format_helpers._format_callback_source(handle._callback, handle._args)  # type: ignore[attr-defined]
        self.call_exception_handler(
            {"message": f"Exception in callback {what}", "exception": error, "handle": handle}
        )

    def _run_in_debug_mode(self, handle: Any) -> None:
        if handle._cancelled:
            return
        self._current_handle = handle
        begin = self.time()
        try:
            handle._run()
        finally:
            self._current_handle = None
        seconds = self.time() - begin
        if seconds >= self.slow_callback_duration:
            base_events.logger.warning("Executing %s took %.3f seconds", base_events._format_handle(handle), seconds)  # type: ignore[attr-defined]

    # --- Debug mode has asyncio's own handles, which know where they were made.

    _call_soon_in_debug_mode = base_events.BaseEventLoop.call_soon
    _call_later_in_debug_mode = base_events.BaseEventLoop.call_later

    def _call_soon_threadsafe_in_debug_mode(self, callback: Any, *args: Any, context: Any = None) -> events.Handle:
        self._check_closed()  # type: ignore[attr-defined]
        self._check_callback(callback, "call_soon_threadsafe")  # type: ignore[attr-defined]
        handle = self._call_soon(callback, args, context)
        if handle._source_traceback:  # type: ignore[attr-defined]
            del handle._source_traceback[-1]  # type: ignore[attr-defined]
        return handle

    def _handle_in_debug_mode(self, callback: Any, *args: Any) -> events.Handle:
        return events.Handle(callback, args, self)

    def _call_soon(self, callback: Any, args: Any, context: Any) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        if handle._source_traceback:  # type: ignore[attr-defined]
            del handle._source_traceback[-1]  # type: ignore[attr-defined]
        self._add_callback(handle)
        return handle

    def _call_at_in_debug_mode(self, when: float, callback: Any, *args: Any, context: Any = None) -> events.TimerHandle:
        self._check_closed()  # type: ignore[attr-defined]
        self._check_thread()  # type: ignore[attr-defined]
        self._check_callback(callback, "call_at")  # type: ignore[attr-defined]
        timer = events.TimerHandle(when, callback, args, self, context)
        if timer._source_traceback:  # type: ignore[attr-defined]
            del timer._source_traceback[-1]  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        self._debug_timers[id(timer)] = self._call_at(when, self._run_timer_in_debug_mode, timer)
        return timer

    def _run_timer_in_debug_mode(self, timer: Any) -> None:
        self._debug_timers.pop(id(timer), None)
        timer._scheduled = False
        self._run_in_debug_mode(timer)

    def _timer_handle_cancelled(self, timer: Any) -> None:
        own = self._debug_timers.pop(id(timer), None)
        if own is not None:
            own.cancel()

    # --- Sockets and processes

    def _make_self_pipe(self) -> None:
        self._ssock = self._csock = None  # add_signal_handler() makes them

    def _close_self_pipe(self) -> None:
        if self._ssock is not None:
            super()._close_self_pipe()  # type: ignore[misc]

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:
        """Call a callback of the loop for a signal. Only the main thread may call this."""
        if self._ssock is None and not self.is_closed():
            super()._make_self_pipe()  # type: ignore[misc]
        super().add_signal_handler(sig, callback, *args)

    def _make_socket_transport(
        self, sock: Any, protocol: Any, waiter: Any = None, *, extra: Any = None, server: Any = None
    ) -> StreamTransport:
        return StreamTransport(self, sock, protocol, waiter, extra, server)

    def _make_ssl_transport(
        self, rawsock: Any, protocol: Any, sslcontext: Any, waiter: Any = None, *, server_side: bool = False,
        server_hostname: Any = None, extra: Any = None, server: Any = None, ssl_handshake_timeout: Any = None,
        ssl_shutdown_timeout: Any = None,
    ) -> Any:  # fmt: skip
        from asyncio import sslproto

        ssl_protocol = sslproto.SSLProtocol(
            self, protocol, sslcontext, waiter, server_side, server_hostname,
            ssl_handshake_timeout=ssl_handshake_timeout, ssl_shutdown_timeout=ssl_shutdown_timeout,
        )  # fmt: skip
        StreamTransport(self, rawsock, ssl_protocol, extra=extra, server=server)
        return ssl_protocol._app_transport  # type: ignore[attr-defined]

    def _make_datagram_transport(
        self, sock: Any, protocol: Any, address: Any = None, waiter: Any = None, extra: Any = None
    ) -> DatagramTransport:
        return DatagramTransport(self, sock, protocol, address, waiter, extra)

    def _make_read_pipe_transport(
        self, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
    ) -> ReadPipeTransport:
        return ReadPipeTransport(self, pipe, protocol, waiter, extra)

    def _make_write_pipe_transport(
        self, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
    ) -> WritePipeTransport:
        return WritePipeTransport(self, pipe, protocol, waiter, extra)

    @staticmethod
    def _attach(server: Any, transport: Any) -> None:
        try:
            server._attach(transport)
        except TypeError:  # before Python 3.13
            server._attach()

    async def _make_subprocess_transport(
        self, protocol: Any, args: Any, shell: Any, stdin: Any, stdout: Any, stderr: Any, bufsize: int,
        extra: Any = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        waiter = self.create_future()
        transport = unix_events._UnixSubprocessTransport(  # type: ignore[attr-defined]
            self, protocol, args, shell, stdin, stdout, stderr, bufsize, waiter=waiter, extra=extra, **kwargs
        )
        pid = transport.get_pid()
        self._children[pid] = descriptor = os.pidfd_open(pid)
        self._add_reader(descriptor, self._child_has_ended, pid, transport)
        try:
            await waiter
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            transport.close()
            await transport._wait()
            raise
        return transport

    def _child_has_ended(self, pid: int, transport: Any) -> None:
        descriptor = self._children.pop(pid)
        self._remove_reader(descriptor)
        os.close(descriptor)
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:
            code = 255
            logger.warning("child process pid %d exit status already read:  will report returncode 255", pid)
        self.call_soon(transport._process_exited, code)


def new_event_loop() -> EventLoop:
    """Return a new EventLoop, for `uvicorn --loop fiberrt.aio:new_event_loop` and the like."""
    return EventLoop()


if sys.version_info < (3, 14):

    class EventLoopPolicy(asyncio.DefaultEventLoopPolicy):
        """For asyncio.set_event_loop_policy(): asyncio.run() and asyncio.new_event_loop() then use our EventLoop. Python
        3.14 deprecates policies; asyncio.Runner(loop_factory=EventLoop) works in all versions."""

        _loop_factory = EventLoop

    __all__ += ["EventLoopPolicy"]


# --- Fibers that wait for coroutines, and coroutines that wait for fibers


def await_(awaitable: Awaitable[T], loop: asyncio.AbstractEventLoop | None = None) -> T:
    """Wait, as a fiber, for a coroutine or a future of an event loop that another fiber or thread runs.

    loop: the loop that runs a coroutine; None: the one that a fiber of this thread runs. Return the result or raise the
    exception. A cancel or a time limit of the fiber cancels the coroutine's task, and the call waits for its end.
    RuntimeError: no fiber of the thread runs a loop, or the caller runs the loop itself.
    """
    if asyncio.isfuture(awaitable):
        loop = awaitable.get_loop()
    elif loop is None:
        loop = _loop_of_thread()
    if loop is _fiberrt.running_loop():
        raise RuntimeError("the fiber that runs an event loop cannot wait for it: call await_() from another fiber")
    return _Waiting(awaitable, loop).result()  # type: ignore[no-any-return]


def _loop_of_thread() -> asyncio.AbstractEventLoop:
    loop = _fiberrt.loop_of_thread()
    if loop is None:
        raise RuntimeError("no fiber of this thread runs an event loop: give the loop")
    return loop  # type: ignore[no-any-return]


class _Waiting:
    """A fiber's wait for an awaitable of a loop."""

    def __init__(self, awaitable: Any, loop: Any) -> None:
        self._awaitable = awaitable
        self._task: asyncio.Future[Any] | None = None
        self._over = _fiberrt.Event()
        self._loop = loop
        self._cancel = False
        self._error: BaseException | None = None

    def _begin(self) -> None:  # in the loop
        try:
            self._task = asyncio.ensure_future(self._awaitable, loop=self._loop)
        except BaseException as error:
            self._error = error
            self._over.set()
            return
        self._task.add_done_callback(self._end)
        if self._cancel:
            self._task.cancel()

    def _end(self, task: Any) -> None:
        self._over.set()

    def _stop(self) -> None:  # in the loop
        self._cancel = True
        if self._task is not None:
            self._task.cancel()

    def result(self) -> Any:
        self._loop.call_soon_threadsafe(self._begin)
        try:
            self._over.wait()
        except BaseException:
            with shield():
                self._loop.call_soon_threadsafe(self._stop)
                self._over.wait()
            if self._task is not None and not self._task.cancelled():
                self._task.exception()  # asyncio need not report it
            raise
        if self._error is not None:
            raise self._error
        assert self._task is not None
        return self._task.result()


async def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a new fiber of this thread, and wait for its end in a coroutine. The function may wait as
    fibers do, and may call await_(). A cancel of the coroutine cancels the fiber."""
    return await _fiberrt.spawn(function, *args, **kwargs)  # type: ignore[misc, no-any-return]


def _until_ended(fiber: Any) -> Generator[Any, None, Any]:
    """Fiber.__await__ for a fiber that has not ended, or has failed."""
    cancelled = None
    while not fiber.done:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        fiber.add_done_callback(_Teller(loop, ended))
        try:
            yield from ended
        except asyncio.CancelledError as error:
            if fiber.done:
                raise
            cancelled = error
            fiber.cancel()
    try:
        return fiber.result()
    except _fiberrt.CancelledError:
        if cancelled is not None:
            raise cancelled from None
        raise asyncio.CancelledError("the fiber was cancelled") from None


class _Teller:
    """Tells a loop that a fiber has ended: a fiber of the loop's thread, or of another one."""

    __slots__ = ("_ended", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        self._loop = loop
        self._ended = ended

    def __call__(self, fiber: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


_fiberrt.follow_running_loops(events._get_running_loop, events._set_running_loop, _until_ended)
events._set_running_loop = asyncio._set_running_loop = _fiberrt.set_running_loop
