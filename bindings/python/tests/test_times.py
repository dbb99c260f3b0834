# SPDX-License-Identifier: MIT OR Apache-2.0
"""Accounting: for how long fibers and threads run and wait."""

import functools
import threading
import time

import fiberrt
import pytest
from fiberrt import _fiberrt


@pytest.fixture
def accounting():
    fiberrt.accounting(True)
    yield
    fiberrt.accounting(False)


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

    fiber = fiberrt.spawn(works)
    begun = time.monotonic()
    fiber.join()
    took = time.monotonic() - begun
    times = fiberrt.times(fiber)
    adds_up(times)
    assert times.fibers == 1 and times.turns >= 2
    assert 0.1 <= times.run <= took and times.waits.time >= 0.0999
    assert times.run + times.runnable + times.wait <= took + 0.001
    assert times.waits._replace(time=0) == (0,) * 8


def test_a_fiber_that_could_run_is_runnable_meanwhile(accounting):
    first, second = fiberrt.spawn(spin, 0.05), fiberrt.spawn(spin, 0.05)
    second.join()
    assert fiberrt.times(first).runnable < fiberrt.times(second).runnable
    assert fiberrt.times(second).runnable >= 0.05 and fiberrt.times(second).wait == 0


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
    fiberrt.sleep(0.02)
    for each in fibers:
        now = fiberrt.times(fibers[each])  # also of fibers that still wait
        adds_up(now)
        assert getattr(now.waits, each) >= 0.005 and getattr(now.waits, each) == now.wait
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
    assert after.run >= before.run + 0.02 and after.turns == before.turns


def test_times_stay_after_the_end(accounting):
    fiber = fiberrt.spawn(spin, 0.01)
    fiber.join()
    first = fiberrt.times(fiber)
    fiberrt.sleep(0.01)
    fiberrt.spawn(spin, 0.01).join()
    assert fiberrt.times(fiber) == first and first.run >= 0.01


def test_times_of_a_fiber_that_has_failed_or_was_cancelled(accounting):
    def fails():
        spin(0.01)
        raise ValueError

    fiber = fiberrt.spawn(fails)
    fiber.join()
    assert fiberrt.times(fiber).run >= 0.01
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
    while not fibers or fiberrt.thread_times(other).slices.longest < 0.03:  # a slice counts when it is over
        fiberrt.sleep(0.001)
    found = fiberrt.thread_times(other)
    assert found.run >= 0.03 and found.slices.longest >= 0.03 and found.slices.count >= 1
    assert found.elapsed == pytest.approx(found.run + found.poll + found.sleep)
    over.set()
    other.join()
    with pytest.raises(ValueError, match="no fibers"):
        fiberrt.thread_times(other)


def test_times_of_the_thread(accounting):
    begun = time.monotonic()
    fiberrt.sleep(0.03)
    fiberrt.spawn(spin, 0.02).join()
    times = fiberrt.thread_times()
    assert times == fiberrt.thread_times(threading.current_thread())._replace(
        elapsed=times.elapsed, run=times.run, poll=times.poll
    )
    assert times.sleep >= 0.025 and times.run >= 0.02 and times.elapsed <= time.monotonic() - begun + 1
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

    def function_with_a_name_that_the_library_has_no_room_for():
        pass

    server = Server()
    fibers = [fiberrt.spawn(server.handle) for _ in range(5)] + [fiberrt.spawn(with_a_name)]
    fibers += [fiberrt.spawn(len, ""), fiberrt.spawn(functools.partial(spin, 0.001))]
    fibers += [fiberrt.spawn(function_with_a_name_that_the_library_has_no_room_for)]
    waits = fiberrt.spawn(fiberrt.sleep, 600)
    for fiber in fibers:
        fiber.join()
    sums = fiberrt.times_by_name()
    name = ("..." + "test_sums_by_names.<locals>.Server.handle"[-28:])
    assert sums[name].fibers == 5 and sums[name].run >= 0.005
    assert sums[name].run == pytest.approx(sum(fiberrt.times(fiber).run for fiber in fibers[:5]), rel=0.5)
    assert sums["mine"].fibers == 1 and sums["len"].fibers == 1 and sums["functools.partial"].fibers == 1
    assert sums["sleep"].fibers == 1 and sums["sleep"].waits.time > 0
    assert sums["...at_the_library_has_no_room_for"].fibers == 1
    assert sums["main"].fibers >= 1
    assert list(sums) == sorted(sums, key=lambda each: -sums[each].run) or None in sums
    for each in sums.values():
        adds_up(each)
    waits.cancel()
    waits.join()


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
    fiberrt.accounting()
    fiber = fiberrt.spawn(lambda: (spin(0.02), fiberrt.park()))
    fiberrt.reschedule()
    assert fiberrt.times(fiber).run >= 0.02
    fiberrt.accounting(False)
    fiberrt.accounting(True)
    assert fiberrt.times(fiber).run < 0.02
    fiber.wakeup()
    fiber.join()
    fiberrt.accounting(False)
    assert fiberrt.times(fiber).run < 0.02


def test_accounting_from_the_start(program, monkeypatch):
    monkeypatch.setenv("FIBERRT_ACCOUNTING", "1")
    done = program(
        """
        import fiberrt, os
        def work(): fiberrt.sleep(0.01)
        fiber = fiberrt.spawn(work)
        fiber.join()
        print(fiberrt.times(fiber).waits.time > 0, fiberrt.times_by_name()["work"].fibers, "main" in fiberrt.times_by_name())
        if os.fork() == 0:
            fiber = fiberrt.spawn(work)
            fiber.join()
            print(fiberrt.times(fiber).waits.time > 0, fiberrt.times_by_name()["work"].fibers, flush=True)
            os._exit(0)
        os.wait()
        """
    )
    assert (done.code, sorted(done.out.splitlines()), done.err) == (0, ["True 1", "True 1 True"], "")
