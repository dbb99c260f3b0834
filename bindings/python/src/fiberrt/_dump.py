# SPDX-License-Identifier: MIT OR Apache-2.0
"""dump(): the stacks of all fibers."""

from __future__ import annotations

import sys

from . import _fiberrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Literal, TextIO, overload

    from ._dumped import CFrame, Dump, DumpedFiber, PythonFrame

if TYPE_CHECKING:

    @overload
    def dump(file: TextIO | None = None, *, json: Literal[False] = False, c_frames: bool = False) -> None: ...
    @overload
    def dump(file: None = None, *, json: Literal[True], c_frames: bool = False) -> Dump: ...


def dump(file: TextIO | None = None, *, json: bool = False, c_frames: bool = False) -> Dump | None:
    """Write every live fiber of every thread, the reason why it waits, and its stack, the innermost call last.

    file: sys.stderr by default. c_frames: also each fiber's frames of C code, the innermost first; a running fiber has
    none, unless it is the caller.

    json=True: write nothing, and return a dict that json.dumps() accepts, with the lists "cords" and "fibers" of the
    whole process. A fiber has "id", "name", "cord", "state", "wait" (the reason why it waits, in words), "wait_left_ns"
    (nanoseconds until the deadline, or None), "parent" and more; a fiber of Python also has "python_frames", a list of
    dicts with "file", "line" and "function", the innermost frame first. Ids are strings of digits. The C library's
    docs/debugging.md describes all members.

    OSError, MemoryError: there are no resources for a dump of the C library, which json and c_frames need."""
    if json:
        if file is not None:
            raise TypeError("dump(json=True) returns a dict and writes no file")
        return _collect(c_frames)
    _write(file or sys.stderr, {each["id"]: each for each in _of_core(True)["fibers"]} if c_frames else {})
    return None


def _of_core(c_frames: bool) -> Dump:
    from json import loads  # imported here, as below, because it takes longer to import than this package

    result: Dump = loads(_fiberrt.core_json(c_frames))
    return result


def _thread_names() -> dict[int | None, str]:
    import threading

    return {thread.ident: thread.name for thread in threading.enumerate()}


def _frames_of(frame: FrameType | None) -> list[PythonFrame]:
    frames: list[PythonFrame] = []
    while frame is not None and frame.f_globals is globals():  # of the caller of dump()
        frame = frame.f_back
    while frame is not None:
        code = frame.f_code
        frames.append({"file": code.co_filename, "line": frame.f_lineno, "function": code.co_qualname})
        frame = frame.f_back
    return frames


def _collect(c_frames: bool) -> Dump:
    """Add to the core's dump what the interpreter knows. The GIL is held meanwhile, so no Python fiber goes on."""
    result = _of_core(c_frames)
    names = _thread_names()
    fibers = {each["id"]: each for each in result["fibers"]}
    cords = {each["id"]: each for each in result["cords"]}
    for fiber in _fiberrt.fibers():
        each = fibers.get(str(_fiberrt.id_of(fiber)))
        if each is None:
            continue
        each["name"] = fiber.name
        each["waits_for"] = fiber.waits_for
        frames = each["python_frames"] = _frames_of(_fiberrt.frame(fiber))
        each["python_frames_complete"] = True
        each["function_name"] = frames[-1]["function"] if frames else _fiberrt.function_name(fiber) or ""
        cord = cords.get(each["cord"])
        if cord is not None and not cord["name"]:
            cord["name"] = names.get(_fiberrt.thread_of(fiber), "")
    return result


def _write(file: TextIO, of_core: dict[str, DumpedFiber]) -> None:
    import traceback

    names = _thread_names()
    last = None
    for fiber in _fiberrt.fibers():
        ident = _fiberrt.thread_of(fiber)
        if ident != last:
            file.write(f"Thread {names.get(ident, ident) if ident is not None else ident}\n")
            last = ident
        file.write(f"  {fiber!r}\n")
        frame = _fiberrt.frame(fiber)
        if frame is not None:
            for line in traceback.format_stack(frame):
                file.write("".join(f"  {part}\n" for part in line.rstrip("\n").split("\n")))
        each = of_core.get(str(_fiberrt.id_of(fiber)))
        for number, c_frame in enumerate(each.get("frames", ()) if each else ()):
            file.write(f"    C #{number} {_c_text(c_frame)}\n")


def _c_text(frame: CFrame) -> str:
    place: Any = f"{frame['symbol']}+{frame['offset']:#x}" if frame["symbol"] else frame["pc"]
    return f"{place} ({frame['object']}+{frame['object_offset']:#x})" if frame["object"] else place
