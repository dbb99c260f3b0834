# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a turn and a life of a fiber take, beside greenlet, gevent, asyncio and uvloop: same interpreter, same core.

Usage: python bench/python/turns.py [--check]

Each figure is the least of many short rounds, taken in turn, so that other programs disturb all alike. What is not
installed is left out. --check: fail if a yield takes more than 70 ns or a spawn and join more than 400 ns.
"""

import asyncio
import gc
import os
import sys
import time

import fiberrt

ROUNDS = 60


def clock(function, count):
    begun = time.perf_counter_ns()
    function(count)
    return (time.perf_counter_ns() - begun) / count


def nothing():
    pass


# Each is function(count), which does the thing so many times.


def fiberrt_yield(count):
    def turns():
        for _ in range(count // 2):
            fiberrt.yield_()

    other = fiberrt.spawn(turns)
    turns()
    other.join()


def fiberrt_life(count):
    for _ in range(count):
        fiberrt.spawn(nothing).join()


def asyncio_turns(run):
    def yields(count):
        async def turns():
            for _ in range(count // 2):
                await asyncio.sleep(0)

        async def both():
            await asyncio.gather(turns(), turns())

        run(both())

    def lives(count):
        async def none():
            pass

        async def all_of_them():
            for _ in range(count):
                await asyncio.create_task(none())

        run(all_of_them())

    return yields, lives


def peers():
    yields, lives = asyncio_turns(asyncio.run)
    yield "asyncio", yields, lives
    try:
        import uvloop
    except ImportError:
        pass
    else:
        yields, lives = asyncio_turns(uvloop.run)
        yield "uvloop", yields, lives
    try:
        import greenlet
    except ImportError:
        pass
    else:

        def yields(count):
            main = greenlet.getcurrent()

            def turns():
                for _ in range(count // 2):
                    main.switch()

            other = greenlet.greenlet(turns)
            for _ in range(count // 2):
                other.switch()

        def lives(count):
            for _ in range(count):
                greenlet.greenlet(nothing).switch()

        yield "greenlet (bare)", yields, lives
    try:
        import gevent
    except ImportError:
        return

    def yields(count):
        def turns():
            for _ in range(count // 2):
                gevent.sleep(0)

        gevent.joinall([gevent.spawn(turns), gevent.spawn(turns)])

    def lives(count):
        for _ in range(count):
            gevent.spawn(nothing).join()

    yield "gevent", yields, lives


def main():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    gc.disable()
    rows = [("fiberrt", fiberrt_yield, fiberrt_life), *peers()]
    least = {}
    for _ in range(ROUNDS):
        for name, yields, lives in rows:
            for kind, function, count in (("yield", yields, 4000), ("life", lives, 400)):
                took = clock(function, count)
                least[name, kind] = min(took, least.get((name, kind), took))
    print(f"Python {sys.version.split()[0]}, ns, and how many times as long as fiberrt's")
    print(f"{'':18}{'yield':>10}{'':8}{'spawn + join':>14}")
    for name, _, _ in rows:
        cells = [(least[name, kind], least[name, kind] / least["fiberrt", kind]) for kind in ("yield", "life")]
        print(f"{name:18}{cells[0][0]:10.0f}{cells[0][1]:7.1f}x{cells[1][0]:14.0f}{cells[1][1]:7.1f}x")
    if "--check" in sys.argv and (least["fiberrt", "yield"] > 70 or least["fiberrt", "life"] > 400):
        sys.exit("slower than 70 ns for a yield, 400 ns for a spawn and join")


if __name__ == "__main__":
    main()
