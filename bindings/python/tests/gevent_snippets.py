# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small programs for gevent. test_compat_gevent.py runs this file with gevent and with fiberrt.compat.gevent: the
output must be the same. Each function gives lines."""

import sys
import time

if sys.argv[1] == "own":
    import fiberrt.compat.gevent.as_gevent  # noqa: F401
import gevent
from gevent import event, lock, pool, queue

gevent.get_hub().exception_stream = open("/dev/null", "w")  # the reports of exceptions contain addresses
TICK = 0.01


class Error(Exception):
    pass


def fail(error=Error):
    gevent.sleep(0)
    raise error("message")


def outcome(greenlet):
    return (
        greenlet.ready(), greenlet.successful(), greenlet.dead, bool(greenlet), greenlet.started, repr(greenlet.value),
        repr(greenlet.exception), [repr(each) for each in (greenlet.exc_info or ())[:2]], bool(greenlet.exc_info),
    )  # fmt: skip


def raised(function, *args, **kwargs):
    try:
        return "returned", function(*args, **kwargs)
    except BaseException as error:
        return type(error).__name__, str(error)


def ends_of_a_greenlet():
    returned, failed = gevent.spawn(lambda a, b=0: a + b, 1, b=2), gevent.spawn(fail)
    yield outcome(returned)
    gevent.joinall([returned, failed])
    yield outcome(returned), returned.get()
    yield outcome(failed), raised(failed.get)
    yield returned.args, returned.kwargs
    yield raised(gevent.joinall, [gevent.spawn(fail)], raise_error=True)


def kill_while_it_waits():
    log = []

    def run():
        try:
            gevent.sleep(100)
        except BaseException as error:
            log.append(type(error).__name__)
            raise
        finally:
            log.append("finally")

    for error in gevent.GreenletExit, gevent.GreenletExit("text"), Error("killed"), Error:
        greenlet = gevent.spawn(run)
        gevent.sleep(0)
        greenlet.kill(error)
        yield outcome(greenlet), log
        yield raised(greenlet.get)


def kill_before_its_first_turn():
    linked = []
    for start in gevent.spawn, lambda f: gevent.spawn_later(100, f), gevent.Greenlet:
        greenlet = start(fail)
        greenlet.link(linked.append)
        greenlet.kill()
        yield outcome(greenlet)
        greenlet.start()
        gevent.sleep(TICK)
        yield outcome(greenlet), linked == [greenlet]
        linked.clear()


def kill_that_is_survived():
    def run():
        try:
            gevent.sleep(100)
        except gevent.GreenletExit:
            go_on.wait()
            return "survived"

    go_on = event.Event()
    greenlet = gevent.spawn(run)
    gevent.sleep(0)
    yield greenlet.kill(timeout=0), greenlet.dead
    go_on.set()
    greenlet.join()
    yield outcome(greenlet)
    yield greenlet.kill(), raised(gevent.kill, greenlet)


def kill_without_waiting():
    greenlet = gevent.spawn(gevent.sleep, 100)
    gevent.sleep(0)
    greenlet.kill(block=False)
    yield greenlet.dead
    greenlet.join()
    yield outcome(greenlet)
    several = [gevent.spawn(gevent.sleep, 100) for _ in range(3)]
    gevent.killall(several)
    yield [each.dead for each in several]


def a_greenlet_kills_itself():
    def run():
        gevent.getcurrent().kill()
        return "not reached"

    greenlet = gevent.spawn(run)
    greenlet.join()
    yield outcome(greenlet)


def links():
    log = []
    one, two = gevent.spawn(int), gevent.spawn(fail)
    for greenlet in one, two:
        greenlet.link(lambda source: log.append(("link", source.value)))
        greenlet.link_value(lambda source: log.append(("value", source.value)))
        greenlet.link_exception(lambda source: log.append(("exception", str(source.exception))))
        greenlet.rawlink(lambda source: log.append("raw"))
    gevent.joinall([one, two])
    gevent.sleep(TICK)
    yield sorted(map(str, log))
    late = []
    one.link(late.append)
    yield late
    gevent.sleep(TICK)
    yield late == [one], raised(one.link, 5)


def subclasses():
    class Own(gevent.Greenlet):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def _run(self):
            return self.factor * 2

    yield Own.spawn(21).get()
    own = Own(4)
    own.start_later(TICK)
    yield own.get()
    yield raised(gevent.Greenlet, 5), raised(gevent.spawn, 5)
    yield gevent.Greenlet.spawn(lambda: gevent.getcurrent().args).get()


def timeouts():
    yield raised(gevent.Timeout(TICK).__enter__().cancel)
    for exception in None, False, Error("instead"), Error, "text":
        with_one = raised(sleeping_with, gevent.Timeout(TICK, exception))
        yield with_one
    yield raised(sleeping_with, gevent.Timeout(None), 0)
    yield raised(gevent.with_timeout, TICK, gevent.sleep, 100)
    yield raised(gevent.with_timeout, TICK, gevent.sleep, 100, timeout_value="value")
    yield raised(gevent.with_timeout, 100, len, "four")
    yield issubclass(gevent.Timeout, Exception), [str(gevent.Timeout(n)) for n in (1, 2.5, None)]


def sleeping_with(timeout, seconds=100):
    with timeout as same:
        assert same is timeout
        gevent.sleep(seconds)
    return timeout.pending


def nested_timeouts():
    for outer_s, inner_s in (TICK, 100), (100, TICK):
        outer, inner = gevent.Timeout(outer_s), gevent.Timeout(inner_s)
        try:
            with outer:
                with inner:
                    gevent.sleep(100)
        except gevent.Timeout as error:
            yield error is outer, error is inner, outer.pending, inner.pending


def waits_with_timeouts():
    never = gevent.spawn(gevent.sleep, 100)
    yield never.join(timeout=TICK), raised(never.get, timeout=TICK), raised(never.get, block=False)
    yield event.Event().wait(TICK), event.AsyncResult().wait(TICK), raised(event.AsyncResult().get, timeout=TICK)
    yield (
        lock.Semaphore(0).acquire(timeout=TICK),
        lock.Semaphore(0).acquire(blocking=False),
        lock.Semaphore(0).wait(TICK),
    )
    yield raised(queue.Queue().get, timeout=TICK), raised(queue.Queue().get_nowait), raised(queue.Queue().peek_nowait)
    yield gevent.joinall([never], timeout=TICK), gevent.wait([never], timeout=TICK)
    never.kill()


def results():
    result = event.AsyncResult()
    yield result.ready(), result.value, result.exception, raised(result.get_nowait)
    waiters = [gevent.spawn(result.get) for _ in range(3)]
    gevent.sleep(0)
    result.set("value")
    yield [each.get() for each in waiters], result.successful(), result.get()
    result = event.AsyncResult()
    result.set_exception(Error("late"))
    yield raised(result.get), raised(result.get), result.successful(), result.wait(), repr(result.exception)
    result = event.AsyncResult()
    gevent.spawn(fail).link(result)
    yield raised(result.get)


def events():
    it = event.Event()
    waiters = [gevent.spawn(it.wait) for _ in range(3)]
    gevent.sleep(0)
    it.set()
    it.clear()
    yield [each.get(timeout=5) for each in waiters], it.is_set(), it.ready()
    it.set()
    yield it.wait(), it.wait(0), gevent.wait([it]) == [it]


def waits_for_several():
    greenlets = [gevent.spawn_later(n * TICK, int, n) for n in (3, 1, 2)]
    yield [each.value for each in gevent.iwait(greenlets)]
    greenlets = [gevent.spawn_later(n, int, 1) for n in (0, 100, 100)]
    yield len(gevent.wait(greenlets, count=1)), len(gevent.joinall(greenlets, count=1))
    gevent.killall(greenlets)


def pools():
    it, most = pool.Pool(2), []

    def work(n):
        most.append(len(it))
        gevent.sleep(TICK)
        return n * n

    yield it.map(work, range(5)), max(most), it.free_count(), it.full(), len(it)
    yield list(it.imap(work, range(5))), sorted(it.imap_unordered(work, range(5))), it.apply(work, (3,))
    yield it.apply_async(work, (4,)).get(), it.map_async(work, range(3)).get()
    one = it.spawn(gevent.sleep, 100)
    yield it.wait_available(TICK), one in it, len(it), it.join(timeout=TICK)
    it.spawn(gevent.sleep, 100)
    yield it.full(), it.free_count(), raised(it.add, gevent.Greenlet(int), blocking=False), it.wait_available(TICK)
    it.kill()
    yield len(it), one.dead, it.join(), it.free_count()
    yield raised(it.map, fail_for, [1, 2]), raised(pool.Pool, -1)


def fail_for(n):
    raise Error(n)


def groups():
    group = pool.Group()
    group.add(gevent.spawn(gevent.sleep, TICK))
    two = group.spawn(gevent.sleep, 100)
    yield len(group), group.full()
    group.killone(two)
    yield two.dead, len(group), group.join(), len(group), list(group)
    group.spawn(fail)
    yield raised(group.join, raise_error=True)


def queues():
    for kind in queue.Queue, queue.SimpleQueue, queue.LifoQueue, queue.PriorityQueue:
        it = kind(items=[3, 1, 2])
        yield kind.__name__, it.qsize(), len(it), bool(it), it.empty(), it.peek(), [it.get() for _ in range(3)]
    it = queue.Queue(1)
    it.put(1)
    yield it.full(), raised(it.put, 2, timeout=TICK), raised(it.put_nowait, 2), it.maxsize
    producer = gevent.spawn(lambda: [it.put(n) for n in range(3)] + [it.put(StopIteration)])
    yield list(it), producer.get()
    it = queue.JoinableQueue()
    it.put(1)
    yield it.unfinished_tasks, it.join(timeout=TICK), it.task_done(), it.join(), raised(it.task_done)
    yield sorted(it.copy().queue), queue.Queue(None).maxsize
    it.shutdown()
    yield raised(it.put, 1), raised(it.get)
    channel = queue.Channel()
    gevent.spawn(channel.put, "item")
    yield channel.get(), raised(channel.put, 1, timeout=TICK), raised(channel.get_nowait)


def locks():
    it = lock.Semaphore(2)
    with it:
        yield it.counter, it.locked(), it.acquire(), it.counter, it.locked(), it.release()
    yield it.counter
    yield raised(lock.BoundedSemaphore(1).release), lock.DummySemaphore().acquire()
    mutex = lock.RLock()
    with mutex, mutex:
        yield gevent.spawn(mutex.acquire, blocking=False).get()
    yield raised(mutex.release)[0]


def order():
    log = []

    def run(name):
        for turn in range(3):
            log.append((name, turn))
            gevent.sleep(0)

    gevent.joinall([gevent.spawn(run, name) for name in "abc"])
    yield log


def locals_and_names():
    from gevent.local import local

    mine = local()
    mine.x = 1
    yield raised(lambda: gevent.spawn(lambda: mine.x).get())[0], mine.x
    greenlet = gevent.spawn(int)
    greenlet.name = "named"
    yield greenlet.name, 'Greenlet "named"' in repr(greenlet)
    yield gevent.getcurrent() is gevent.getcurrent(), gevent.spawn(gevent.getcurrent).get() is gevent.getcurrent()


def errors_reach_the_main_greenlet():
    yield raised(gevent.spawn(sys.exit, 3).join), raised(gevent.sleep, TICK)
    gevent.spawn(fail, KeyboardInterrupt)
    yield raised(gevent.sleep, 100)


def hub():
    it = gevent.get_hub()
    log = []
    timer = it.loop.timer(TICK)
    timer.start(log.append, "timer")
    it.loop.run_callback(log.append, "callback")
    it.wait(it.loop.timer(3 * TICK))
    yield log, it.threadpool.apply(max, (1, 2)), raised(it.threadpool.apply, fail_for, (1,))
    waiter = gevent.hub.Waiter()
    it.loop.run_callback(waiter.switch, "value")
    yield waiter.get()
    other = it.loop.async_()
    woken = event.Event()
    other.start(woken.set)
    it.threadpool.spawn(other.send).get()
    yield woken.wait(5)
    other.stop()
    yield gevent.wait(timeout=5), time.monotonic() > 0


if __name__ == "__main__":
    for name, function in list(globals().items()):
        if callable(function) and getattr(function, "__code__", None) and function.__code__.co_flags & 0x20:
            print(f"--- {name}")
            with gevent.Timeout(20):
                for line in function():
                    print(line)
