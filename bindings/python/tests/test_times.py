# SPDX-License-Identifier: MIT OR Apache-2.0
"""Accounting: for how long fibers and threads run and wait."""

import functools
import json
import os
import threading
import time

import fiberrt
import pytest
from fiberrt import _fiberrt
from fiberrt.compat import gevent
from fiberrt.server import StreamServer

# Accounting and the tests measure by different clocks: the rate of the processor's counter is itself measured.
SURELY = 0.9


@pytest.fixture
def accounting():
    """The time at which accounting was turned on, by time.monotonic()."""
    begun = time.monotonic()
    fiberrt.accounting(True)
    yield begun
    fiberrt.accounting(False)


def name_in_the_library(fiber):
    dump = json.loads(_fiberrt.core_text(4))
    (name,) = [each["name"] for each in dump["fibers"] if each["id"] == str(_fiberrt.id_of(fiber))]
    return name


def spin(seconds):
    """Runs until the thread has computed for so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def adds_up(times):
    assert times.wait == pytest.approx(sum(times.waits))
    assert min(times.run, times.runnable, *times.waits) >= 0


def test_run_and_wait_times(accounting):
    def works():
        spin(0.05)
        fiberrt.sleep(0.1)
        spin(0.05)

    begun = time.monotonic()
    fiber = fiberrt.spawn(works)
    fiber.join()
    took = time.monotonic() - begun
    times = fiberrt.times(fiber)
    adds_up(times)
    assert times.fibers == 1 and times.turns >= 2
    assert times.run >= 0.1 * SURELY and times.waits.time >= 0.1 * SURELY
    assert times.run + times.runnable + times.wait <= took / SURELY
    assert times.waits._replace(time=0) == (0,) * 8


def test_a_fiber_that_could_run_is_runnable_meanwhile(accounting):
    first, second = fiberrt.spawn(spin, 0.05), fiberrt.spawn(spin, 0.05)
    second.join()
    assert fiberrt.times(first).runnable < fiberrt.times(second).runnable
    assert fiberrt.times(second).runnable >= 0.05 * SURELY and fiberrt.times(second).wait == 0


def test_waits_by_reasons(accounting):
    lock, queue, channel, event = fiberrt.Lock(), fiberrt.Queue(), fiberrt.Channel(0), fiberrt.Event()
    here, there = fiberrt.socket.socketpair()
    lock.acquire()
    waits = {
        "time": lambda: fiberrt.sleep(0.01),
        "io": lambda: here.recv(1),
        "lock": lambda: (lock.acquire(), queue.get(), event.wait()),
        "channel": lambda: channel.receive(),
        "wakeup": fiberrt.park,
        "other": lambda: fiberrt.offload(time.sleep, 0.01),
    }
    fibers = {kind: fiberrt.spawn(function) for kind, function in waits.items()}
    for each in fibers:
        now = fiberrt.times(fibers[each])  # also of fibers that still wait
        while getattr(now.waits, each) < 0.005:
            fiberrt.sleep(0.001)
            now = fiberrt.times(fibers[each])
        adds_up(now)
        assert getattr(now.waits, each) == now.wait
    there.send(b"x")
    lock.release()
    queue.put(1)
    event.set()
    channel.send(1)
    fibers["wakeup"].wakeup()
    for each, fiber in fibers.items():
        fiber.result()
        assert getattr(fiberrt.times(fiber).waits, each) == fiberrt.times(fiber).wait > 0
    here.close()
    there.close()


def test_times_of_the_caller_grow(accounting):
    before = fiberrt.times()
    spin(0.02)
    after = fiberrt.times(fiberrt.current())
    assert after.run >= before.run + 0.02 * SURELY and after.turns == before.turns


def test_times_stay_after_the_end(accounting):
    fiber = fiberrt.spawn(spin, 0.01)
    fiber.join()
    first = fiberrt.times(fiber)
    fiberrt.sleep(0.01)
    fiberrt.spawn(spin, 0.01).join()
    assert fiberrt.times(fiber) == first and first.run >= 0.01 * SURELY


def test_times_of_a_fiber_that_has_failed_or_was_cancelled(accounting):
    def fails():
        spin(0.01)
        raise ValueError

    fiber = fiberrt.spawn(fails)
    fiber.join()
    assert fiberrt.times(fiber).run >= 0.01 * SURELY
    fiber = fiberrt.spawn(fiberrt.sleep, 600)
    fiberrt.reschedule()
    fiber.cancel()
    fiber.join()
    assert fiberrt.times(fiber).waits.time > 0
    fiber = fiberrt.spawn(spin, 600)
    fiber.cancel()
    fiber.join()
    assert fiberrt.times(fiber).wait == 0


def test_times_of_another_thread(accounting):
    def thread():
        fibers.append(fiberrt.spawn(lambda: (spin(0.03), over.wait())))
        fibers[0].join()

    fibers, over = [], fiberrt.Event()
    other = threading.Thread(target=thread)
    other.start()
    while not fibers or fiberrt.thread_times(other).slices.longest < 0.03 * SURELY:  # a slice counts when it is over
        fiberrt.sleep(0.001)
    found = fiberrt.thread_times(other)
    assert found.run >= 0.03 * SURELY and found.slices.count >= 1
    assert found.elapsed == pytest.approx(found.run + found.poll + found.sleep)
    over.set()
    other.join()
    with pytest.raises(ValueError, match="no fibers"):
        fiberrt.thread_times(other)


def test_times_of_the_thread(accounting):
    fiberrt.sleep(0.03)
    fiberrt.spawn(spin, 0.02).join()
    times = fiberrt.thread_times()
    took = time.monotonic() - accounting
    assert times == fiberrt.thread_times(threading.current_thread())._replace(
        elapsed=times.elapsed, run=times.run, poll=times.poll
    )
    assert times.run >= 0.02 * SURELY and times.sleep > 0 and times.elapsed <= took / SURELY
    for spread in times.slices, times.lags, times.polls:
        assert spread.count > 0
        assert 0 <= spread.p50 <= spread.p90 <= spread.p99 <= spread.p999 <= spread.longest


def test_sums_by_names(accounting):
    class Server:
        def handle(self):
            spin(0.001)

    def with_a_name():
        fiberrt.current().name = "mine"
        spin(0.001)

    class Calls:
        def __call__(self):
            pass

    server = Server()
    fibers = [fiberrt.spawn(server.handle) for _ in range(5)] + [fiberrt.spawn(with_a_name)]
    fibers += [fiberrt.spawn(len, ""), fiberrt.spawn(functools.partial(functools.partial(spin), 0.001))]
    fibers += [fiberrt.spawn(Calls), fiberrt.spawn(Calls())]
    waits = fiberrt.spawn(fiberrt.sleep, 600)
    for fiber in fibers:
        fiber.join()
    sums = fiberrt.times_by_name()
    waits.cancel()
    waits.join()
    name = "..." + "test_sums_by_names.<locals>.Server.handle"[-28:]
    assert sums[name].fibers == 5 and sums[name].run >= 0.005 * SURELY
    assert sums[name].run >= sum(fiberrt.times(fiber).run for fiber in fibers[:5]) - 1e-7
    assert sums["mine"].fibers == 1 and sums["len"].fibers == 1 and sums["spin"].fibers == 1
    assert sums["Calls"].fibers == 2
    assert sums["sleep"].fibers == 1 and sums["sleep"].waits.time > 0
    assert sums["main"].fibers >= 1
    assert list(sums) == sorted(sums, key=lambda each: -sums[each].run) or None in sums
    for each in sums.values():
        adds_up(each)


def to_be_named(*_):
    pass


def test_fibers_of_the_package_s_classes_are_named_after_the_program_s_functions(accounting):
    with fiberrt.TaskGroup() as group:
        group.spawn(to_be_named)
    assert fiberrt.times_by_name()["to_be_named"].fibers == 1
    assert list(fiberrt.map(to_be_named, range(3), limit=2)) == [None] * 3
    assert fiberrt.times_by_name()["to_be_named"].fibers == 4
    with fiberrt.FiberExecutor(2) as executor:
        executor.submit(to_be_named).result()
    assert fiberrt.times_by_name()["to_be_named"].fibers == 5
    with StreamServer(("127.0.0.1", 0), to_be_named) as server:
        with fiberrt.socket.create_connection(server.address) as client:
            assert client.recv(1) == b""  # the server has closed it
    assert fiberrt.times_by_name()["to_be_named"].fibers == 6
    gevent.spawn(to_be_named).join()
    assert fiberrt.times_by_name()["to_be_named"].fibers == 7
    gevent.spawn_raw(to_be_named)
    while fiberrt.times_by_name()["to_be_named"].fibers < 8:
        fiberrt.reschedule()
    with pytest.raises(TypeError):
        _fiberrt.calls_argument(len, 0)
    with pytest.raises(ValueError):
        _fiberrt.calls_argument(to_be_named, -1)


def test_fibers_are_named_only_while_that_is_of_use(tmp_path):
    before = fiberrt.spawn(fiberrt.park)
    assert name_in_the_library(before) == ""
    fiberrt.accounting(True)
    meanwhile = fiberrt.spawn(fiberrt.park)
    assert name_in_the_library(before) == name_in_the_library(meanwhile) == "park"
    with fiberrt.trace(tmp_path / "trace"):
        fiberrt.accounting(False)
        also = fiberrt.spawn(fiberrt.park)
        assert name_in_the_library(also) == "park"
    after = fiberrt.spawn(fiberrt.park)
    assert name_in_the_library(after) == ""
    for fiber in before, meanwhile, also, after:
        fiber.cancel()
        fiber.join()


def test_names_that_are_cut_within_a_character_are_one(accounting):
    """The library keeps 31 bytes of a name that the program has set."""
    for last in "äö":  # two bytes each; the second one is cut off
        fiber = fiberrt.spawn(to_be_named)
        fiber.name = "x" * 30 + last
        fiber.join()
    fiber = fiberrt.spawn(to_be_named)
    fiber.name = "x" * 30 + "\N{REPLACEMENT CHARACTER}"
    fiber.join()
    sums = fiberrt.times_by_name()
    assert sums["x" * 30 + "\N{REPLACEMENT CHARACTER}"].fibers == 3 and len(sums) == len(set(sums))


def test_a_name_is_cut_between_characters(accounting):
    for length in range(12):
        function = eval("lambda: None")
        function.__qualname__ = "é" * 20 + "x" * length
        fiberrt.spawn(function).join()
    names = [name for name in fiberrt.times_by_name() if name and "é" in name]
    assert len(names) == 12 and not any("\ufffd" in name for name in names)
    assert all(name.startswith("...") and len(name.encode()) in (30, 31) for name in names)


def test_without_accounting():
    fiber = fiberrt.spawn(fiberrt.sleep, 0)
    for call in (fiberrt.times, lambda: fiberrt.times(fiber), fiberrt.thread_times, fiberrt.times_by_name):
        with pytest.raises(RuntimeError, match="accounting is off"):
            call()
    fiber.join()
    with pytest.raises(RuntimeError, match="ended while accounting was off"):
        fiberrt.times(fiber)
    fiberrt.accounting(False)  # it is off already


def test_arguments(accounting):
    fiberrt.accounting(True)  # it is on already
    with pytest.raises(TypeError):
        fiberrt.times(1)
    with pytest.raises(ValueError, match="no fibers"):
        fiberrt.thread_times(threading.Thread())
    for ident in (-1, "x", None, 1 << 70):
        with pytest.raises((TypeError, OverflowError)):
            _fiberrt.thread_times(ident)
    assert _fiberrt.thread_times(1) is None


def test_accounting_begins_anew():
    def works():
        for _ in range(10):
            fiberrt.sleep(0)
        fiberrt.park()

    fiberrt.accounting()
    fiber = fiberrt.spawn(works)
    while fiberrt.times(fiber).waits.wakeup == 0:
        fiberrt.sleep(0.001)
    assert fiberrt.times(fiber).turns >= 10
    fiberrt.accounting(False)
    fiberrt.accounting(True)
    assert fiberrt.times(fiber).turns == 0
    fiber.wakeup()
    fiber.join()
    fiberrt.accounting(False)
    assert fiberrt.times(fiber).turns == 1


def test_accounting_from_the_start(program, monkeypatch):
    monkeypatch.setenv("FIBERRT_ACCOUNTING", "1")
    done = program(
        """
        import fiberrt, os
        def work(): fiberrt.sleep(0.01)
        fiber = fiberrt.spawn(work)
        fiber.join()
        sums = fiberrt.times_by_name()
        print(fiberrt.times(fiber).waits.time > 0, sums["work"].fibers, "main" in sums)
        if os.fork() == 0:
            fiber = fiberrt.spawn(work)
            fiber.join()
            print(fiberrt.times(fiber).waits.time > 0, fiberrt.times_by_name()["work"].fibers, flush=True)
            os._exit(0)
        os.wait()
        """
    )
    assert (done.code, sorted(done.out.splitlines()), done.err) == (0, ["True 1", "True 1 True"], "")


def test_times_of_a_main_flow_stay_after_the_thread(accounting):
    def thread():
        fibers.append(fiberrt.current())
        spin(0.01)
        fiberrt.sleep(0.001)

    fibers = []
    other = threading.Thread(target=thread)
    other.start()
    other.join()
    times = fiberrt.times(fibers[0])
    assert times.run >= 0.01 * SURELY and times.waits.time > 0


def test_a_fiber_ends_before_its_thread_has_noticed_accounting():
    def keeps_the_thread():
        begun.set()
        while not ends:
            time.sleep(0.001)

    def thread():
        fibers.append(fiberrt.spawn(keeps_the_thread))
        fibers[0].join()

    fibers, ends, begun = [], [], threading.Event()
    other = threading.Thread(target=thread)
    other.start()
    begun.wait()
    fiberrt.accounting(True)
    ends.append(True)
    other.join()
    times = fiberrt.times(fibers[0])
    fiberrt.accounting(False)
    assert (times.turns, times.run) == (0, 0)


def test_a_fiber_that_a_fork_has_lost_has_no_times(program):
    done = program(
        """
        import fiberrt, os
        fiberrt.accounting()
        fiber = fiberrt.spawn(fiberrt.park)
        fiberrt.reschedule()
        if os.fork() == 0:
            try:
                fiberrt.times(fiber)
            except RuntimeError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
        fiber.wakeup()
        fiber.join()
        print(fiberrt.times(fiber).waits.wakeup > 0)
        """
    )
    lost = "the fiber has no times: it ended while accounting was off, or was lost"
    assert (done.code, done.out.splitlines(), done.err) == (0, [lost, "True"], "")
