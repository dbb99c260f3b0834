# SPDX-License-Identifier: MIT OR Apache-2.0
"""A console into a running program, by a Unix socket that only its user may connect to.

    import fiberrt.console
    fiberrt.console.serve("/run/user/1000/program.console", {"application": application})

Then, in a shell:

    python -m fiberrt.console /run/user/1000/program.console
    >>> dump()

Each connection has a fiber and its own namespace. A command runs in the program, on the thread that called serve(), and
may do all that the program may; print() writes to the console while the command runs.
"""

from __future__ import annotations

import code
import contextvars
import os
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any

from . import _fiberrt, socket
from ._dump import dump
from .server import StreamServer

__all__ = ["main", "serve"]

_BANNER = "fiberrt console: process {pid}, Python {version}. The thread's fibers wait while a command computes.\n"
_output: contextvars.ContextVar[Any] = contextvars.ContextVar("fiberrt.console.output", default=None)


class _Redirected:
    """Stands for sys.stdout: what a command of a console prints goes to that console."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def write(self, text: str) -> int:
        to = _output.get()
        return self._original.write(text) if to is None else to.write(text)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


class _Console(code.InteractiveConsole):
    """The console of a connection."""

    def __init__(self, connection: Any, names: dict[str, Any]) -> None:
        # The builtin exit() would close the program's sys.stdin.
        own = {"__name__": "__console__", "dump": lambda: dump(self), "exit": sys.exit, "quit": sys.exit}
        super().__init__({**own, **names})
        self._in = connection.makefile("r", encoding="utf-8", errors="replace")
        self._connection = connection

    def raw_input(self, prompt: str = "") -> str:
        self.write(prompt)
        line = self._in.readline()
        if not line:
            raise EOFError
        return str(line).rstrip("\r\n")

    def write(self, data: str) -> int:  # type: ignore[override]
        self._connection.sendall(data.encode("utf-8", "replace"))
        return len(data)

    def flush(self) -> None:
        pass

    def runcode(self, code: Any) -> None:
        if not isinstance(sys.stdout, _Redirected):  # a test or the program may replace it
            sys.stdout = _Redirected(sys.stdout)
        token = _output.set(self)
        try:
            exec(code, self.locals)  # type: ignore[arg-type]
        except SystemExit:
            raise EOFError from None  # ends the console, not the program
        except Exception:
            self.write(traceback.format_exc())
        finally:
            _output.reset(token)


def _is_owner(connection: Any) -> bool:
    """Whether the client's process belongs to our user, or to root."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(peer[4:8], sys.byteorder) in (os.geteuid(), 0)


def serve(path: str, names: dict[str, Any] | None = None) -> StreamServer:
    """Serve consoles at the path of a new Unix socket, in fibers of the calling thread. names: what the consoles know.
    Return the server, whose stop() ends them. OSError: the path exists, or cannot be made."""

    def console(connection: Any, address: Any) -> None:
        if not _is_owner(connection):
            return
        with suppress(OSError, EOFError):
            banner = _BANNER.format(pid=os.getpid(), version=sys.version.split()[0])
            one = _Console(connection, dict(names or {}))
            with one._in:
                one.interact(banner, exitmsg="")

    before = os.umask(0o177)  # nobody but the owner may connect, from the first moment
    try:
        server = StreamServer(path, console)
    finally:
        os.umask(before)
    server.start()
    return server


def main(arguments: list[str] | None = None) -> int:
    """The command line: python -m fiberrt.console PATH connects standard input and output to a console."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1:
        print("usage: python -m fiberrt.console PATH", file=sys.stderr)
        return 2
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(given[0])
        except OSError as error:
            print(f"{given[0]}: {error.strerror}", file=sys.stderr)
            return 1

        def show() -> None:
            while data := client.recv(4096):
                sys.stdout.write(data.decode("utf-8", "replace"))
                sys.stdout.flush()

        shown = _fiberrt.spawn(show)

        def send() -> None:
            with suppress(OSError):
                while line := sys.stdin.readline():
                    client.sendall(line.encode())
                client.shutdown(socket.SHUT_WR)

        # A thread that reads a terminal cannot be ended: a daemon does not keep the process.
        threading.Thread(target=send, daemon=True).start()
        shown.join()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
