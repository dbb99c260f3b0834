# SPDX-License-Identifier: MIT OR Apache-2.0
"""Traces, and what a program adds to them. The library's own tests look at the file more closely."""

import os
import re
import threading

import fiberrt
import pytest


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """The fields of a message of Protocol Buffers: pairs of a number and an int or bytes."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            assert at + length <= len(data)
            value, at = data[at : at + length], at + length
        else:
            length = {1: 8, 5: 4}[key & 7]
            value, at = data[at : at + length], at + length
        found.append((key >> 3, value))
    assert at == len(data)
    return found


PACKET, EVENT, DESCRIPTOR, INTERNED = 1, 11, 60, 12  # numbers of Perfetto's format
BEGIN, END, COUNTER = 1, 2, 4


class Read:
    """A trace: `names` of tracks, and `slices`: the names of slices in the order of their beginnings."""

    def __init__(self, path):
        self.names, self.slices, self.counters, depth = [], [], [], {}
        interned = {}
        with open(path, "rb") as file:
            packets = fields(file.read())
        assert {number for number, _ in packets} == {PACKET}
        for _, packet in packets:
            packet = dict(fields(packet))
            if INTERNED in packet:
                for number, entry in fields(packet[INTERNED]):
                    if number == 2:  # event_names
                        entry = dict(fields(entry))
                        interned[entry[1]] = entry[2].decode()
            if DESCRIPTOR in packet:
                descriptor = dict(fields(packet[DESCRIPTOR]))
                for number in (2, 10):
                    if number in descriptor:
                        self.names.append(descriptor[number].decode())
            if EVENT in packet:
                event = dict(fields(packet[EVENT]))
                track = event.get(11)
                if event.get(9) == BEGIN:
                    name = interned[event[10]] if 10 in event else event[23].decode()
                    self.slices.append(name)
                    depth[track] = depth.get(track, 0) + 1
                elif event.get(9) == END:
                    depth[track] = depth.get(track, 0) - 1
                    assert depth[track] >= 0
                elif event.get(9) == COUNTER:
                    self.counters.append(event.get(30))


def works():
    with fiberrt.trace_slice("outer ä"):
        fiberrt.sleep(0.001)
        with fiberrt.trace_slice("inner"):
            fiberrt.reschedule()


def test_a_trace(tmp_path):
    path = tmp_path / "trace"
    with fiberrt.trace(path) as trace:
        fibers = [fiberrt.spawn(works) for _ in range(10)]
        for fiber in fibers:
            fiber.join()
        fiberrt.trace_counter("things", 42_424)
        fiberrt.trace_counter("things", -1)
        assert trace.stats()["running"] is True
    found = Read(path)
    assert len([name for name in found.names if name.startswith("works")]) == 10
    assert found.slices.count("outer ä") == found.slices.count("inner") == 10
    assert found.slices.count("sleeps") >= 10
    assert 42_424 in found.counters and 2**64 - 1 in found.counters
    stats = trace.stats()
    assert stats["bytes"] == path.stat().st_size and stats["events"] > 50
    assert (stats["dropped"], stats["error"], stats["running"]) == (0, 0, False)


def test_places_of_waits(tmp_path):
    def waits():
        lock = fiberrt.Lock()
        lock.acquire()
        with pytest.raises(TimeoutError), fiberrt.fail_after(0.001):
            lock.acquire()
        with fiberrt.TaskGroup() as group:  # which waits in the package's own code
            group.spawn(works)

    def function_with_a_long_name():
        fiberrt.sleep(0)

    function_with_a_long_name.__code__ = function_with_a_long_name.__code__.replace(
        co_qualname="f" * 300 + "ä" * 100, co_filename="/folder/" + "g" * 300
    )
    with fiberrt.trace(tmp_path / "trace", places=True):
        fiberrt.spawn(works).join()
        fiberrt.spawn(waits).join()
        fiberrt.spawn(function_with_a_long_name).join()
    slices = Read(tmp_path / "trace").slices
    first = works.__code__.co_firstlineno
    for line in 2, 4:
        assert slices.count(f"works (test_traces.py:{first + line})") == 2
    name = "test_places_of_waits.<locals>.waits"
    first = waits.__code__.co_firstlineno
    assert f"{name} (test_traces.py:{first + 4})" in slices and f"{name} (test_traces.py:{first + 5})" in slices
    first = function_with_a_long_name.__code__.co_firstlineno
    assert f"...{'ä' * 62} (...{'g' * 96}:{first + 1})" in slices
    with fiberrt.trace(tmp_path / "other"):
        fiberrt.spawn(works).join()
    assert not [name for name in Read(tmp_path / "other").slices if "test_traces.py" in name]


def test_a_wait_that_begins_with_places_and_ends_without_them(tmp_path):
    """The end of the wait's slice is none in the later trace."""
    def waits():
        fiberrt.park()
        with fiberrt.trace_slice("mine"):
            fiberrt.reschedule()

    first = fiberrt.trace(tmp_path / "first", places=True)
    first.start()
    fiber = fiberrt.spawn(waits)
    fiberrt.reschedule()
    first.stop()
    with fiberrt.trace(tmp_path / "second"):
        fiber.wakeup()
        fiber.join()
    assert Read(tmp_path / "second").slices.count("mine") == 1


