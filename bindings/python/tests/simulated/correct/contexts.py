# SPDX-License-Identifier: MIT OR Apache-2.0
"""Data of a thread, context variables, and event loops in threads."""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
import uuid
from queue import Queue

from .. import together
from . import correct


@correct
def data_of_a_thread() -> None:
    local, seen = threading.local(), []

    def work(number: int) -> None:
        local.number = number
        threading.Event().wait(1)
        seen.append(local.number == number)

    together(ann=lambda: work(1), bob=lambda: work(2))
    assert seen == [True, True]
    assert not hasattr(local, "number")


@correct
def context_variables() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")

    def work(name: str) -> None:
        user.set(name)
        threading.Event().wait(1)
        assert user.get() == name

    together(ann=lambda: work("ann"), bob=lambda: work("bob"))
    assert user.get() == "nobody"


@correct
def copied_context() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")
    user.set("ann")
    context, got = contextvars.copy_context(), []
    together(worker=lambda: got.append(context.run(user.get)))
    assert got == ["ann"]


@correct
def event_loops_in_threads() -> None:
    async def work(number: int) -> int:
        await asyncio.sleep(number)
        return number

    got = []
    together(ann=lambda: got.append(asyncio.run(work(1))), bob=lambda: got.append(asyncio.run(work(2))))
    assert sorted(got) == [1, 2]


@correct
def coroutine_of_another_thread() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def answer() -> int:
        await asyncio.sleep(1)
        return 42

    assert asyncio.run_coroutine_threadsafe(answer(), loop).result() == 42
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@correct
def call_in_a_thread() -> None:
    async def main() -> int:
        return await asyncio.to_thread(len, "four")

    assert asyncio.run(main()) == 4


@correct
def tasks_with_a_lock() -> None:
    async def main() -> list[int]:
        lock, log = asyncio.Lock(), []

        async def work(number: int) -> None:
            async with lock:
                log.append(number)
                await asyncio.sleep(1)

        await asyncio.gather(work(1), work(2))
        return log

    assert asyncio.run(main()) == [1, 2]


@correct
def names_and_identifiers() -> None:
    seen: Queue[tuple[str, int]] = Queue()

    def note() -> None:
        seen.put((threading.current_thread().name, threading.get_ident()))

    together(ann=note, bob=note)
    first, second = seen.get(), seen.get()
    assert {first[0], second[0]} == {"ann", "bob"}
    assert threading.get_ident() not in (first[1], second[1])


@correct
def random_numbers() -> None:
    numbers: Queue[int] = Queue()
    together(ann=lambda: numbers.put(random.randrange(10)), bob=lambda: numbers.put(random.randrange(10)))
    assert numbers.qsize() == 2


@correct
def identifiers_without_a_repetition() -> None:
    made = []
    together(ann=lambda: made.append(uuid.uuid4()), bob=lambda: made.append(uuid.uuid4()))
    assert made[0] != made[1]


@correct
def exception_in_a_thread_that_is_caught() -> None:
    errors = []

    def work() -> None:
        try:
            raise ValueError("wrong")
        except ValueError as error:
            errors.append(str(error))

    together(ann=work)
    assert errors == ["wrong"]


@correct
def generator_shared_under_a_lock() -> None:
    lock, numbers, got = threading.Lock(), iter(range(4)), []

    def take() -> None:
        for _ in range(2):
            with lock:
                got.append(next(numbers))

    together(ann=take, bob=take)
    assert sorted(got) == [0, 1, 2, 3]
