# SPDX-License-Identifier: MIT OR Apache-2.0
"""The keys of the Redis fake, with their values, ends and versions, and the commands that concern keys."""

from __future__ import annotations

import fnmatch
import time
from typing import Any

from ._resp import OK, Refused, Status

_WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
_NOT_A_NUMBER = "ERR value is not an integer or out of range"
SYNTAX = "ERR syntax error"
_TYPES: dict[type, str] = {bytes: "string", list: "list", dict: "hash", set: "set"}


def integer(text: bytes) -> int:
    try:
        number = int(text)
    except ValueError:
        raise Refused(_NOT_A_NUMBER) from None
    if not -(1 << 63) <= number < 1 << 63:
        raise Refused(_NOT_A_NUMBER)
    return number


def seconds(text: bytes) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e12:
        raise Refused("ERR timeout is not a float or out of range")
    return number


class Keys:
    """A database: keys and their values; some expire. A key's version changes whenever the key does. Each method
    whose name is in upper case is a command; its arguments are bytes."""

    def __init__(self) -> None:
        self._values: dict[bytes, Any] = {}
        self._ends: dict[bytes, float] = {}  # time.monotonic()
        self._versions: dict[bytes, int] = {}

    # --- Access

    def version(self, key: bytes) -> int:
        self._live(key)
        return self._versions.get(key, 0)

    def _changed(self, key: bytes) -> None:
        self._versions[key] = self._versions.get(key, 0) + 1
        value = self._values.get(key)
        if value is not None and not value and not isinstance(value, bytes):
            self._remove(key)

    def _remove(self, key: bytes) -> bool:
        self._ends.pop(key, None)
        if self._values.pop(key, None) is None:
            return False
        self._versions[key] = self._versions.get(key, 0) + 1
        return True

    def _live(self, key: bytes) -> bool:
        end = self._ends.get(key)
        if end is not None and end <= time.monotonic():
            self._remove(key)
        return key in self._values

    def _get(self, key: bytes, kind: type) -> Any:
        """Return the key's value, or None. Refused: it is of another kind."""
        if not self._live(key):
            return None
        value = self._values[key]
        if type(value) is not kind:
            raise Refused(_WRONG_TYPE)
        return value

    def _make(self, key: bytes, kind: type) -> Any:
        value = self._get(key, kind)
        if value is None:
            value = self._values[key] = kind()
        return value

    def _put(self, key: bytes, value: bytes) -> None:
        self._values[key] = value
        self._changed(key)

    # --- Keys

    def DEL(self, *keys: bytes) -> int:
        return sum(self._live(key) and self._remove(key) for key in keys)

    UNLINK = DEL

    def EXISTS(self, *keys: bytes) -> int:
        return sum(self._live(key) for key in keys)

    def TYPE(self, key: bytes) -> Status:
        return Status(_TYPES[type(self._values[key])] if self._live(key) else "none")

    def KEYS(self, pattern: bytes) -> list[bytes]:
        return [key for key in list(self._values) if self._live(key) and fnmatch.fnmatchcase(key, pattern)]

    def SCAN(self, cursor: bytes, *options: bytes) -> list[Any]:
        named = dict(zip((name.upper() for name in options[::2]), options[1::2]))
        return [b"0", self.KEYS(named.get(b"MATCH", b"*"))]

    def DBSIZE(self) -> int:
        return len(self.KEYS(b"*"))

    def FLUSHDB(self, *_: bytes) -> Status:
        for key in list(self._values):
            self._remove(key)
        return OK

    def RENAME(self, key: bytes, new: bytes) -> Status:
        if not self._live(key):
            raise Refused("ERR no such key")
        value, end = self._values[key], self._ends.get(key)
        self._remove(key)
        self._remove(new)
        self._values[new] = value
        if end is not None:
            self._ends[new] = end
        self._changed(new)
        return OK

    # --- Expiry

    def _expire(self, key: bytes, in_s: float, *options: bytes) -> int:
        if not self._live(key):
            return 0
        end, before = time.monotonic() + in_s, self._ends.get(key)
        for option in options:
            allowed = {
                b"NX": before is None, b"XX": before is not None, b"GT": before is not None and end > before,
                b"LT": before is None or end < before,
            }.get(option.upper())  # fmt: skip
            if allowed is None:
                raise Refused(f"ERR Unsupported option {option.decode(errors='replace')}")
            if not allowed:
                return 0
        if in_s <= 0:
            self._remove(key)
            return 1
        self._ends[key] = end
        self._changed(key)
        return 1

    def EXPIRE(self, key: bytes, ttl_s: bytes, *options: bytes) -> int:
        return self._expire(key, integer(ttl_s), *options)

    def PEXPIRE(self, key: bytes, ttl_ms: bytes, *options: bytes) -> int:
        return self._expire(key, integer(ttl_ms) / 1000, *options)

    def EXPIREAT(self, key: bytes, at_s: bytes, *options: bytes) -> int:
        return self._expire(key, integer(at_s) - time.time(), *options)

    def PEXPIREAT(self, key: bytes, at_ms: bytes, *options: bytes) -> int:
        return self._expire(key, integer(at_ms) / 1000 - time.time(), *options)

    def PTTL(self, key: bytes) -> int:
        if not self._live(key):
            return -2
        return max(0, round((self._ends[key] - time.monotonic()) * 1000)) if key in self._ends else -1

    def TTL(self, key: bytes) -> int:
        left_ms = self.PTTL(key)
        return left_ms if left_ms < 0 else (left_ms + 500) // 1000

    def PERSIST(self, key: bytes) -> int:
        if not self._live(key) or self._ends.pop(key, None) is None:
            return 0
        self._changed(key)
        return 1
