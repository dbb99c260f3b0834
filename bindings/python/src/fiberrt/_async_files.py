# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files for coroutines: fiberrt.aio.open()."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from types import TracebackType
from typing import Any

from . import _fiberrt, _files

__all__ = ["AsyncFile", "open"]


class AsyncFile:
    """A file whose methods are coroutines. While one waits, the event loop and other fibers run.

    The methods, their results and errors are those of the files of the builtin open(): read(), readline(), write(),
    seek() and so on are awaited; fileno(), isatty(), readable(), seekable(), writable() and the attributes name, mode,
    closed, encoding, errors and newlines are not. ``async for`` yields lines, and the end of ``async with`` closes the
    file. A cancel of the coroutine ends the call as it ends those of fiberrt.open().
    """

    def __init__(self, file: Any) -> None:
        self.wrapped = file

    def __getattr__(self, name: str) -> Any:
        if name in ("name", "mode", "closed", "encoding", "errors", "newlines", "fileno", "isatty", "readable", "seekable", "writable"):
            return getattr(self.wrapped, name)
        raise AttributeError(f"an AsyncFile has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<fiberrt.aio.AsyncFile of {self.wrapped!r}>"

    async def __aenter__(self) -> AsyncFile:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    async def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        return await _fiberrt.spawn(method, *arguments)

    async def read(self, size: int | None = -1, /) -> Any:
        """Read up to size bytes or characters, or all if size is negative or None."""
        return await self._call(self.wrapped.read, size)

    async def read1(self, size: int = -1, /) -> bytes:
        """Read up to size bytes by at most one read of the system. For buffered binary files."""
        return await self._call(self.wrapped.read1, size)  # type: ignore[no-any-return]

    async def readinto(self, buffer: Any, /) -> int | None:
        """Read bytes into a buffer; return their number."""
        return await self._call(self.wrapped.readinto, buffer)  # type: ignore[no-any-return]

    async def readline(self, size: int = -1, /) -> Any:
        """Read a line, or its first size bytes or characters. Empty at the end of the file."""
        return await self._call(self.wrapped.readline, size)

    async def readlines(self, hint: int = -1, /) -> list[Any]:
        """Read lines, until their total size exceeds hint if it is positive."""
        return await self._call(self.wrapped.readlines, hint)  # type: ignore[no-any-return]

    async def write(self, data: Any, /) -> int:
        """Write bytes or a string; return their number."""
        return await self._call(self.wrapped.write, data)  # type: ignore[no-any-return]

    async def writelines(self, lines: Any, /) -> None:
        """Write several bytes objects or strings."""
        await self._call(self.wrapped.writelines, lines)

    async def flush(self) -> None:
        """Write the buffered data to the file."""
        await self._call(self.wrapped.flush)

    async def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to a position, in bytes, and return it."""
        return await self._call(self.wrapped.seek, offset, whence)  # type: ignore[no-any-return]

    async def tell(self) -> int:
        """Return the position."""
        return await self._call(self.wrapped.tell)  # type: ignore[no-any-return]

    async def truncate(self, size: int | None = None, /) -> int:
        """Set the size in bytes, by default to the position."""
        return await self._call(self.wrapped.truncate, size)  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Write the buffered data, and close the file, even if the coroutine is cancelled meanwhile."""
        try:
            await self._call(self.wrapped.close)
        except asyncio.CancelledError:
            if not self.wrapped.closed:  # the cancel came before the fiber had begun
                await self._call(self.wrapped.close)
            raise


class _Opening:
    """The result of open(): an awaitable, and a context manager of ``async with``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._arguments = arguments
        self._options = options
        self._file: AsyncFile | None = None

    async def _open(self) -> AsyncFile:
        self._file = AsyncFile(await _fiberrt.spawn(_files.open, *self._arguments, **self._options))
        return self._file

    def __await__(self) -> Generator[Any, Any, AsyncFile]:
        return self._open().__await__()

    __aenter__ = _open

    async def __aexit__(self, *error: Any) -> None:
        assert self._file is not None
        await self._file.close()


def open(
    file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: str | None = None,
    newline: str | None = None, closefd: bool = True, opener: Any = None,
) -> _Opening:  # fmt: skip
    """Open a file in a coroutine: ``file = await open(path)`` or ``async with open(path) as file``.

    The arguments and errors are those of the builtin open(); the file is an AsyncFile. The coroutine's event loop must
    be a fiberrt.aio.EventLoop, or the program patched by fiberrt.monkey.
    """
    return _Opening(file, mode, buffering, encoding, errors, newline, closefd, opener)
