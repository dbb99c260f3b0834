# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bugs that were reported of libraries that keep connections: the same fault, in own and much smaller code."""

from __future__ import annotations

import threading

from .. import together
from . import planted


class Pool:
    """Connections to a host."""

    def __init__(self) -> None:
        self.closed = False
        self.users = 0
        self.evicted = False

    def request(self) -> None:
        if self.closed:
            raise ConnectionError("the pool is closed")


class Pools:
    """The pool of each host. A pool is closed when another one replaces it."""

    def __init__(self) -> None:
        self.pools: dict[str, Pool] = {}
        self.lock = threading.Lock()

    def __setitem__(self, host: str, pool: Pool) -> None:
        old = self.pools.get(host)
        self.pools[host] = pool
        if old is not None:
            old.closed = True

    def of(self, host: str) -> Pool:
        pool = self.pools.get(host)
        if pool is None:
            pool = Pool()
            self[host] = pool
        return pool


class LockedPools(Pools):
    def of(self, host: str) -> Pool:
        with self.lock:
            return super().of(host)


@planted(Pools, LockedPools, "pool = self.pools.get(host)", "self[host] = pool", "old.closed = True",
         report="https://github.com/urllib3/urllib3/pull/204")  # fmt: skip
def pool_of_a_host(Pools: type) -> None:
    """Both threads make a pool for the host. The second pool replaces the first, and closes it under its user."""
    pools = Pools()
    together(ann=lambda: pools.of("host").request(), bob=lambda: pools.of("host").request())


class RecentPools:
    """Keeps the pool of one host only. Another host's pool evicts it."""

    def __init__(self) -> None:
        self.host, self.pool = "", Pool()
        self.lock = threading.Lock()

    def of(self, host: str) -> Pool:
        with self.lock:
            if host != self.host:
                self.pool.closed = True
                self.host, self.pool = host, Pool()
            return self.pool

    def request(self, host: str) -> None:
        pool = self.of(host)
        pool.request()


class CountedPools(RecentPools):
    """An evicted pool is closed by its last user."""

    def of(self, host: str) -> Pool:
        with self.lock:
            if host != self.host:
                self.pool.evicted = True
                self.host, self.pool = host, Pool()
            self.pool.users += 1
            return self.pool

    def request(self, host: str) -> None:
        pool = self.of(host)
        pool.request()
        with self.lock:
            pool.users -= 1
            pool.closed = pool.evicted and not pool.users


@planted(RecentPools, CountedPools, "self.pool.closed = True", "pool.request()", switches="waits",
         report="https://github.com/urllib3/urllib3/issues/1252")  # fmt: skip
def recent_pools(RecentPools: type) -> None:
    """A thread has got a pool and not yet used it, when another thread's pool evicts and closes it."""
    pools = RecentPools()
    together(ann=lambda: pools.request("one"), bob=lambda: pools.request("two"))


class LimitedPool:
    """Makes at most one connection."""

    def __init__(self) -> None:
        self.created = 0
        self.lock = threading.Lock()

    def make_connection(self) -> None:
        if self.created >= 1:
            raise ConnectionError("too many connections")
        self.created += 1

    def get(self) -> None:
        try:
            self.make_connection()
        except ConnectionError:
            pass


class LockedLimitedPool(LimitedPool):
    def make_connection(self) -> None:
        with self.lock:
            super().make_connection()


@planted(LimitedPool, LockedLimitedPool, "if self.created >= 1:", "self.created += 1",
         report="https://github.com/redis/redis-py/issues/906")  # fmt: skip
def limited_pool(LimitedPool: type) -> None:
    """Both threads compare the number of connections with the limit before one adds to it."""
    pool = LimitedPool()
    together(ann=pool.get, bob=pool.get)
    assert pool.created <= 1


class Socket:
    def shutdown(self) -> None:
        pass

    def close(self) -> None:
        pass


class Connection:
    def __init__(self) -> None:
        self.socket: Socket | None = Socket()

    def disconnect(self) -> None:
        if self.socket is None:
            return
        self.socket.shutdown()
        self.socket.close()
        self.socket = None


class SwappingConnection(Connection):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def disconnect(self) -> None:
        with self.lock:
            socket, self.socket = self.socket, None
        if socket is not None:
            socket.shutdown()
            socket.close()


@planted(Connection, SwappingConnection, "if self.socket is None:", "self.socket = None",
         report="https://github.com/redis/redis-py/issues/732")  # fmt: skip
def connection(Connection: type) -> None:
    """A thread sets the socket to None after the other has seen one, and before it has closed it."""
    connection = Connection()
    together(ann=connection.disconnect, bob=connection.disconnect)


class NamedPool:
    name: str


class NamedPools:
    def __init__(self) -> None:
        self.pools: dict[str, NamedPool] = {}

    def get(self, name: str) -> NamedPool:
        pool = self.pools.get(name)
        if pool is None:
            pool = NamedPool()
            self.pools[name] = pool
            pool.name = name
        return pool


class OrderedNamedPools(NamedPools):
    def get(self, name: str) -> NamedPool:
        pool = self.pools.get(name)
        if pool is None:
            pool = NamedPool()
            pool.name = name
            self.pools[name] = pool
        return pool


@planted(NamedPools, OrderedNamedPools, "self.pools[name] = pool", "pool = self.pools.get(name)", "name",
         report="https://github.com/sebleier/django-redis-cache/issues/213")  # fmt: skip
def named_pools(NamedPools: type) -> None:
    """The pool is put into the dictionary before it gets its name, and another thread reads the name."""
    pools = NamedPools()
    together(ann=lambda: pools.get("one").name, bob=lambda: pools.get("one").name)


class Cluster:
    """Counts the connections to each node."""

    def __init__(self) -> None:
        self.created = {"first": 1, "second": 1}

    def connect(self, node: str) -> None:
        self.created[node] = self.created.get(node, 0) + 1

    def count(self) -> int:
        count = 0
        for created in self.created.values():
            count += created
        return count


class CopyingCluster(Cluster):
    def count(self) -> int:
        count = 0
        for created in list(self.created.values()):
            count += created
        return count


@planted(Cluster, CopyingCluster, "for created in self.created.values():", "self.created[node] =",
         report="https://github.com/Grokzen/redis-py-cluster/pull/353")  # fmt: skip
def cluster(Cluster: type) -> None:
    """A thread iterates over a dictionary while another adds a key."""
    cluster = Cluster()
    together(counter=cluster.count, connecter=lambda: cluster.connect("third"))
