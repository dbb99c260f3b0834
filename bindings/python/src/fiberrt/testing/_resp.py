# SPDX-License-Identifier: MIT OR Apache-2.0
"""Redis's protocol, RESP: requests are read, values are written, as version 2 or 3 has them."""

from __future__ import annotations

from typing import Any

from ._service import Receiver

_LONGEST = 64 * 1024 * 1024


class Refused(Exception):
    """An error that the client gets: a code and a sentence."""


class Push(list[Any]):
    """A message that no request has asked for."""


class Status(str):
    """A short answer, such as OK."""

    __slots__ = ()


OK = Status("OK")


def encode(value: Any, version: int) -> bytes:
    """Return a value as RESP has it. Strings are bytes; a str counts as UTF-8."""
    if isinstance(value, Status):
        return b"+%s\r\n" % value.encode()
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"$%d\r\n%s\r\n" % (len(value), value)
    if value is None:
        return b"_\r\n" if version > 2 else b"$-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, Refused):
        return b"-%s\r\n" % str(value).encode()
    if isinstance(value, dict):
        pairs = [item for pair in value.items() for item in pair]
        return _many(b"%" if version > 2 else b"*", len(value) if version > 2 else len(pairs), pairs, version)
    if isinstance(value, (set, frozenset)):
        return _many(b"~" if version > 2 else b"*", len(value), sorted(value), version)
    return _many(b">" if isinstance(value, Push) and version > 2 else b"*", len(value), value, version)


def _many(mark: bytes, count: int, values: Any, version: int) -> bytes:
    return b"%s%d\r\n" % (mark, count) + b"".join(encode(one, version) for one in values)


def read_request(receiver: Receiver) -> list[bytes]:
    """Receive a request: a command and its arguments. May switch. EOFError: the connection ends. Refused: the bytes are
    no request."""
    line = receiver.line()
    if not line.startswith(b"*"):
        return line.split()  # as people type it
    return [_read_string(receiver) for _ in range(_number(line))]


def _read_string(receiver: Receiver) -> bytes:
    line = receiver.line()
    if not line.startswith(b"$"):
        raise Refused("ERR Protocol error: expected '$'")
    data = receiver.exactly(_number(line))
    receiver.exactly(2)
    return data


def _number(line: bytes) -> int:
    try:
        number = int(line[1:])
    except ValueError:
        number = -1
    if not 0 <= number <= _LONGEST:
        raise Refused("ERR Protocol error: invalid length")
    return number
