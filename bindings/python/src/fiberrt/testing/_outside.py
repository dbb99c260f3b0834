# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls that leave the simulation: they start a thread of the system or a process, or reach another machine."""

from __future__ import annotations

import _posixsubprocess
import _thread
import posix
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from .. import socket as own_socket
from ._program import Program

left = ""  # the first such call that this run has made


class LeftSimulation(RuntimeError):
    """The test does something that the simulation cannot repeat: it starts a thread of the system or a process, or uses
    a file or a connection whose other end is outside."""


def leave(what: str) -> NoReturn:
    """Note that the run leaves the simulation here. Raises LeftSimulation."""
    global left
    left = left or what
    raise LeftSimulation(what)


def refused(program: Program) -> None:
    """Note that the simulation has refused a descriptor. The program may catch the OSError that this causes."""
    global left
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename == __file__ or not program.contains(frame.f_code)):
        frame = frame.f_back
    place = "a library" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
    left = left or f"{place} uses a file or a connection that other processes may use, which the simulation cannot repeat"


def _refuse(module: Any, name: str, what: str) -> None:
    if hasattr(module, name):
        setattr(module, name, lambda *_, **__: leave(f"{what}, which the simulation cannot repeat"))


def _refuse_everywhere(module: Any, name: str, what: str) -> None:
    """Refuse a function also under the names by which other modules have imported it."""
    before = getattr(module, name, None)
    if before is None:
        return
    _refuse(module, name, what)
    by = getattr(module, name)
    for other in list(sys.modules.values()):
        names = getattr(other, "__dict__", {})
        for key, value in list(names.items()):
            if value is before and names.get("__name__", "").split(".")[0] != "fiberrt":
                names[key] = by


def _popen_init(self: Any, args: Any, *_: Any, **__: Any) -> None:
    leave(f"subprocess.Popen({args!r}) starts a process, which the simulation cannot repeat")


def is_inside(address: Any) -> bool:
    """Whether a socket address may have its listener in this process."""
    if not isinstance(address, tuple):
        return True  # of a Unix socket, or wrong
    host = address[0] if address else ""
    return not isinstance(host, str) or host in ("", "localhost", "::1") or host.startswith("127.")


def _only_inside(connect: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of sockets that connects."""

    def own(self: Any, address: Any, /) -> Any:
        if not is_inside(address):
            leave(f"a connection to {address!r} leaves this process, which the simulation cannot repeat")
        return connect(self, address)

    return own


def refuse() -> None:
    """Make calls that leave the simulation raise LeftSimulation, in this process."""
    for name in ("start_new_thread", "start_joinable_thread"):
        _refuse(_thread, name, f"_thread.{name}() starts a thread of the system")
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "execv", "execve"):
        _refuse_everywhere(posix, name, f"os.{name}() starts a process")
    _refuse_everywhere(_posixsubprocess, "fork_exec", "fork_exec(), as of multiprocessing, starts a process")
    subprocess = sys.modules.get("subprocess")
    if subprocess is not None:
        subprocess.Popen.__init__ = _popen_init
        subprocess.Popen.__del__ = lambda self: None
    for name in ("connect", "connect_ex"):
        setattr(own_socket.socket, name, _only_inside(getattr(own_socket.socket, name)))
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(host, str) and not is_inside((host,)) and not host.replace(".", "").isdigit() and ":" not in host:
            leave(f"the name {host!r} is looked up outside, which the simulation cannot repeat")
        return look_up(host, *arguments, **options)

    socket.getaddrinfo = getaddrinfo
