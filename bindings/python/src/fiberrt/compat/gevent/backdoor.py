# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.backdoor: a Python prompt for each connection. Any user who can connect can do what the program can:
fiberrt.console.serve() admits only the program's user."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from ...console import _Console
from .server import StreamServer

__all__ = ["BackdoorServer"]


class BackdoorServer(StreamServer):
    """Serves Python prompts. locals: the names that they know. banner: printed at the beginning."""

    def __init__(self, listener: Any, locals: Any = None, banner: str | None = None, **server_args: Any) -> None:
        super().__init__(listener, None, spawn=server_args.pop("spawn", "default"), **server_args)
        self.locals: dict[str, Any] = {**(locals or {})}
        self.banner = banner

    def handle(self, sock: Any, address: Any) -> None:
        """Serve a connection."""
        with suppress(OSError, EOFError):
            console = _Console(sock, self.locals)
            with console._in:
                console.interact(f"Python {sys.version.split()[0]}\n{self.banner or ''}", exitmsg="")
