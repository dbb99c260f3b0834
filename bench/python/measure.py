# SPDX-License-Identifier: MIT OR Apache-2.0
"""One figure of one runtime, in its own process; run.py calls it, in turn for each.

Usage: python measure.py RUNTIME SHAPE SECONDS

RUNTIME is fiberrt, greenlet, gevent, asyncio, uvloop or fiberrt_asyncio (asyncio on our event loop). SHAPE: yield (ns per switch: two give way to each other), spawn
(ns for one that does nothing and is joined), memory (bytes per fiber, of 30,000 that wait: resident memory and page
tables), memory-30000-1MiB (of ours: on stacks of 1 MiB), import (ms until it can be used, less the time of the
interpreter), file-WHAT-BY (ns for a read of 4 KiB from the
page cache; WHAT is read: os.pread(), open: open(path, "rb").read(), text: open(path).read(); BY is plain or fiber). The times are medians of short rounds for
SECONDS.
"""

import gc
import os
import statistics
import subprocess
import sys
import time

HELD = 30_000


def nothing():
    pass


class OfFiberrt:
    def __init__(self):
        import fiberrt

        self.fiberrt = fiberrt

    def run(self, function, *arguments):
        return function(*arguments)

    def yields(self, count):
        give_way = self.fiberrt.reschedule

        def turns():
            for _ in range(count // 2):
                give_way()

        other = self.fiberrt.spawn(turns)
        turns()
        other.join()

    def spawns(self, count):
        spawn = self.fiberrt.spawn
        for _ in range(count):
            spawn(nothing).join()

    def hold(self, count):
        event = self.fiberrt.Event()
        fibers = [self.fiberrt.spawn(event.wait) for _ in range(count)]
        self.fiberrt.reschedule()  # each runs until it waits
        yield
        event.set()
        for fiber in fibers:
            fiber.join()
        yield


class OfGevent:
    def __init__(self):
        import gevent
        import gevent.event

        self.gevent = gevent

    def run(self, function, *arguments):
        return function(*arguments)

    def yields(self, count):
        give_way = self.gevent.sleep

        def turns():
            for _ in range(count // 2):
                give_way(0)

        self.gevent.joinall([self.gevent.spawn(turns), self.gevent.spawn(turns)])

    def spawns(self, count):
        spawn = self.gevent.spawn
        for _ in range(count):
            spawn(nothing).join()

    def hold(self, count):
        event = self.gevent.event.Event()
        fibers = [self.gevent.spawn(event.wait) for _ in range(count)]
        self.gevent.sleep(0)
        yield
        event.set()
        self.gevent.joinall(fibers)
        yield


class OfGreenlet:
    """No scheduler, no joining: the layer below gevent."""

    def __init__(self):
        import greenlet

        self.greenlet = greenlet

    def run(self, function, *arguments):
        return function(*arguments)

    def yields(self, count):
        main = self.greenlet.getcurrent()

        def turns():
            for _ in range(count // 2):
                main.switch()

        other = self.greenlet.greenlet(turns)
        for _ in range(count // 2):
            other.switch()

    def spawns(self, count):
        greenlet = self.greenlet.greenlet
        for _ in range(count):
            greenlet(nothing).switch()

    def hold(self, count):
        main = self.greenlet.getcurrent()
        fibers = [self.greenlet.greenlet(main.switch) for _ in range(count)]
        for fiber in fibers:
            fiber.switch()
        yield
        for fiber in fibers:
            fiber.switch()
        yield


class OfAsyncio:
    """Coroutines: every flow is a coroutine, and the loop drives each step of a measurement."""

    def __init__(self, run=None):
        import asyncio

        self.asyncio = asyncio
        self.run_loop = run or asyncio.run

    def run(self, function, *arguments):
        async def main():
            return await function(*arguments)

        return self.run_loop(main())

    async def yields(self, count):
        sleep = self.asyncio.sleep

        async def turns():
            for _ in range(count // 2):
                await sleep(0)

        await self.asyncio.gather(turns(), turns())

    async def spawns(self, count):
        async def nothing_at_all():
            pass

        create_task = self.asyncio.create_task
        for _ in range(count):
            await create_task(nothing_at_all())

    async def hold(self, count):
        event = self.asyncio.Event()
        tasks = [self.asyncio.create_task(event.wait()) for _ in range(count)]
        await self.asyncio.sleep(0)
        yield
        event.set()
        await self.asyncio.gather(*tasks)
        yield


class OfUvloop(OfAsyncio):
    def __init__(self):
        import uvloop

        super().__init__(uvloop.run)


class OfOurLoop(OfAsyncio):
    def __init__(self):
        import asyncio

        import fiberrt.aio

        def run(main):
            with asyncio.Runner(loop_factory=fiberrt.aio.EventLoop) as runner:
                return runner.run(main)

        super().__init__(run)


RUNTIMES = {
    "fiberrt": OfFiberrt, "greenlet": OfGreenlet, "gevent": OfGevent, "asyncio": OfAsyncio, "uvloop": OfUvloop,
    "fiberrt_asyncio": OfOurLoop,
}


def median_of_rounds(runtime, function, count, seconds):
    """ns per one of count, the loop being there already."""
    rounds = []
    end = time.monotonic() + seconds

    def took(begun):
        rounds.append((time.perf_counter_ns() - begun) / count)
        return time.monotonic() < end or len(rounds) < 5

    if isinstance(runtime, OfAsyncio):

        async def all_of_it():
            await function(count)
            while True:
                begun = time.perf_counter_ns()
                await function(count)
                if not took(begun):
                    break

        runtime.run(all_of_it)
    else:
        function(count)
        while True:
            begun = time.perf_counter_ns()
            function(count)
            if not took(begun):
                break
    return statistics.median(rounds)


def bytes_in_memory():
    with open("/proc/self/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    return sum(int(fields[name].split()[0]) for name in ("VmRSS", "VmPTE")) * 1024


def bytes_held(runtime):
    gc.collect()
    before = bytes_in_memory()
    if isinstance(runtime, OfAsyncio):

        async def all_of_it():
            held = runtime.hold(HELD)
            await anext(held)
            size = bytes_in_memory()
            await anext(held)
            return size

        after = runtime.run(all_of_it)
    else:
        held = runtime.hold(HELD)
        next(held)
        after = bytes_in_memory()
        next(held)
    return (after - before) / HELD


def import_ms(name, times):
    """The shortest of so many imports in fresh interpreters, less that of as many without: a busy machine prolongs
    some of them by more than an import takes."""
    names = {"gevent": "gevent, gevent.event", "uvloop": "uvloop, asyncio", "fiberrt_asyncio": "fiberrt.aio"}

    def run(code):
        begun = time.perf_counter_ns()
        subprocess.run([sys.executable, "-I", "-c", code], check=True)
        return (time.perf_counter_ns() - begun) / 1e6

    imports, none = [], []
    for _ in range(times):
        imports.append(run("import " + names.get(name, name)))
        none.append(run("pass"))
    return min(imports) - min(none)


def file_ns(what, by, seconds):
    """ns for a read of a cached file of 4 KiB, while another fiber waits."""
    import tempfile

    import fiberrt
    from fiberrt import _fiberrt

    event = fiberrt.Event()
    waiter = fiberrt.spawn(event.wait)
    fiberrt.reschedule()
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x" * 4096)
        file.flush()
        path, number = file.name, file.fileno()
        opener = open if by == "plain" else fiberrt.open
        pread = os.pread if by == "plain" else _fiberrt.os_pread  # which fiberrt.monkey puts into os

        def reads(count):
            for _ in range(count):
                pread(number, 4096, 0)

        def opens(count):
            mode = "r" if what == "text" else "rb"
            for _ in range(count):
                with opener(path, mode) as each:
                    each.read()

        found = median_of_rounds(None, reads if what == "read" else opens, 2000 if what == "read" else 500, seconds)
    event.set()
    waiter.join()
    return found


def main():
    name, shape, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    if shape == "import":
        print(import_ms(name, max(2, min(20, round(seconds * 100)))))
        return
    if shape.startswith("file-"):
        print(file_ns(*shape.split("-")[1:], seconds))
        return
    runtime = RUNTIMES[name]()
    gc.disable()
    if shape == "memory-30000-1MiB":
        runtime.fiberrt.stack_size(1 << 20)
    if shape.startswith("memory"):
        print(bytes_held(runtime))
    elif shape == "yield":
        print(median_of_rounds(runtime, runtime.yields, 4000, seconds))
    elif shape == "spawn":
        print(median_of_rounds(runtime, runtime.spawns, 400, seconds))
    else:
        sys.exit(f"unknown shape {shape}")


if __name__ == "__main__":
    try:
        main()
    except ImportError as error:
        print(error, file=sys.stderr)
        os._exit(3)  # it is not installed, which is not this script's failure
