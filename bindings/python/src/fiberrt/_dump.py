# SPDX-License-Identifier: MIT OR Apache-2.0
"""dump(): the stacks of all fibers."""

from __future__ import annotations

import sys

from . import _fiberrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from typing import Any, Literal, TextIO, overload

    from ._dumped import CFrame, Dump, DumpedFiber, GroupedDump, PythonFrame

if TYPE_CHECKING:

    @overload
    def dump(
        file: TextIO | None = None, *, grouped: bool = False, c_frames: bool = False, json: Literal[False] = False
    ) -> None: ...
    @overload
    def dump(
        file: None = None, *, grouped: Literal[False] = False, c_frames: bool = False, json: Literal[True]
    ) -> Dump: ...
    @overload
    def dump(file: None = None, *, grouped: Literal[True], c_frames: bool = False, json: Literal[True]) -> GroupedDump: ...


def dump(
    file: TextIO | None = None, *, grouped: bool = False, c_frames: bool = False, json: bool = False
) -> Dump | GroupedDump | None:
    """Write every live fiber of every thread, the reason for its wait, and its stack, the innermost call last.

    file: sys.stderr by default. grouped: count the fibers whose states, waits and stacks are equal, the most frequent
    first. c_frames: also the frames of C code, the innermost first; a running fiber has none, unless it is the caller.

    json=True: write nothing, and return a dict that json.dumps() accepts, with the lists "cords" and "fibers" of the
    whole process. A fiber has "id", "name", "cord", "state", "wait" (the reason for its wait, in words), "wait_left_ns"
    (nanoseconds until the deadline, or None), "parent" and more; a fiber of Python also has "python_frames", a list of
    dicts with "file", "line" and "function", the innermost frame first. Ids are strings of digits. With grouped=True,
    the dict has "groups" instead of "fibers": each has "count", "state", "wait" and the ids of some "fibers"; a group
    of fibers of Python also has "python_frames". The C library's docs/debugging.md describes all members.

    OSError, MemoryError: there are no resources for the C library's dump, which the plain text does not need."""
    if json:
        if file is not None:
            raise TypeError("dump(json=True) returns a dict and writes no file")
        return _grouped() if grouped else _collect(c_frames)
    if grouped:
        _write_groups(file or sys.stderr, c_frames)
    else:
        _write(file or sys.stderr, {each["id"]: each for each in _of_core(_FRAMES)["fibers"]} if c_frames else {})
    return None


# The flags of fiber_dump_as in C.
_FRAMES, _GROUPED, _JSON = 1, 2, 4


def _of_core(flags: int) -> Any:
    from json import loads  # imported here, as below, because it takes longer to import than this package

    return loads(_fiberrt.core_text(flags | _JSON))


def _thread_names() -> dict[int | None, str]:
    import threading

    return {thread.ident: thread.name for thread in threading.enumerate()}


def _callers(frame: FrameType | None) -> FrameType | None:
    """Return the frame of dump()'s caller, if this one is within dump()."""
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    return frame


def _frames_of(frame: FrameType | None) -> list[PythonFrame]:
    frames: list[PythonFrame] = []
    while frame is not None:
        code = frame.f_code
        frames.append({"file": code.co_filename, "line": frame.f_lineno, "function": code.co_qualname})
        frame = frame.f_back
    return frames


def _name_cords(dump: Dump | GroupedDump, cords: dict[str, int]) -> None:
    """Give cords without a name the names of their threads. cords: Python's number of the thread for a cord's id."""
    names = _thread_names()
    for cord in dump["cords"]:
        if not cord["name"]:
            cord["name"] = names.get(cords.get(cord["id"]), "")


def _collect(c_frames: bool) -> Dump:
    """Add to the core's dump what the interpreter knows. The GIL is held meanwhile, so no Python fiber goes on."""
    result: Dump = _of_core(_FRAMES if c_frames else 0)
    fibers = {each["id"]: each for each in result["fibers"]}
    cords: dict[str, int] = {}
    for fiber in _fiberrt.fibers():
        each = fibers.get(str(_fiberrt.id_of(fiber)))
        if each is None:
            continue
        each["name"] = fiber.name
        each["waits_for"] = fiber.waits_for
        frames = each["python_frames"] = _frames_of(_callers(_fiberrt.frame(fiber)))
        each["python_frames_complete"] = True
        each["function_name"] = frames[-1]["function"] if frames else _fiberrt.function_name(fiber) or ""
        thread = _fiberrt.thread_of(fiber)
        if thread is not None:
            cords[each["cord"]] = thread
    _name_cords(result, cords)
    return result


def _grouped() -> GroupedDump:
    result: GroupedDump = _of_core(_GROUPED)
    return result


def _write(file: TextIO, of_core: dict[str, DumpedFiber]) -> None:
    import traceback

    names = _thread_names()
    last = None
    for fiber in _fiberrt.fibers():
        ident = _fiberrt.thread_of(fiber)
        if ident != last:
            file.write(f"Thread {names.get(ident, ident)}\n")
            last = ident
        file.write(f"  {fiber!r}\n")
        frame = _callers(_fiberrt.frame(fiber))
        if frame is not None:
            for line in traceback.format_stack(frame):
                file.write("".join(f"  {part}\n" for part in line.rstrip("\n").split("\n")))
        each = of_core.get(str(_fiberrt.id_of(fiber)))
        if each:
            _write_c_frames(file, each.get("frames", ()))


def _write_groups(file: TextIO, c_frames: bool) -> None:
    names = {str(_fiberrt.id_of(fiber)): fiber.name for fiber in _fiberrt.fibers()}
    for group in _grouped()["groups"]:
        count = group["count"]
        some = ", ".join(names.get(each, hex(int(each))) for each in group["fibers"])
        file.write(f"{count:,} fiber{'s' * (count > 1)}, {group['state']}{': ' * bool(group['wait'])}{group['wait']}\n")
        file.write(f"    {some}{', …' if len(group['fibers']) < count else ''}\n")
        if not group.get("python_frames_complete", True):
            file.write("    (outer frames are left out)\n")
        for frame in reversed(group.get("python_frames", ())):
            file.write(f"    File \"{frame['file']}\", line {frame['line']}, in {frame['function']}\n")
        if c_frames:
            _write_c_frames(file, group["frames"])


def _write_c_frames(file: TextIO, frames: Iterable[CFrame]) -> None:
    for number, frame in enumerate(frames):
        place: Any = f"{frame['symbol']}+{frame['offset']:#x}" if frame["symbol"] else frame["pc"]
        within = f" ({frame['object']}+{frame['object_offset']:#x})" if frame["object"] else ""
        file.write(f"    C #{number} {place}{within}\n")
