# SPDX-License-Identifier: MIT OR Apache-2.0
"""Queues behave like those of the module queue. Queues, channels and select are fair and lose no item."""

import gc
import queue
import threading
import weakref

import pytest

import fiberrt
from fiberrt import Channel, ChannelClosed, Event, LifoQueue, PriorityQueue, Queue, ShutDown, select

KINDS = [Queue, LifoQueue, PriorityQueue]


def waiting(fiber):
    with fiberrt.fail_after(60):
        while fiber.state != "waiting":
            fiberrt.sleep(0.001)
    return fiber


@pytest.mark.parametrize("kind, order", [(Queue, [3, 1, 2]), (LifoQueue, [2, 1, 3]), (PriorityQueue, [1, 2, 3])])
def test_order(kind, order):
    q = kind()
    assert q.empty() and not q.full() and q.maxsize == 0
    for x in (3, 1, 2):
        q.put(x)
    assert q.qsize() == 3
    assert [q.get() for _ in range(3)] == order
    assert q.empty()


def test_order_over_many_turns_of_the_ring():
    q, model = Queue(), []
    for i in range(1000):
        q.put(i)
        model.append(i)
        if i % 3:
            assert q.get() == model.pop(0)
    assert [q.get() for _ in model] == model


@pytest.mark.parametrize("kind", KINDS)
def test_times_and_bad_arguments(kind):
    q = kind(1)
    for get in (q.get_nowait, lambda: q.get(False), lambda: q.get(timeout=0), lambda: q.get(True, 0.01)):
        with pytest.raises(queue.Empty):
            get()
    with pytest.raises(ValueError):
        q.get(timeout=-1)
    q.put(1)
    assert q.full()
    for put in (q.put_nowait, lambda x: q.put(x, False), lambda x: q.put(x, timeout=0), lambda x: q.put(x, True, 0.01)):
        with pytest.raises(queue.Full):
            put(2)
    with pytest.raises(ValueError):
        q.put(2, timeout=-1)
    with pytest.raises(TypeError):
        q.put()
    assert q.get(False, -1) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_join(kind):
    q = kind()
    q.join()
    with pytest.raises(ValueError):
        q.task_done()
    q.put(1)
    q.put(2)
    fibers = [waiting(fiberrt.spawn(q.join)) for _ in range(2)]
    q.task_done()
    fiberrt.reschedule()
    assert not fibers[0].done and q.unfinished_tasks == 1
    q.task_done()
    assert fibers[0].join(60) and fibers[1].join(60)


@pytest.mark.parametrize("kind", [Queue, LifoQueue])
def test_the_first_waiter_is_served_first_and_newcomers_do_not_overtake(kind):
    q, got = kind(), []
    fibers = [waiting(fiberrt.spawn(lambda i=i: got.append((i, q.get())))) for i in range(3)]
    q.put("a")
    with pytest.raises(queue.Empty):  # it is promised
        q.get_nowait()
    assert q.empty()
    q.put("b"), q.put("c")
    for fiber in fibers:
        fiber.result(60)
    assert [i for i, _ in got] == [0, 1, 2] and {x for _, x in got} == {"a", "b", "c"}
    q = kind(1)
    q.put(0)
    putters = [waiting(fiberrt.spawn(q.put, i)) for i in (1, 2)]
    assert [q.get(timeout=60) for _ in range(3)] == [0, 1, 2]
    for fiber in putters:
        fiber.result(60)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_getter_loses_no_item_and_a_cancelled_putter_puts_none(kind):
    q = kind(1)
    first, second = waiting(fiberrt.spawn(q.get)), waiting(fiberrt.spawn(q.get))
    first.cancel()
    q.put("x")
    assert second.result(60) == "x"
    first.join()
    assert first.cancelled
    q.put(1)
    first, second = waiting(fiberrt.spawn(q.put, 2)), waiting(fiberrt.spawn(q.put, 3))
    first.cancel()
    assert q.get() == 1 and q.get(timeout=60) == 3
    first.join(), second.result()
    assert q.empty()


