# SPDX-License-Identifier: MIT OR Apache-2.0
"""The commands of the Redis fake that read and change strings, lists, hashes and sets."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

from ._keys import SYNTAX, Keys, integer
from ._resp import OK, Refused, Status

_AT_LEAST_ONE = ("keys", "fields", "members")


class Keyspace(Keys):
    """A database. Each method whose name is in upper case is a command; its arguments are bytes."""

    # --- Strings

    def GET(self, key: bytes) -> Any:
        return self._get(key, bytes)

    def SET(self, key: bytes, value: bytes, *options: bytes) -> Any:
        left = [option.upper() for option in options]
        flags: set[bytes] = set()
        ttl_s: float | None = None
        while left:
            option = left.pop(0)
            if option in (b"EX", b"PX", b"EXAT", b"PXAT") and left and ttl_s is None:
                number = integer(left.pop(0)) / (1000 if option.startswith(b"P") else 1)
                if number <= 0:
                    raise Refused("ERR invalid expire time in 'set' command")
                ttl_s = number - time.time() if option.endswith(b"AT") else number
            elif option in (b"NX", b"XX", b"GET", b"KEEPTTL"):
                flags.add(option)
            else:
                raise Refused(SYNTAX)
        if {b"NX", b"XX"} <= flags or (b"KEEPTTL" in flags and ttl_s is not None):
            raise Refused(SYNTAX)
        before = self._get(key, bytes) if b"GET" in flags else None
        if (b"NX" if self._live(key) else b"XX") in flags:
            return before
        if b"KEEPTTL" not in flags:
            self._ends.pop(key, None)
        self._put(key, value)
        if ttl_s is not None:
            self._expire(key, ttl_s)
        return before if b"GET" in flags else OK

    def SETNX(self, key: bytes, value: bytes) -> int:
        return int(self.SET(key, value, b"NX") is not None)

    def SETEX(self, key: bytes, ttl_s: bytes, value: bytes) -> Any:
        return self.SET(key, value, b"EX", ttl_s)

    def PSETEX(self, key: bytes, ttl_ms: bytes, value: bytes) -> Any:
        return self.SET(key, value, b"PX", ttl_ms)

    def GETSET(self, key: bytes, value: bytes) -> Any:
        return self.SET(key, value, b"GET")

    def GETDEL(self, key: bytes) -> Any:
        value = self.GET(key)
        self._remove(key)
        return value

    def MGET(self, *keys: bytes) -> list[Any]:
        return [self._values[key] if self._live(key) and type(self._values[key]) is bytes else None for key in keys]

    def MSET(self, *pairs: bytes) -> Any:
        if not pairs or len(pairs) % 2:
            raise Refused("ERR wrong number of arguments for 'mset' command")
        for key, value in zip(pairs[::2], pairs[1::2]):
            self.SET(key, value)
        return OK

    def APPEND(self, key: bytes, value: bytes) -> int:
        whole = (self._get(key, bytes) or b"") + value
        self._put(key, whole)
        return len(whole)

    def STRLEN(self, key: bytes) -> int:
        return len(self._get(key, bytes) or b"")

    def INCRBY(self, key: bytes, by: bytes) -> int:
        value = integer(b"%d" % (integer(self._get(key, bytes) or b"0") + integer(by)))
        self._put(key, b"%d" % value)
        return value

    def DECRBY(self, key: bytes, by: bytes) -> int:
        return self.INCRBY(key, b"%d" % -integer(by))

    def INCR(self, key: bytes) -> int:
        return self.INCRBY(key, b"1")

    def DECR(self, key: bytes) -> int:
        return self.INCRBY(key, b"-1")

    # --- Lists

    def RPUSH(self, key: bytes, value: bytes, *more: bytes) -> int:
        items = self._make(key, list)
        items += [value, *more]
        self._changed(key)
        return len(items)

    def LPUSH(self, key: bytes, value: bytes, *more: bytes) -> int:
        items = self._make(key, list)
        items[:0] = [value, *more][::-1]
        self._changed(key)
        return len(items)

    def pop(self, key: bytes, place: int) -> Any:
        """Remove the first (0) or last (-1) item of a list, and return it; None: there is none."""
        items = self._get(key, list)
        if items is None:
            return None
        item = items.pop(place)
        self._changed(key)
        return item

    def _pop_many(self, key: bytes, place: int, count: bytes | None) -> Any:
        if count is None:
            return self.pop(key, place)
        items = self._get(key, list)
        return None if items is None else [self.pop(key, place) for _ in range(min(integer(count), len(items)))]

    def LPOP(self, key: bytes, count: bytes | None = None) -> Any:
        return self._pop_many(key, 0, count)

    def RPOP(self, key: bytes, count: bytes | None = None) -> Any:
        return self._pop_many(key, -1, count)

    def LMOVE(self, key: bytes, to: bytes, where: bytes, where_to: bytes) -> Any:
        sides = {b"LEFT": 0, b"RIGHT": -1}
        if where.upper() not in sides or where_to.upper() not in sides:
            raise Refused(SYNTAX)
        self._get(to, list)
        item = self.pop(key, sides[where.upper()])
        if item is not None:
            (self.LPUSH if where_to.upper() == b"LEFT" else self.RPUSH)(to, item)
        return item

    def RPOPLPUSH(self, key: bytes, to: bytes) -> Any:
        return self.LMOVE(key, to, b"RIGHT", b"LEFT")

    def LLEN(self, key: bytes) -> int:
        return len(self._get(key, list) or ())

    def LRANGE(self, key: bytes, first: bytes, last: bytes) -> list[bytes]:
        items = self._get(key, list) or []
        begin, end = (number if number >= 0 else number + len(items) for number in (integer(first), integer(last)))
        return items[max(begin, 0) : max(end + 1, 0)]

    def LREM(self, key: bytes, count: bytes, value: bytes) -> int:
        items, most = self._get(key, list) or [], integer(count)
        places = [place for place, item in enumerate(items) if item == value]
        places = places[:most] if most > 0 else places[most:] if most < 0 else places
        for place in reversed(places):
            del items[place]
        if places:
            self._changed(key)
        return len(places)

    # --- Hashes

    def HSET(self, key: bytes, field: bytes, value: bytes, *more: bytes) -> int:
        if len(more) % 2:
            raise Refused("ERR wrong number of arguments for 'hset' command")
        fields = self._make(key, dict)
        before = len(fields)
        fields.update(zip((field, *more[::2]), (value, *more[1::2])))
        self._changed(key)
        return len(fields) - before

    def HSETNX(self, key: bytes, field: bytes, value: bytes) -> int:
        return 0 if self.HEXISTS(key, field) else self.HSET(key, field, value)

    def HMSET(self, key: bytes, field: bytes, value: bytes, *more: bytes) -> Status:
        self.HSET(key, field, value, *more)
        return OK

    def HGET(self, key: bytes, field: bytes) -> Any:
        return (self._get(key, dict) or {}).get(field)

    def HMGET(self, key: bytes, *fields: bytes) -> list[Any]:
        return [self.HGET(key, field) for field in fields]

    def HGETALL(self, key: bytes) -> dict[bytes, bytes]:
        return dict(self._get(key, dict) or {})

    def HKEYS(self, key: bytes) -> list[bytes]:
        return list(self.HGETALL(key))

    def HVALS(self, key: bytes) -> list[bytes]:
        return list(self.HGETALL(key).values())

    def HLEN(self, key: bytes) -> int:
        return len(self.HGETALL(key))

    def HEXISTS(self, key: bytes, field: bytes) -> int:
        return int(field in self.HGETALL(key))

    def HDEL(self, key: bytes, *fields: bytes) -> int:
        own = self._get(key, dict) or {}
        gone = sum(own.pop(field, None) is not None for field in fields)
        if gone:
            self._changed(key)
        return gone

    def HINCRBY(self, key: bytes, field: bytes, by: bytes) -> int:
        value = integer(b"%d" % (integer(self.HGET(key, field) or b"0") + integer(by)))
        self.HSET(key, field, b"%d" % value)
        return value

    # --- Sets

    def SADD(self, key: bytes, *members: bytes) -> int:
        own = self._make(key, set)
        before = len(own)
        own.update(members)
        self._changed(key)
        return len(own) - before

    def SREM(self, key: bytes, *members: bytes) -> int:
        own = self._get(key, set) or set()
        gone = len(own.intersection(members))
        own.difference_update(members)
        if gone:
            self._changed(key)
        return gone

    def SMEMBERS(self, key: bytes) -> frozenset[bytes]:
        return frozenset(self._get(key, set) or ())

    def SISMEMBER(self, key: bytes, member: bytes) -> int:
        return int(member in self.SMEMBERS(key))

    def SCARD(self, key: bytes) -> int:
        return len(self.SMEMBERS(key))

    def SPOP(self, key: bytes) -> Any:
        member = min(self.SMEMBERS(key), default=None)  # any, as long as each run takes the same
        if member is not None:
            self.SREM(key, member)
        return member


def _count_of_arguments(function: Callable[..., Any]) -> tuple[int, float]:
    kinds = list(inspect.signature(function).parameters.values())[1:]
    fixed = [one for one in kinds if one.kind is not one.VAR_POSITIONAL]
    least = sum(one.default is one.empty for one in fixed) + any(one.name in _AT_LEAST_ONE for one in kinds)
    return least, len(fixed) if len(fixed) == len(kinds) else float("inf")


COMMANDS = {name.encode(): getattr(Keyspace, name) for name in dir(Keyspace) if name.isupper()}
COUNTS = {name: _count_of_arguments(function) for name, function in COMMANDS.items()}
