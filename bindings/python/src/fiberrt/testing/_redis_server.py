# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Redis fake: connections, transactions, blocking commands, publishing and scripts."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._keys import integer, seconds
from ._keyspace import COMMANDS, COUNTS, Keyspace
from ._lock_scripts import SCRIPTS
from ._resp import OK, Push, Refused, Status, encode, read_request
from ._service import Receiver, Service, maybe_delay

try:  # now, because a simulated run would import it again each time
    from . import _redis_py
except ImportError:
    _redis_py = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from redis import ConnectionPool, Redis

Call = Callable[..., Any]
Script = Callable[[Call, list[bytes], list[bytes]], Any]

_DATABASES = 16
# Commands that wait: the places of the keys, and how an item is taken.
_BLOCKING = (b"BLPOP", b"BRPOP", b"BLMOVE", b"BRPOPLPUSH")
_WHILE_SUBSCRIBED = (b"SUBSCRIBE", b"UNSUBSCRIBE", b"PSUBSCRIBE", b"PUNSUBSCRIBE", b"PING", b"QUIT")
_AT_ONCE = (b"EXEC", b"DISCARD", b"MULTI", b"WATCH", b"UNWATCH", b"QUIT")  # not queued by MULTI


def _wrong_number(name: bytes) -> Refused:
    return Refused(f"ERR wrong number of arguments for '{name.decode(errors='replace').lower()}' command")


class _Client:
    """A connection's state. Protected by the service's lock."""

    def __init__(self, connection: socket.socket, number: int) -> None:
        self.socket, self.number = connection, number
        self.version = 2
        self.database = 0
        self.name: bytes | None = None
        self.queue: list[list[bytes]] | None = None  # since MULTI
        self.broken = False  # a command of the queue was refused
        self.watched: dict[tuple[int, bytes], int] = {}
        self.channels: dict[bytes, None] = {}
        self.attempt: Callable[[], Any] | None = None  # the blocking command that waits
        self.end: float | None = None  # of the wait, in time.monotonic()
        self.quits = False

    def send(self, value: Any) -> None:
        try:
            self.socket.sendall(encode(value, self.version))
        except OSError:
            pass  # its own thread notices the end


