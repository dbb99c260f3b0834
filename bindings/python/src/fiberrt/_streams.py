# SPDX-License-Identifier: MIT OR Apache-2.0
"""asyncio's streams on fiberrt.aio.EventLoop: the frequent methods are in C++, in the types of _fiberrt, and the rest
are asyncio's own. asyncio.StreamReader(...) and the like make these when their loop is an EventLoop."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from . import _fiberrt


class StreamReader(_fiberrt.Reader, asyncio.StreamReader):
    __doc__ = asyncio.StreamReader.__doc__


class StreamReaderProtocol(_fiberrt.ReaderProtocol, asyncio.StreamReaderProtocol):
    __doc__ = asyncio.StreamReaderProtocol.__doc__


class StreamWriter(_fiberrt.Writer, asyncio.StreamWriter):
    __doc__ = asyncio.StreamWriter.__doc__


def _make_in_place_of(plain: type, ours: Any, loop_at: int) -> None:
    """Make plain(...) return an object of ours if its loop is an EventLoop. loop_at: the place of the argument loop."""

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls is not plain:
            new = super(plain, cls).__new__  # of the next base class
            return new(cls) if new is object.__new__ else new(cls, *args, **kwargs)
        loop = args[loop_at] if len(args) > loop_at else kwargs.get("loop")
        if loop is None:
            loop = asyncio._get_running_loop()
        return ours.__new__(ours) if isinstance(loop, _fiberrt.Loop) else object.__new__(cls)

    __new__.__signature__ = inspect.signature(plain.__init__)  # type: ignore[attr-defined, misc]
    plain.__new__ = __new__  # type: ignore[method-assign, assignment]


_make_in_place_of(asyncio.StreamReader, StreamReader, 1)
_make_in_place_of(asyncio.StreamReaderProtocol, StreamReaderProtocol, 2)
_make_in_place_of(asyncio.StreamWriter, StreamWriter, 3)
