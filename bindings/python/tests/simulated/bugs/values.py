# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values that two threads change without a lock."""

from __future__ import annotations

import threading

from .. import together
from . import planted


class Account:
    def __init__(self) -> None:
        self.balance = 100
        self.lock = threading.Lock()

    def deposit(self, amount: int) -> None:
        old = self.balance
        self.balance = old + amount


class LockedAccount(Account):
    def deposit(self, amount: int) -> None:
        with self.lock:
            super().deposit(amount)


@planted(Account, LockedAccount, "old = self.balance", "self.balance = old + amount")
def account(Account: type) -> None:
    """Both deposits read the balance before one writes it, and one deposit is lost."""
    account = Account()
    together(ann=lambda: account.deposit(10), bob=lambda: account.deposit(20))
    assert account.balance == 130


class Counter:
    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()

    def increment(self) -> None:
        self.count += 1


class LockedCounter(Counter):
    def increment(self) -> None:
        with self.lock:
            self.count += 1


@planted(Counter, LockedCounter, "self.count += 1", switches="instructions")
def counter(Counter: type) -> None:
    """A thread loses the processor between the instructions of +=, and an increment of the other thread is lost."""
    counter = Counter()
    together(ann=counter.increment, bob=counter.increment)
    assert counter.count == 2


class Seats:
    def __init__(self) -> None:
        self.free = 1
        self.lock = threading.Lock()

    def book(self) -> bool:
        if self.free > 0:
            self.free -= 1
            return True
        return False


class LockedSeats(Seats):
    def book(self) -> bool:
        with self.lock:
            return super().book()


@planted(Seats, LockedSeats, "if self.free > 0:", "self.free -= 1")
def seats(Seats: type) -> None:
    """Both threads see that a seat is free before one takes it, and the seat is sold twice."""
    seats = Seats()
    together(ann=seats.book, bob=seats.book)
    assert seats.free == 0


class Client:
    """Connects when it is used first."""

    current: Client | None = None

    def __init__(self) -> None:
        self.address: str | None = None

    @classmethod
    def get(cls) -> Client:
        if cls.current is None:
            cls.current = Client()
            cls.current.connect()
        return cls.current

    def connect(self) -> None:
        self.address = "10.0.0.1"

    def send(self) -> str:
        return "to " + self.address  # type: ignore[operator]


class LockedClient(Client):
    lock = threading.Lock()

    @classmethod
    def get(cls) -> Client:
        with cls.lock:
            if cls.current is None:
                client = Client()
                client.connect()
                cls.current = client
            return cls.current


@planted(Client, LockedClient, "cls.current = Client()", "return cls.current", "self.address")
def client(Client: type) -> None:
    """The first thread publishes the client before it connects, and the second thread uses it."""
    together(ann=lambda: Client.get().send(), bob=lambda: Client.get().send())  # type: ignore[attr-defined]


class Listeners:
    def __init__(self) -> None:
        self.names = ["first", "second", "third"]
        self.lock = threading.Lock()
        self.told: list[str] = []

    def remove(self, name: str) -> None:
        self.names.remove(name)

    def tell(self) -> None:
        for name in self.names:
            self.told.append(name)


class CopiedListeners(Listeners):
    def tell(self) -> None:
        for name in self.names.copy():
            self.told.append(name)


@planted(Listeners, CopiedListeners, "for name in self.names:", "self.names.remove(name)")
def listeners(Listeners: type) -> None:
    """A thread iterates over a list while another removes an item before the iterator, which then skips an item."""
    listeners = Listeners()
    together(teller=listeners.tell, remover=lambda: listeners.remove("first"))
    assert listeners.told[-2:] == ["second", "third"]
