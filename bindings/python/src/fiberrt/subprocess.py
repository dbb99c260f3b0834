# SPDX-License-Identifier: MIT OR Apache-2.0
"""The standard library's ``subprocess``, which lets other fibers run while it waits for children and their pipes.

When a cancel or a time limit ends ``run()``, ``call()``, ``check_call()``, ``check_output()`` or a ``with`` block of a
``Popen``, the child is killed and reaped. In other calls, the child lives on.
"""

from __future__ import annotations

import io
import os
import select
import subprocess as _stdlib
from contextlib import suppress
from subprocess import *
from time import monotonic
from types import TracebackType
from typing import Any

from . import _fiberrt, _files
from . import selectors as selectors
from ._rebind import complete, rebind
from ._scopes import shield

_PopenSelector = selectors.PollSelector  # epoll refuses regular files


def _with_fibers(stream: Any, mode: str, size: int) -> Any:
    """Return a file for fibers with the descriptor of the given stream."""
    if stream is None or isinstance(_raw(stream), _files.FileIO):
        return stream
    text = buffer = None
    raw = stream
    if isinstance(raw, io.TextIOWrapper):
        text = raw
        raw = text.detach()
    if isinstance(raw, (io.BufferedReader, io.BufferedWriter)):
        buffer = _files.BufferedReader if isinstance(raw, io.BufferedReader) else _files.BufferedWriter
        raw = raw.detach()
    with raw:
        pipe: Any = _files.FileIO(os.dup(raw.fileno()), mode)
    if buffer is not None:
        pipe = buffer(pipe, size)
    if text is not None:
        pipe = _files.TextIOWrapper(
            pipe, text.encoding, text.errors, line_buffering=text.line_buffering, write_through=text.write_through
        )
    return pipe


class Popen(_stdlib.Popen):  # type: ignore[type-arg, no-redef]
    """A child process. Its pipes, wait() and communicate() let other fibers run while they wait.

    A ``with`` block that a cancel or a time limit ends kills and reaps the child.
    """

    def __init__(self, args: Any, bufsize: int | None = -1, *more: Any, **options: Any) -> None:
        bufsize = -1 if bufsize is None else bufsize
        super().__init__(args, bufsize, *more, **options)
        size = bufsize if bufsize > 1 else io.DEFAULT_BUFFER_SIZE
        self.stdin = _with_fibers(self.stdin, "wb", size)
        self.stdout = _with_fibers(self.stdout, "rb", size)
        self.stderr = _with_fibers(self.stderr, "rb", size)

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None or not issubclass(kind, _fiberrt.CancelledError):
            super().__exit__(kind, exception, traceback)
            return
        self.kill()
        with shield():
            for stream in (self.stdin, self.stdout, self.stderr):
                with suppress(OSError, ValueError):  # buffered data is lost
                    if stream is not None:
                        _raw(stream).close()
                        stream.close()
            self.wait()

    def poll(self) -> int | None:
        """Return the child's exit status, or None if it has not ended."""
        _fiberrt.poll_turn()
        return super().poll()

    def _wait(self, timeout: float | None) -> int | None:
        deadline = None if timeout is None else monotonic() + timeout
        delay = 0.001
        process = None
        try:
            while self.returncode is None:
                if self._reap():
                    break
                left = None if deadline is None else deadline - monotonic()
                if left is not None and left <= 0:
                    assert timeout is not None
                    raise TimeoutExpired(self.args, timeout)
                if process is None:
                    with suppress(OSError):  # no descriptor is left
                        process = os.pidfd_open(self.pid)
                        continue
                    _fiberrt.sleep(delay if left is None else min(delay, left))
                    delay = min(2 * delay, 0.016)
                else:
                    _fiberrt.wait_fd(process, select.POLLIN, left)
        finally:
            if process is not None:
                _fiberrt.close(process)
        return self.returncode

    def _reap(self) -> bool:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)  # type: ignore[attr-defined]
                if pid == self.pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            return self.returncode is not None


def _raw(stream: Any) -> Any:
    stream = getattr(stream, "buffer", stream)
    return getattr(stream, "raw", stream)


complete(globals(), _stdlib)
Popen._communicate = rebind(_stdlib.Popen._communicate, globals())  # type: ignore[attr-defined]
call = rebind(_stdlib.call, globals())
check_call = rebind(_stdlib.check_call, globals())
check_output = rebind(_stdlib.check_output, globals())
getoutput = rebind(_stdlib.getoutput, globals())
getstatusoutput = rebind(_stdlib.getstatusoutput, globals())
run = rebind(_stdlib.run, globals())
