# SPDX-License-Identifier: MIT OR Apache-2.0
"""The types of the dict that dump(json=True) returns. Not imported at run time. docs/debugging.md says what the members
mean: they are those of the C library's dump, except where a comment here says more."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class PythonFrame(TypedDict):
    file: str | None  # None: not known
    line: int | None  # from 1; None: not known
    function: str  # its __qualname__


class CFrame(TypedDict):
    pc: str
    symbol: str | None
    offset: NotRequired[int]
    object: str | None
    object_offset: NotRequired[int]


class Spread(TypedDict):
    count: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    most_ns: int


class DumpedCord(TypedDict):
    id: str
    name: str  # of a thread with Python fibers: the name of its threading.Thread, unless the cord has a name
    thread: int  # as threading.get_native_id()
    ended: bool
    closing: bool
    # Missing if the cord has ended:
    switches: NotRequired[int]
    instant_resumes: NotRequired[int]
    polls: NotRequired[int]
    blocking_polls: NotRequired[int]
    ops: NotRequired[int]
    ops_in_flight: NotRequired[int]
    fibers: NotRequired[int]
    stacks: NotRequired[int]
    stacks_free: NotRequired[int]
    stack_bytes: NotRequired[int]
    # While accounting is on:
    elapsed_ns: NotRequired[int]
    run_ns: NotRequired[int]
    poll_ns: NotRequired[int]
    sleep_ns: NotRequired[int]
    slice: NotRequired[Spread]
    lag: NotRequired[Spread]
    poll: NotRequired[Spread]


class DumpedFiber(TypedDict):
    id: str
    name: str  # Fiber.name
    cord: str
    state: str
    still: bool
    main_flow: bool
    cancelled: bool
    detached: bool
    wait: str
    wait_fd: int
    wait_object: str
    wait_fiber: str
    wait_left_ns: int | None
    parent: str
    parent_scope: str
    function: str
    function_name: str
    stack_size: int
    stack_used: int
    stack_touched: int
    # If the C library has recorded where the fiber was created:
    created_at: NotRequired[str]
    created_at_name: NotRequired[str]
    created_at_offset: NotRequired[int]
    created_by: NotRequired[str]
    # While accounting is on:
    turns: NotRequired[int]
    run_ns: NotRequired[int]
    runnable_ns: NotRequired[int]
    wait_ns: NotRequired[int]
    waits_ns: NotRequired[dict[str, int]]
    # With c_frames=True:
    frames: NotRequired[list[CFrame]]
    frames_complete: NotRequired[bool]
    # Of Python's fibers; those of C code lack these:
    waits_for: NotRequired[str | None]  # Fiber.waits_for
    python_frames: NotRequired[list[PythonFrame]]  # the innermost first
    python_frames_complete: NotRequired[bool]


class WaitCircle(TypedDict):
    fibers: list[str]
    left_ns: int | None


class _Whole(TypedDict):
    fiberrt: str  # the version of the library
    pid: int
    now_ns: int
    cords: list[DumpedCord]
    deadlocks: list[list[str]]
    wait_circles: list[WaitCircle]
    incomplete: list[str]


class Dump(_Whole):
    fibers: list[DumpedFiber]


class DumpedGroup(TypedDict):
    count: int
    state: str
    wait: str
    fibers: list[str]  # the first ids
    python_frames: NotRequired[list[PythonFrame]]
    python_frames_complete: NotRequired[bool]
    # Of the first fiber:
    frames: list[CFrame]
    frames_complete: bool


class GroupedDump(_Whole):
    groups: list[DumpedGroup]
