# SPDX-License-Identifier: MIT OR Apache-2.0
"""PostgreSQL's protocol, version 3, as a server speaks it: messages, and values as text or in binary."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from ._service import Receiver

VERSION_3 = 196608
CANCEL, TLS, GSS = 80877102, 80877103, 80877104  # instead of a version
_LONGEST = 64 * 1024 * 1024

BOOL, BYTEA, INT8, INT2, INT4, TEXT, FLOAT4, FLOAT8 = 16, 17, 20, 21, 23, 25, 700, 701
_OF_TYPE: dict[type, int] = {
    bool: BOOL, bytes: BYTEA, int: INT8, float: FLOAT8, str: TEXT, Decimal: 1700, date: 1082, time: 1083, UUID: 2950,
}  # fmt: skip
_SIZES = {BOOL: 1, INT8: 8, INT2: 2, INT4: 4, FLOAT4: 4, FLOAT8: 8}
_BINARY = {BOOL: "!?", INT8: "!q", INT2: "!h", INT4: "!i", FLOAT4: "!f", FLOAT8: "!d"}
_FROM_TEXT: dict[int, Callable[[str], Any]] = {
    BOOL: lambda text: text.lower() in ("t", "true", "1", "on", "yes"), BYTEA: lambda text: _bytes_of(text), INT8: int,
    INT2: int, INT4: int, FLOAT4: float, FLOAT8: float,
}  # fmt: skip


class Error(Exception):
    """An error that the client gets: a SQLSTATE, such as "23505", and a sentence."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(sqlstate, message)
        self.sqlstate, self.message = sqlstate, message


class ProtocolError(Exception):
    """The client has sent something that is no message, or one that this server does not know."""


def _bytes_of(text: str) -> bytes:
    return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()


# --- Messages


def message(kind: bytes, content: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


def z(text: str) -> bytes:
    """Return a string with the zero byte that ends it."""
    return text.encode() + b"\0"


def error_message(error: Error) -> bytes:
    fields = {"S": "ERROR", "V": "ERROR", "C": error.sqlstate, "M": error.message}
    return message(b"E", b"".join(z(key + value) for key, value in fields.items()) + b"\0")


def read_startup(receiver: Receiver) -> tuple[int, bytes]:
    """Receive the first message: its version and content. May switch."""
    size, version = struct.unpack("!ii", receiver.exactly(8))
    if not 8 <= size <= 100_000:
        raise ProtocolError
    return version, receiver.exactly(size - 8)


def read_message(receiver: Receiver) -> tuple[bytes, Reader]:
    """Receive a message: its type and content. May switch."""
    kind, size = struct.unpack("!ci", receiver.exactly(5))
    if not 4 <= size <= _LONGEST:
        raise ProtocolError
    return kind, Reader(receiver.exactly(size - 4))


class Reader:
    """Reads the content of a message."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def take(self, size: int) -> bytes:
        data = self._data[self._place : self._place + size]
        if size < 0 or len(data) < size:
            raise ProtocolError
        self._place += size
        return data

    def text(self) -> str:
        end = self._data.find(b"\0", self._place)
        if end < 0:
            raise ProtocolError
        return self.take(end + 1 - self._place)[:-1].decode(errors="replace")

    def numbers(self, format: str) -> tuple[int, ...]:
        return struct.unpack("!" + format, self.take(struct.calcsize("!" + format)))

    def list(self, format: str) -> list[int]:
        """Return numbers that follow their count."""
        (count,) = self.numbers("H")
        return list(self.numbers(f"{count}{format}"))

    def value(self) -> bytes | None:
        (size,) = self.numbers("i")
        return None if size == -1 else self.take(size)


# --- Values


def parameter(data: bytes | None, binary: bool, type_: int) -> Any:
    """Return a parameter as a Python object; of an unknown type, as a str."""
    try:
        if data is None:
            return None
        if binary and type_ in _BINARY:
            return struct.unpack(_BINARY[type_], data)[0]
        if binary:
            return data if type_ == BYTEA else data.decode()
        return _FROM_TEXT.get(type_, str)(data.decode())
    except (ValueError, struct.error):
        raise Error("22P02", f"a parameter has bytes that are none of type {type_}") from None


def type_of(values: Sequence[Any]) -> int:
    """Return the type of a column: the type of the first value that is not None."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, datetime):
        return 1114 if first.tzinfo is None else 1184
    return _OF_TYPE.get(type(first), TEXT)


def _as_text(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b"\\x" + bytes(value).hex().encode()
    return str(value).encode()


def _as_binary(value: Any, type_: int) -> bytes:
    if type_ in _BINARY:
        try:
            return struct.pack(_BINARY[type_], value)
        except struct.error:
            raise Error("22000", f"{value!r} in a column of type {type_}") from None
    if type_ == BYTEA:
        return bytes(value)
    if type_ == TEXT:
        return str(value).encode()
    raise Error("0A000", f"the fake of fiberrt.testing has no binary format for type {type_}")


def row_description(columns: Sequence[str], types: Sequence[int], formats: Sequence[int]) -> bytes:
    fields = b"".join(
        z(name) + struct.pack("!ihihih", 0, 0, type_, _SIZES.get(type_, -1), -1, format)
        for name, type_, format in zip(columns, types, formats)
    )
    return message(b"T", struct.pack("!H", len(columns)) + fields)


def data_row(row: Sequence[Any], types: Sequence[int], formats: Sequence[int]) -> bytes:
    parts = [struct.pack("!H", len(row))]
    for value, type_, format in zip(row, types, formats):
        if value is None:
            parts.append(struct.pack("!i", -1))
        else:
            data = _as_binary(value, type_) if format else _as_text(value)
            parts.append(struct.pack("!i", len(data)) + data)
    return message(b"D", b"".join(parts))