class RedisService(Service):
    """The server. A context manager."""

    port_of_names = 6379
    kind = "redis"

    def __init__(self) -> None:
        super().__init__()
        self._databases = [Keyspace() for _ in range(_DATABASES)]
        self._clients: dict[int, _Client] = {}
        self._waiting: list[_Client] = []  # in blocking commands, the oldest first
        self._scripts: dict[bytes, Script] = {}
        self._texts: dict[str, Script] = {}
        self._exclusive = threading.Condition(threading.Lock())
        self._pool: Any = None
        for text, function in SCRIPTS.items():
            self.register(text, function)

    # --- For tests

    def pool(self, **options: Any) -> ConnectionPool:
        """Return a connection pool for redis.Redis(connection_pool=...), without a port. options: those of
        redis.ConnectionPool. ImportError: the package redis is not installed."""
        if _redis_py is None:
            raise ImportError("the package redis is not installed", name="redis")
        return _redis_py.pool_of(self, **options)

    def client(self, **options: Any) -> Redis:
        """Return a redis.Redis that is connected to this server. Clients without options share a pool. options and
        errors: as of pool()."""
        if self._pool is None or options:
            pool = self.pool(**options)
            if options:
                return _redis_py.client_of(pool)
            self._pool = self._pool or pool
        return _redis_py.client_of(self._pool)

    def register(self, text: str, function: Script) -> None:
        """Give a Lua script a function instead: function(call, keys, arguments), in which call("GET", key) runs a command
        and returns its answer. Nothing runs in between. The function returns the script's answer, and must not wait."""
        self._texts[_normal(text)] = function

    # --- A connection

    def serve(self, connection: socket.socket, number: int) -> None:
        client = _Client(connection, number)
        self._clients[number] = client
        receiver = Receiver(connection)
        try:
            while not client.quits and not self.closed:
                request = read_request(receiver)
                if request:
                    maybe_delay()
                    self._answer(client, request)
                self._stay_blocked(client, receiver)
        except EOFError:
            pass
        except Refused as error:
            client.send(error)
        finally:
            with self._exclusive:
                del self._clients[number]
                if client in self._waiting:
                    self._waiting.remove(client)

    def _answer(self, client: _Client, request: list[bytes]) -> None:
        with self._exclusive:
            try:
                answer = self._do(client, request[0].upper(), request[1:])
            except Refused as error:
                client.broken = client.queue is not None
                answer = error
            if client.attempt is None and answer is not self:
                client.send(answer)
            self._serve_waiting()

    def _serve_waiting(self) -> None:
        """Answer the blocking commands that can go on now, the oldest first."""
        progress = True
        while progress and self._waiting:
            progress = False
            for client in list(self._waiting):
                try:
                    answer = client.attempt() if client.attempt is not None else None
                except Refused as error:
                    answer = error
                if answer is not None:
                    self._unblock(client, answer)
                    progress = True

    def _unblock(self, client: _Client, answer: Any) -> None:
        self._waiting.remove(client)
        client.attempt = None
        client.send(answer)
        self._exclusive.notify_all()

    def _stay_blocked(self, client: _Client, receiver: Receiver) -> None:
        """While a command blocks the client, notice that the client closes the connection, or that the time is over.
        Another client's thread may end the command."""
        while client.attempt is not None:
            if receiver.buffer:  # the client sends more, and may not read before
                with self._exclusive:
                    left_s = None if client.end is None else client.end - time.monotonic()
                    if client.attempt is not None and (left_s is None or left_s > 0):
                        self._exclusive.wait(left_s)
            else:
                try:
                    client.socket.settimeout(None if client.end is None else max(client.end - time.monotonic(), 1e-6))
                    receiver.more()
                except TimeoutError:
                    pass
                finally:
                    client.socket.settimeout(None)
            with self._exclusive:
                if client.attempt is not None and client.end is not None and client.end <= time.monotonic():
                    self._unblock(client, None)

    def close(self) -> None:
        super().close()
        with self._exclusive:
            for client in self._waiting:
                client.attempt = None
            self._waiting.clear()
            self._exclusive.notify_all()
        if self._pool is not None:
            self._pool.disconnect()

    # --- Commands

    def _do(self, client: _Client, name: bytes, arguments: list[bytes]) -> Any:
        """Run or queue a command. Return its answer; self if it has sent it."""
        if client.channels and client.version < 3 and name not in _WHILE_SUBSCRIBED:
            raise Refused(f"ERR Can't execute '{name.decode(errors='replace').lower()}' while subscribed")
        if client.queue is not None and name not in _AT_ONCE:
            if name not in COMMANDS and name not in _BLOCKING and not hasattr(self, _method(name)):
                raise _unknown(name)
            client.queue.append([name, *arguments])
            return Status("QUEUED")
        return self._run_command(client, name, arguments)

    def _run_command(self, client: _Client, name: bytes, arguments: list[bytes]) -> Any:
        if name in COMMANDS:
            least, most = COUNTS[name]
            if not least <= len(arguments) <= most:
                raise _wrong_number(name)
            return COMMANDS[name](self._databases[client.database], *arguments)
        if name in _BLOCKING:
            return self._block(client, name, arguments)
        function = getattr(self, _method(name), None)
        if function is None:
            raise _unknown(name)
        return function(client, *arguments)

    def _block(self, client: _Client, name: bytes, arguments: list[bytes]) -> Any:
        counts = {b"BLMOVE": 5, b"BRPOPLPUSH": 3}
        if len(arguments) != counts.get(name, max(2, len(arguments))):
            raise _wrong_number(name)
        data, keys, timeout_s = self._databases[client.database], arguments[:-1], seconds(arguments[-1])

        def attempt() -> Any:
            if name == b"BLMOVE":
                return data.LMOVE(*keys)
            if name == b"BRPOPLPUSH":
                return data.RPOPLPUSH(*keys)
            for key in keys:
                item = data.pop(key, 0 if name == b"BLPOP" else -1)
                if item is not None:
                    return [key, item]
            return None

        answer = attempt()
        if answer is None and client.queue is None:  # in a transaction there is no wait
            client.attempt, client.end = attempt, time.monotonic() + timeout_s if timeout_s else None
            self._waiting.append(client)
        return answer

    def _on_ping(self, client: _Client, text: bytes | None = None) -> Any:
        if client.channels and client.version < 3:
            return [b"pong", text or b""]
        return Status("PONG") if text is None else text

    def _on_echo(self, client: _Client, text: bytes) -> bytes:
        return text

    def _on_auth(self, client: _Client, *words: bytes) -> Status:
        return OK

    def _on_hello(self, client: _Client, version: bytes = b"", *options: bytes) -> dict[str, Any]:
        if version not in (b"", b"2", b"3"):
            raise Refused("NOPROTO unsupported protocol version")
        client.version = int(version or client.version)
        return {
            "server": "redis", "version": "7.4.0", "proto": client.version, "id": client.number, "mode": "standalone",
            "role": "master", "modules": [],
        }  # fmt: skip

    def _on_client(self, client: _Client, what: bytes, *words: bytes) -> Any:
        what = what.upper()
        if what == b"ID":
            return client.number
        if what == b"GETNAME":
            return client.name
        if what == b"SETNAME" and words:
            client.name = words[0]
        elif what not in (b"SETINFO", b"NO-EVICT", b"NO-TOUCH"):
            raise _unknown(b"CLIENT " + what)
        return OK

    def _on_info(self, client: _Client, *sections: bytes) -> bytes:
        return b"# Server\r\nredis_version:7.4.0\r\nredis_mode:standalone\r\n"

    def _on_command(self, client: _Client, *words: bytes) -> list[Any]:
        return []

    def _on_time(self, client: _Client) -> list[bytes]:
        now_us = time.time_ns() // 1000
        return [b"%d" % (now_us // 1_000_000), b"%d" % (now_us % 1_000_000)]

    def _on_select(self, client: _Client, number: bytes) -> Status:
        if not 0 <= integer(number) < _DATABASES:
            raise Refused("ERR DB index is out of range")
        client.database = integer(number)
        return OK

    def _on_flushall(self, client: _Client, *how: bytes) -> Status:
        for data in self._databases:
            data.FLUSHDB()
        return OK

    def _on_quit(self, client: _Client) -> Status:
        client.quits = True
        return OK

    # --- Transactions

    def _on_multi(self, client: _Client) -> Status:
        if client.queue is not None:
            raise Refused("ERR MULTI calls can not be nested")
        client.queue, client.broken = [], False
        return OK

    def _on_discard(self, client: _Client) -> Status:
        if client.queue is None:
            raise Refused("ERR DISCARD without MULTI")
        client.queue, client.broken = None, False
        client.watched.clear()
        return OK

    def _on_watch(self, client: _Client, *keys: bytes) -> Status:
        if client.queue is not None:
            raise Refused("ERR WATCH inside MULTI is not allowed")
        for key in keys:
            client.watched.setdefault((client.database, key), self._databases[client.database].version(key))
        return OK

    def _on_unwatch(self, client: _Client) -> Status:
        if client.queue is None:
            client.watched.clear()
        return OK

    def _on_exec(self, client: _Client) -> Any:
        if client.queue is None:
            raise Refused("ERR EXEC without MULTI")
        queue, broken = client.queue, client.broken
        changed = any(self._databases[place].version(key) != seen for (place, key), seen in client.watched.items())
        try:
            if broken:
                raise Refused("EXECABORT Transaction discarded because of previous errors.")
            if changed:
                return None
            answers: list[Any] = []
            for name, *arguments in queue:
                try:
                    answers.append(self._run_command(client, name, arguments))
                except Refused as error:
                    answers.append(error)
            return answers
        finally:
            client.queue, client.broken = None, False
            client.watched.clear()

    # --- Publishing

    def _on_publish(self, client: _Client, channel: bytes, message: bytes) -> int:
        receivers = [one for one in self._clients.values() if channel in one.channels]
        for one in receivers:
            one.send(Push([b"message", channel, message]))
        return len(receivers)

    def _on_subscribe(self, client: _Client, *channels: bytes) -> Any:
        for channel in channels:
            client.channels[channel] = None
            client.send(Push([b"subscribe", channel, len(client.channels)]))
        return self

    def _on_unsubscribe(self, client: _Client, *channels: bytes) -> Any:
        left: list[bytes | None] = [*(channels or client.channels)]
        for channel in left or [None]:
            if channel is not None:
                client.channels.pop(channel, None)
            client.send(Push([b"unsubscribe", channel, len(client.channels)]))
        return self

    # --- Scripts

    def _script(self, text: bytes) -> Script:
        function = self._texts.get(_normal(text.decode(errors="replace")))
        if function is None:
            raise Refused("ERR the fake of fiberrt.testing has no Lua: give the script a function by register()")
        return function

    def _on_script(self, client: _Client, what: bytes, *words: bytes) -> Any:
        if what.upper() == b"LOAD" and len(words) == 1:
            number = hashlib.sha1(words[0]).hexdigest()
            self._scripts[number.encode()] = self._script(words[0])
            return number
        if what.upper() == b"EXISTS":
            return [int(word.lower() in self._scripts) for word in words]
        if what.upper() == b"FLUSH":
            self._scripts.clear()
            return OK
        raise _unknown(b"SCRIPT " + what)

    def _on_eval(self, client: _Client, text: bytes, count: bytes, *words: bytes) -> Any:
        function = self._script(text)
        self._scripts[hashlib.sha1(text).hexdigest().encode()] = function
        return self._call_script(client, function, count, words)

    def _on_evalsha(self, client: _Client, number: bytes, count: bytes, *words: bytes) -> Any:
        function = self._scripts.get(number.lower())
        if function is None:
            raise Refused("NOSCRIPT No matching script. Please use EVAL.")
        return self._call_script(client, function, count, words)

    def _call_script(self, client: _Client, function: Script, count: bytes, words: tuple[bytes, ...]) -> Any:
        def call(name: str, *arguments: Any) -> Any:
            raw = [one if isinstance(one, bytes) else str(one).encode() for one in arguments]
            return self._run_command(client, name.upper().encode(), raw)

        keys = integer(count)
        if not 0 <= keys <= len(words):
            raise Refused("ERR Number of keys can't be greater than number of args")
        return function(call, list(words[:keys]), list(words[keys:]))


def _method(name: bytes) -> str:
    return f"_on_{name.decode(errors='replace').lower()}"


def _unknown(name: bytes) -> Refused:
    text = name.decode(errors="replace")
    return Refused(f"ERR unknown command '{text}': the fake of fiberrt.testing does not have it")


def _normal(text: str) -> str:
    return " ".join(text.split())