def test_a_trace_of_several_threads(tmp_path):
    with fiberrt.trace(os.fsencode(tmp_path / "trace.%p")):
        threads = [threading.Thread(target=lambda: fiberrt.spawn(works).join()) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = Read(tmp_path / f"trace.{os.getpid()}")
    assert found.slices.count("outer ä") == 4 and len([name for name in found.names if name.startswith("works")]) == 4


def test_a_trace_to_a_descriptor(tmp_path):
    with open(tmp_path / "trace", "wb") as file:
        trace = fiberrt.trace(file.fileno(), ring_events=64)
        trace.start()
        fiberrt.spawn(works).join()
        trace.stop()
    assert "inner" in Read(tmp_path / "trace").slices


def test_errors(tmp_path):
    trace = fiberrt.trace(tmp_path / "trace")
    with pytest.raises(RuntimeError, match="no trace"):
        trace.stop()
    with trace:
        with pytest.raises(RuntimeError, match="already"):
            fiberrt.trace(tmp_path / "other").start()
    with pytest.raises(FileNotFoundError):
        fiberrt.trace(tmp_path / "none" / "trace").start()
    with pytest.raises(OSError):
        fiberrt.trace(12345).start()
    for wrong in (1, 63, (1 << 24) + 1, 1 << 40):
        with pytest.raises(ValueError):
            fiberrt.trace(tmp_path / "trace", ring_events=wrong).start()
    for arguments in ((None,), (1.5,), (tmp_path, 1)):
        with pytest.raises(TypeError):
            fiberrt.trace(*arguments).start()
    with pytest.raises(OverflowError):
        fiberrt.trace(tmp_path / "trace", ring_events=-1).start()
    with pytest.raises(ValueError):
        fiberrt.trace("nul\0").start()
    with pytest.raises(TypeError):
        fiberrt.trace_counter(1, 2)
    with pytest.raises(OverflowError):
        fiberrt.trace_counter("big", 1 << 70)
    with pytest.raises(TypeError), fiberrt.trace_slice(None):
        pass
    with pytest.raises(UnicodeEncodeError), fiberrt.trace_slice("\ud800"):
        pass


def test_a_disk_that_is_full():
    trace = fiberrt.trace("/dev/full")
    trace.start()
    fiberrt.spawn(works).join()
    with pytest.raises(OSError) as failed:
        trace.stop()
    assert failed.value.errno == trace.stats()["error"] == 28


def test_an_exception_ends_the_slice_and_the_trace(tmp_path):
    with pytest.raises(KeyError), fiberrt.trace(tmp_path / "trace"), fiberrt.trace_slice("fails"):
        raise KeyError
    with fiberrt.trace(tmp_path / "trace"):
        pass
    assert "fails" not in Read(tmp_path / "trace").slices


def test_the_child_of_a_fork_leaves_the_block_of_a_trace(program, tmp_path):
    done = program(
        """
        import fiberrt, os, sys
        with fiberrt.trace(sys.argv[1], places=True) as trace:
            child = os.fork()
            with fiberrt.trace_slice("in both"):
                fiberrt.sleep(0)
            if child == 0:
                print(trace.stats()["running"], flush=True)
        if child == 0:
            with fiberrt.trace(sys.argv[1] + ".child"):
                fiberrt.spawn(fiberrt.sleep, 0).join()
            os._exit(0)
        print(os.waitpid(child, 0)[1])
        """,
        str(tmp_path / "trace"),
    )
    assert (done.code, done.out.splitlines(), done.err) == (0, ["False", "0"], "")
    assert Read(tmp_path / "trace").slices.count("in both") == 1
    assert "sleep #1" in Read(tmp_path / "trace.child").names


def test_a_greenlet_within_a_fiber(tmp_path):
    greenlet = pytest.importorskip("greenlet")

    def switches():
        greenlet.greenlet(slices).switch()

    def slices():
        with fiberrt.trace_slice("of a greenlet"):
            fiberrt.trace_counter("things", 4_711)

    with fiberrt.trace(tmp_path / "trace"):
        fiberrt.spawn(switches).join()
    found = Read(tmp_path / "trace")
    assert found.slices.count("of a greenlet") == 1 and 4_711 in found.counters


def test_a_signal_handler_while_the_thread_is_idle(program, tmp_path):
    """After the end of a fiber, the thread polls without one."""
    done = program(
        """
        import fiberrt, os, sys, threading
        from fiberrt import signal
        def handler(*_):
            with fiberrt.trace_slice("of a handler"):
                fiberrt.trace_counter("signals", 1)
            waits.wakeup()
        signal.signal(signal.SIGUSR1, handler)
        with fiberrt.trace(sys.argv[1]):
            waits = fiberrt.spawn(fiberrt.park)
            last = fiberrt.spawn(lambda: threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGUSR1]).start())
            waits.join()
        """,
        str(tmp_path / "trace"),
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    assert Read(tmp_path / "trace").slices.count("of a handler") == 1


def test_a_named_pipe_without_a_reader_keeps_no_other_thread(program, tmp_path):
    done = program(
        """
        import fiberrt, os, sys, threading
        os.mkfifo(sys.argv[1])
        def read():
            with open(sys.argv[1], "rb") as file:
                print(len(file.read()) > 0)
        reader = threading.Thread(target=read)
        trace = fiberrt.trace(sys.argv[1])
        threading.Timer(0.05, reader.start).start()  # start() waits for it
        with trace:
            fiberrt.sleep(0)
        reader.join()
        """,
        str(tmp_path / "pipe"),
    )
    assert (done.code, done.out, done.err) == (0, "True\n", "")


def test_a_signal_while_the_file_is_opened(program, tmp_path):
    """Python's own open() also goes on after a handler, or raises the handler's exception."""
    done = program(
        """
        import fiberrt, os, signal, sys, threading
        def handler(*_):
            signals.append(1)
            if len(signals) == 3:
                raise KeyError
        signals = []
        os.mkfifo(sys.argv[1])
        signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
            fiberrt.trace(sys.argv[1]).start()
        except KeyError:
            signal.setitimer(signal.ITIMER_REAL, 0)
            print("raised", fiberrt.trace.stats()["running"])
        """,
        str(tmp_path / "pipe"),
    )
    assert (done.code, done.out, done.err) == (0, "raised False\n", "")


def test_without_a_trace():
    with fiberrt.trace_slice("nothing"):
        fiberrt.trace_counter("nothing", 1)


def test_a_trace_of_a_whole_program(program, monkeypatch, tmp_path):
    monkeypatch.setenv("FIBERRT_TRACE", str(tmp_path / "%p.trace"))
    done = program(
        """
        import fiberrt
        def serves(): fiberrt.sleep(0.001)
        with fiberrt.TaskGroup() as group:
            for _ in range(3): group.spawn(serves)
        """
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    (path,) = tmp_path.iterdir()
    assert re.fullmatch(r"\d+\.trace", path.name)
    found = Read(path)
    assert len([name for name in found.names if name.startswith("serves")]) == 3
    assert [name for name in found.names if name.startswith("main")]