def test_shutdown():
    q = Queue(1)
    q.put(1)
    putter = waiting(fiberrt.spawn(q.put, 2))
    q.shutdown()
    q.shutdown()
    for put in (lambda: putter.result(60), lambda: q.put(3), lambda: q.put_nowait(3)):
        with pytest.raises(ShutDown):
            put()
    assert q.qsize() == 1 and q.full() and q.is_shutdown and q.get() == 1
    for get in (q.get, q.get_nowait, lambda: q.get(timeout=1)):
        with pytest.raises(ShutDown):
            get()
    q.task_done()
    q.join()
    q = LifoQueue()
    getters = [waiting(fiberrt.spawn(q.get)) for _ in range(2)]
    q.shutdown()
    for getter in getters:
        with pytest.raises(ShutDown):
            getter.result(60)
    q = Queue()
    q.put(1), q.put(2)
    joiner = waiting(fiberrt.spawn(q.join))
    q.shutdown(immediate=True)
    joiner.result(60)
    with pytest.raises(ShutDown):
        q.get()
    assert not hasattr(queue, "ShutDown") or queue.ShutDown is ShutDown


def test_items_that_use_the_queue_when_they_go():
    q = Queue()

    class Item:
        def __del__(self):
            q.qsize()
            try:
                q.put("late")
            except ShutDown:
                seen.append("shut down")

    seen = []
    q.put(Item())
    q.get()
    assert q.get_nowait() == "late"
    q.put(Item())
    q.shutdown(immediate=True)
    assert seen == ["shut down"]


@pytest.mark.parametrize("kind", [Queue, LifoQueue, lambda: Channel(4)])
def test_cycles_are_collected(kind):
    class Item:
        pass

    item = Item()
    item.q = kind()
    (item.q.put if hasattr(item.q, "put") else item.q.send)(item)
    gone = weakref.ref(item)
    del item
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("make", [lambda: Queue(2), lambda: PriorityQueue(2), lambda: Channel(), lambda: Channel(2)])
def test_between_threads_and_fibers(make):
    q = make()
    put = q.put if hasattr(q, "put") else q.send
    get = q.get if hasattr(q, "get") else q.receive
    got = []

    def take():
        for _ in range(200):
            got.append(get())

    def give(base):
        for i in range(100):
            put(base + i)

    threads = [threading.Thread(target=take), threading.Thread(target=give, args=(0,)),
               threading.Thread(target=give, args=(100,))]
    for thread in threads:
        thread.start()
    fibers = [fiberrt.spawn(take), fiberrt.spawn(give, 200), fiberrt.spawn(give, 300)]
    for fiber in fibers:
        fiber.result(60)
    while any(thread.is_alive() for thread in threads):
        fiberrt.sleep(0.001)
    assert sorted(got) == list(range(400))


def test_a_channel_without_a_capacity_hands_over():
    c = Channel()
    with pytest.raises(TimeoutError):
        c.send(1, timeout=0)
    with pytest.raises(TimeoutError):
        c.receive(0.01)
    fiber = waiting(fiberrt.spawn(c.send, "x"))
    assert c.receive() == "x" and fiber.result(60) is None
    for bad in (-1, 1 << 70, "x"):
        with pytest.raises((ValueError, OverflowError, TypeError, MemoryError)):
            Channel(bad)


def test_a_closed_channel():
    c = Channel(2)
    assert c.capacity == 2 and not c.closed
    c.send(1), c.send(2)
    sender = waiting(fiberrt.spawn(c.send, 3))
    c.close()
    c.close()
    with pytest.raises(ChannelClosed) as raised:
        sender.result(60)
    assert raised.value.args == (c,) and c.closed and "closed" in repr(c) and c.count == 2
    assert list(c) == [1, 2]
    with pytest.raises(ChannelClosed):
        c.receive()
    with Channel() as c:
        receivers = [waiting(fiberrt.spawn(list, c)), waiting(fiberrt.spawn(list, c))]
        c.send(1)
    assert receivers[0].result(60) == [1] and receivers[1].result(60) == []


