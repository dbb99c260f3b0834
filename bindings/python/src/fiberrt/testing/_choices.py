# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads, in a run, which choices were not the ordinary ones. The simulation writes them into a trace."""

from __future__ import annotations

import posix
from typing import NamedTuple

_STEP = 1 << 16  # bytes read at a time

# Why a thread runs after another choice than the ordinary one, by the kind of the choice.
_REASONS = {
    "timer": "another one of the waits whose time ends now ends first",
    "how_many": "not all operations of I/O that can be done are done",
    "which": "another operation of I/O is done first",
    "report_later": "the end of an operation of I/O is reported later",
    "cancel": "an operation of I/O ends early, although it could be done",
    "poll_interval": "the scheduler looks for ended waits at other times",
    "short_transfer": "a read or a write transfers a part",
}


class Chosen(NamedTuple):
    """A choice that is not the ordinary one."""

    position: int
    number: int
    site: str

    def __str__(self) -> str:
        return f"{self.position}:{self.number}"

    @property
    def is_program(self) -> bool:
        """Whether a thread was preempted, or a server of fiberrt.testing took its time: both are the program's."""
        return self.site == "program"

    @property
    def reason(self) -> str:
        return _REASONS.get(self.site, f"the simulation makes an unusual choice ({self.site})")


class Choices:
    """The choices of this run. trace: the file."""

    def __init__(self, trace: str) -> None:
        self._trace = trace
        self._read = 0  # bytes
        self._rest = b""
        self._count = 0

    def new(self) -> list[Chosen]:
        """Return the unusual choices since the last call."""
        found = []
        for line in self._lines():
            words = line.split()
            if len(words) > 3 and words[1] == "pick":
                number = int(words[2].partition("/")[0])
                if number:
                    found.append(Chosen(self._count, number, words[3]))
                self._count += 1
        return found

    def _lines(self) -> list[str]:
        try:  # opened each time: the program's own descriptors have the same numbers as in other runs
            file = posix.open(self._trace, posix.O_RDONLY | posix.O_CLOEXEC)
        except OSError:
            return []
        data = self._rest
        try:
            while part := posix.pread(file, _STEP, self._read):
                data += part
                self._read += len(part)
        finally:
            posix.close(file)
        *lines, self._rest = data.split(b"\n")
        return [line.decode(errors="replace") for line in lines]
