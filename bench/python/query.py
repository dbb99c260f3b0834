# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark query of bench/adopted/query.c in Python: greenlets of gevent, with psycopg2 made to wait in gevent's
loop by psycogreen.

    query.py CONNECTIONS SECONDS CONNECTION

Prints the queries answered, and the CPU time that this process took for them, in nanoseconds.
"""

import os
import sys
import time

import gevent
import gevent.event
import psycogreen.gevent
import psycopg2

psycogreen.gevent.patch_psycopg()
number, seconds, connection = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
counts = [0] * number
waiting = number
connected, begin = gevent.event.Event(), gevent.event.Event()


def ask(index: int) -> None:
    global waiting
    cursor = psycopg2.connect(connection).cursor()
    waiting -= 1
    if not waiting:
        connected.set()
    begin.wait()
    while True:
        cursor.execute("SELECT 1")
        if cursor.fetchone() != (1,):
            os._exit(1)
        counts[index] += 1


greenlets = [gevent.spawn(ask, index) for index in range(number)]
for greenlet in greenlets:
    greenlet.link_exception(lambda _: os._exit(1))
connected.wait()
begin.set()
gevent.sleep(seconds / 10)
queries, cpu = sum(counts), time.process_time_ns()
gevent.sleep(seconds)
print(sum(counts) - queries, time.process_time_ns() - cpu, flush=True)
os._exit(0)  # the connections end with the process
