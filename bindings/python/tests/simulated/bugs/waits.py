# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads that wait for each other in a wrong way."""

from __future__ import annotations

import threading
from collections import deque
from queue import Empty, Queue

from .. import together
from . import planted


class Mailbox:
    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.message: str | None = None

    def put(self, message: str) -> None:
        with self.condition:
            self.message = message
            self.condition.notify()

    def get(self) -> str:
        while self.message is None:
            with self.condition:
                self.condition.wait()
        return self.message


class LockedMailbox(Mailbox):
    def get(self) -> str:
        with self.condition:
            while self.message is None:
                self.condition.wait()
            return self.message


@planted(Mailbox, LockedMailbox, "while self.message is None:", "self.condition.wait()", "self.condition.notify()",
         switches="waits")  # fmt: skip
def mailbox(Mailbox: type) -> None:
    """The reader looks for a message without the lock. If it comes before the wait, the reader misses the notify."""
    mailbox = Mailbox()
    together(reader=mailbox.get, writer=lambda: mailbox.put("a letter"))


class Buffer:
    """Has room for one item. One condition serves producers and consumers."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.items: list[int] = []

    def put(self, item: int) -> None:
        with self.changed:
            while self.items:
                self.changed.wait()
            self.items.append(item)
            self.wake()

    def get(self) -> int:
        with self.changed:
            while not self.items:
                self.changed.wait()
            item = self.items.pop()
            self.wake()
            return item

    def wake(self) -> None:
        self.changed.notify()


class WakingBuffer(Buffer):
    def wake(self) -> None:
        self.changed.notify_all()


@planted(Buffer, WakingBuffer, "self.changed.wait()", "self.changed.notify()", switches="waits")
def buffer(Buffer: type) -> None:
    """Producers and consumers wait for the same condition. A consumer's notify wakes the other consumer, which waits
    again, and the producer sleeps on."""
    buffer = Buffer()
    together(
        consumer1=buffer.get, consumer2=buffer.get, producer1=lambda: buffer.put(1), producer2=lambda: buffer.put(2)
    )


class Stack:
    def __init__(self) -> None:
        self.filled = threading.Condition()
        self.items: list[int] = []

    def push(self, item: int) -> None:
        with self.filled:
            self.items.append(item)
            self.filled.notify()

    def pop(self) -> int:
        with self.filled:
            if not self.items:
                self.filled.wait()
            return self.items.pop()

    def pop_if_any(self) -> int | None:
        with self.filled:
            return self.items.pop() if self.items else None


class LoopingStack(Stack):
    def pop(self) -> int:
        with self.filled:
            while not self.items:
                self.filled.wait()
            return self.items.pop()


@planted(Stack, LoopingStack, "self.filled.wait()", "self.items.pop()", switches="waits")
def stack(Stack: type) -> None:
    """A thread that is notified does not look again. Another thread has taken the item before."""
    stack = Stack()

    def push() -> None:
        stack.push(1)
        popped = stack.pop_if_any()
        if popped is not None:
            stack.push(popped)

    together(ann=stack.pop, bob=push)


class Inbox:
    """A thread takes all items whenever the event is set."""

    def __init__(self) -> None:
        self.items: deque[int] = deque()
        self.filled = threading.Event()

    def add(self, item: int) -> None:
        self.items.append(item)
        self.filled.set()

    def take(self) -> list[int]:
        self.filled.wait()
        taken = [self.items.popleft() for _ in range(len(self.items))]
        self.filled.clear()
        return taken


class ClearingInbox(Inbox):
    def take(self) -> list[int]:
        self.filled.wait()
        self.filled.clear()
        return [self.items.popleft() for _ in range(len(self.items))]


@planted(Inbox, ClearingInbox, "self.filled.set()", "self.filled.clear()", "self.filled.wait()")
def inbox(Inbox: type) -> None:
    """An item that is added after the take and before the clear sets the event in vain, and the reader waits forever."""
    inbox = Inbox()

    def read() -> None:
        count = 0
        while count < 2:
            count += len(inbox.take())

    def write() -> None:
        inbox.add(1)
        inbox.add(2)

    together(reader=read, writer=write)


class Jobs:
    def __init__(self) -> None:
        self.queue: Queue[int] = Queue()
        self.queue.put(1)

    def work(self) -> None:
        while not self.queue.empty():
            self.queue.get()


class NonBlockingJobs(Jobs):
    def work(self) -> None:
        while True:
            try:
                self.queue.get_nowait()
            except Empty:
                return


@planted(Jobs, NonBlockingJobs, "while not self.queue.empty():", "self.queue.get()", switches="waits")
def jobs(Jobs: type) -> None:
    """Both workers see that the queue is not empty. One gets the only job, and the other waits for one forever."""
    jobs = Jobs()
    together(ann=jobs.work, bob=jobs.work)


class Bank:
    def __init__(self) -> None:
        self.money = {"red": 100, "blue": 100}
        self.locks = {"red": threading.Lock(), "blue": threading.Lock()}

    def transfer(self, giver: str, taker: str) -> None:
        with self.locks[giver]:
            with self.locks[taker]:
                self.money[giver] -= 10
                self.money[taker] += 10


class OrderedBank(Bank):
    def transfer(self, giver: str, taker: str) -> None:
        first, second = sorted((giver, taker))
        with self.locks[first], self.locks[second]:
            self.money[giver] -= 10
            self.money[taker] += 10


@planted(Bank, OrderedBank, "with self.locks[giver]:", "with self.locks[taker]:", switches="waits")
def bank(Bank: type) -> None:
    """Two transfers lock the same two accounts in opposite orders."""
    bank = Bank()
    together(ann=lambda: bank.transfer("red", "blue"), bob=lambda: bank.transfer("blue", "red"))