def test_cancelled_ends_of_a_channel():
    c = Channel()
    receiver, other = waiting(fiberrt.spawn(c.receive)), waiting(fiberrt.spawn(c.receive))
    receiver.cancel()
    c.send("x")
    assert other.result(60) == "x"
    sender = waiting(fiberrt.spawn(c.send, "never"))
    sender.cancel()
    sender.join()
    with pytest.raises(TimeoutError):
        c.receive(0)


def test_items_left_in_a_channel_are_freed():
    class Item:
        pass

    c, item = Channel(1), Item()
    gone = weakref.ref(item)
    c.send(item)
    del item
    assert gone() is not None
    del c
    assert gone() is None


def test_select():
    a, b, event = Channel(), Channel(1), Event()
    with pytest.raises(TimeoutError):
        select(a, event, timeout=0)
    with pytest.raises(TimeoutError):
        select(timeout=0.01)
    assert select(a, (b, "sent"), event) == (1, None)
    assert select(a, b) == (1, "sent")
    sender = waiting(fiberrt.spawn(a.send, "x"))
    assert select(b, a) == (1, "x")
    sender.result()
    event.set()
    assert select(a, b, event) == (2, None)
    fiber = fiberrt.spawn(int)
    assert select(a, fiber) == (1, None) and fiber.done
    b.close()
    with pytest.raises(ChannelClosed) as raised:
        select(a, b)
    assert raised.value.args == (b,)
    for bad in (1, (1, 2), (a,), (event, 1), None):
        with pytest.raises(TypeError):
            select(bad)
    with pytest.raises(TypeError):
        select(a, wait=1)
    with pytest.raises(ValueError):
        select(*[a] * 2000)
    with pytest.raises(TimeoutError):
        select(*[a] * 100, timeout=0)


def test_select_of_ready_cases_is_fair_and_of_a_cancelled_fiber_takes_nothing():
    a, b = Channel(100), Channel(100)
    for i in range(100):
        a.send(i), b.send(i)
    chosen = [select(a, b)[0] for _ in range(20)]
    assert 0 < sum(chosen) < 20
    c = Channel()
    fiber = waiting(fiberrt.spawn(select, c, (Channel(), object())))
    fiber.cancel()
    fiber.join()
    assert fiber.cancelled
    with pytest.raises(TimeoutError):
        c.send(1, 0)


def test_no_references_leak():
    marker = object()
    import sys

    def work():
        q, c = Queue(1), Channel(1)
        for _ in range(50):
            q.put(marker), q.get()
            c.send(marker), c.receive()
            select((c, marker)), select(c)
            with pytest.raises(queue.Empty):
                q.get_nowait()
            with pytest.raises(TimeoutError):
                select((Channel(), marker), timeout=0)
        q.put(marker), c.send(marker)

    before = sys.getrefcount(marker)
    work()
    gc.collect()
    assert sys.getrefcount(marker) == before


@pytest.mark.parametrize("kind", KINDS)
def test_subclasses_call_init_with_their_own_arguments_and_have_attributes(kind):
    class Named(kind):
        def __init__(self, name, maxsize=0):
            super().__init__(maxsize)
            self.name = name

    class Plain(kind):
        def __init__(self, *args):
            kind.__init__(self)

    q = Named("x", maxsize=1)
    assert (q.maxsize, q.name) == (1, "x")
    q.put(1)
    with pytest.raises(queue.Full):
        q.put(2, timeout=0.01)
    assert q.get() == 1 and q.empty()
    assert Plain(1, 2).maxsize == 0
    with pytest.raises(TypeError):
        Queue("x")


def test_a_queue_in_use_is_not_initialized_again():
    q = Queue(1)
    q.__init__(2)
    assert q.maxsize == 2
    q.put(1)
    with pytest.raises(RuntimeError):
        q.__init__(3)
    assert q.get() == 1
