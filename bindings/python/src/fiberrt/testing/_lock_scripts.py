# SPDX-License-Identifier: MIT OR Apache-2.0
"""The scripts of locks in Redis, as functions: those of redis-py's Lock, and the one of Redis's documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_CHECK = """
    local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then
        return 0
    end
"""
_RELEASE = _CHECK + "redis.call('del', KEYS[1]) return 1"
_REACQUIRE = _CHECK + "redis.call('pexpire', KEYS[1], ARGV[2]) return 1"
_EXTEND = (
    _CHECK
    + """
    local expiration = redis.call('pttl', KEYS[1])
    if not expiration then
        expiration = 0
    end
    if expiration < 0 then
        return 0
    end
    local newttl = ARGV[2]
    if ARGV[3] == "0" then
        newttl = ARGV[2] + expiration
    end
    redis.call('pexpire', KEYS[1], newttl)
    return 1
"""
)
_UNLOCK = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end'


def _release(call: Callable[..., Any], keys: list[bytes], arguments: list[bytes]) -> int:
    return int(call("GET", keys[0]) == arguments[0] and call("DEL", keys[0]))


def _reacquire(call: Callable[..., Any], keys: list[bytes], arguments: list[bytes]) -> int:
    return int(call("GET", keys[0]) == arguments[0] and call("PEXPIRE", keys[0], arguments[1]))


def _extend(call: Callable[..., Any], keys: list[bytes], arguments: list[bytes]) -> int:
    left_ms = call("PTTL", keys[0])
    if call("GET", keys[0]) != arguments[0] or left_ms < 0:
        return 0
    new_ms = int(float(arguments[1])) + (left_ms if arguments[2] == b"0" else 0)
    return int(call("PEXPIRE", keys[0], new_ms))


SCRIPTS = {_RELEASE: _release, _UNLOCK: _release, _REACQUIRE: _reacquire, _EXTEND: _extend}
