# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lock, RLock, Semaphore, Event and Condition behave like those of threading, are fair, and a cancel loses nothing."""

import gc
import re
import threading
import weakref

import pytest

import fiberrt
from fiberrt import _fiberrt
from fiberrt import BoundedSemaphore, CancelledError, Condition, Event, Lock, RLock, Semaphore


def until(condition):
    with fiberrt.fail_after(60):
        while not condition():
            fiberrt.sleep(0.001)


def waiting(fiber):
    until(lambda: fiber.state == "waiting" and fiber.waits_for != "preempted")  # a simulation preempts
    return fiber


def in_thread(function, *args):
    """A thread without fibers; join() raises its exception."""
    raised = []

    def run():
        try:
            function(*args)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def join():
        until(lambda: not thread.is_alive())
        if raised:
            raise raised[0]

    return join


@pytest.mark.parametrize("kind", [Lock, RLock, Semaphore, BoundedSemaphore, Condition])
def test_fibers_get_it_in_their_order(kind):
    lock, order = kind(), []

    def f(i):
        with lock:
            order.append(i)
            fiberrt.reschedule()

    with lock:
        fibers = [waiting(fiberrt.spawn(f, i)) for i in range(10)]
    for fiber in fibers:
        fiber.result()
    assert order == list(range(10))


@pytest.mark.parametrize("kind", [Lock, RLock, Semaphore, BoundedSemaphore])
def test_a_cancelled_waiter_takes_nothing_and_blocks_no_other_waiter(kind):
    lock, got = kind(), []

    def f(i):
        with lock:
            got.append(i)

    lock.acquire()
    fibers = [waiting(fiberrt.spawn(f, i)) for i in range(3)]
    fibers[0].cancel()
    lock.release()  # whether or not the first has seen its cancel already, the others get the lock
    fibers[1].cancel()
    for fiber in fibers:
        fiber.join()
    assert 2 in got and 0 not in got
    assert lock.acquire(False)
    lock.release()


@pytest.mark.parametrize("kind", [Lock, RLock])
def test_times_and_bad_arguments_of_locks(kind):
    lock = kind()
    real = threading.Lock()
    for args, error in [((False, 1), ValueError), ((True, -2), ValueError), ((True, "x"), TypeError),
                        ((True, None), TypeError), ((1, 2, 3), TypeError)]:
        with pytest.raises(error):
            real.acquire(*args)
        with pytest.raises(error):
            lock.acquire(*args)
    with pytest.raises(TypeError):
        lock.acquire(wait=True)
    with pytest.raises(TypeError):
        lock.acquire(True, blocking=True)
    with pytest.raises(TypeError):
        kind(1)
    with pytest.raises(RuntimeError):
        lock.release()
    assert lock.acquire(timeout=0) and lock.locked()
    results = fiberrt.spawn(lambda: (lock.acquire(False), lock.acquire(timeout=0), lock.acquire(timeout=0.01))).result()
    assert results == (False, False, False)
    assert fiberrt.spawn(lock.acquire, False, -1).result() is False
    lock.release()
    assert not lock.locked() and "unlocked" in repr(lock)


THREADINGS = {Lock: threading.Lock, RLock: threading.RLock, Semaphore: threading.Semaphore, Event: threading.Event}
THREADINGS |= {BoundedSemaphore: threading.BoundedSemaphore, Condition: threading.Condition}


def shape(thing):
    """Its repr(), without what differs between two objects and between the modules."""
    text = re.sub("0x[0-9a-f]+|owner=[1-9][0-9]*", "N", repr(thing))
    text = re.sub("Condition\\((<.*>), ([0-9]+)\\)", r"Condition(\1, \2 waiting)", text)
    return re.sub("(fiberrt|threading|_thread)\\.", "", text).replace("lock object", "Lock object")


def test_reprs_match_threading():
    def change(kind):
        thing = kind()
        yield thing
        if isinstance(thing, (Event, threading.Event)):
            thing.set()
        else:
            thing.acquire()
        yield thing
        if isinstance(thing, (RLock, type(threading.RLock()), Condition, threading.Condition)):
            thing.acquire()
            thing.release()
        if isinstance(thing, (Semaphore, threading.Semaphore)):
            thing.release()
            yield kind(5)

    for own, other in THREADINGS.items():
        for ours, theirs in zip(change(own), change(other), strict=True):
            assert shape(ours) == shape(theirs)

    class Sub(BoundedSemaphore):
        pass

    assert re.fullmatch(r"<test_locks\.test_reprs.*\.Sub at 0x[0-9a-f]+: value=2/2>", repr(Sub(2)))
    assert re.fullmatch(r"<unlocked fiberrt\.Lock object at 0x[0-9a-f]+>", repr(Lock()))


def test_the_repr_of_an_rlock_names_its_owner():
    lock, ids = RLock(), []

    def keep():
        lock.acquire()
        ids.extend((threading.get_ident(), repr(lock)))

    in_thread(keep)()
    assert f"owner={ids[0]} count=1 " in ids[1] == repr(lock)
    lock._at_fork_reinit()
    assert "<unlocked fiberrt.RLock object owner=0 count=0 " in repr(lock)

    def take():
        lock.acquire()
        assert lock.acquire() and f"<locked fiberrt.RLock object owner={_fiberrt.ident()} count=2 " in repr(lock)
        lock.release()
        lock.release()

    fiberrt.spawn(take).result()
    assert "<unlocked fiberrt.RLock object owner=0 count=0 " in repr(lock)


def test_any_fiber_or_thread_may_release_a_lock_and_only_the_owner_an_rlock():
    lock, rlock = Lock(), RLock()
    lock.acquire()
    in_thread(lock.release)()
    lock.acquire()
    fiberrt.spawn(lock.release).result()
    assert not lock.locked()
    rlock.acquire()
    for release in (fiberrt.spawn(rlock.release).result, in_thread(rlock.release)):
        with pytest.raises(RuntimeError):
            release()
    assert rlock.acquire() and rlock._is_owned() and rlock._recursion_count() == 2
    assert not fiberrt.spawn(rlock._is_owned).result()
    rlock.release()
    assert rlock.locked()
    rlock.release()
    assert not rlock.locked()
    with pytest.raises(RuntimeError):
        rlock._acquire_restore(0)


def test_an_rlock_taken_before_the_thread_has_fibers_is_still_its_main_flows():
    lock = RLock()

    def f():
        lock.acquire()
        assert fiberrt.spawn(lock.acquire, False).result() is False  # now the thread has fibers
        assert lock._is_owned()
        lock.release()

    in_thread(f)()
    assert not lock.locked()


def test_threads_and_fibers_exclude_one_another():
    lock, counter = Lock(), [0]

    def add(pause):
        for _ in range(100):
            with lock:
                before = counter[0]
                pause()
                counter[0] = before + 1

    joins = [in_thread(add, lambda: None) for _ in range(3)]
    fibers = [fiberrt.spawn(add, fiberrt.reschedule) for _ in range(5)]
    for fiber in fibers:
        fiber.result()
    for join in joins:
        join()
    assert counter == [800]


def test_a_waiting_thread_lets_others_run_and_its_main_flow_waits_as_a_fiber():
    lock, seen = Lock(), []
    lock.acquire()

    def f():
        other = fiberrt.spawn(seen.append, "ran meanwhile")
        with lock:
            seen.append("got")
        other.result()

    join = in_thread(f)
    until(lambda: seen)
    assert seen == ["ran meanwhile"]
    lock.release()
    join()
    assert seen == ["ran meanwhile", "got"]


def test_semaphores():
    with pytest.raises(ValueError):
        Semaphore(-1)
    with pytest.raises(TypeError):
        Semaphore("x")
    semaphore = Semaphore(2)
    assert semaphore.acquire() and semaphore.acquire(timeout=0) and not semaphore.acquire(False)
    assert not semaphore.acquire(timeout=-1)  # as in threading
    assert not semaphore.acquire(timeout=0.01)
    with pytest.raises(ValueError):
        semaphore.acquire(False, 1)
    with pytest.raises(ValueError):
        semaphore.acquire(timeout=float("nan"))
    for n, error in [(0, ValueError), (-1, ValueError), ("x", TypeError), (1 << 80, OverflowError)]:
        with pytest.raises(error):
            semaphore.release(n)
    semaphore.release(3)
    assert semaphore._value == 3
    with pytest.raises(ValueError):
        semaphore.release((1 << 63) - 1)
    bounded = BoundedSemaphore(2)
    assert isinstance(bounded, Semaphore)
    with pytest.raises(ValueError):
        bounded.release()
    with bounded:
        with pytest.raises(ValueError):
            bounded.release(2)
    assert bounded._value == 2


def test_events():
    event = Event()
    assert not event.is_set() and not event.wait(0) and not event.wait(-1) and not event.wait(timeout=0.01)
    fibers = [waiting(fiberrt.spawn(event.wait)) for _ in range(3)]
    join = in_thread(event.wait)
    cancelled = waiting(fiberrt.spawn(event.wait, 60))
    cancelled.cancel()
    cancelled.join()
    assert cancelled.cancelled
    event.set()
    assert all(fiber.result() is True for fiber in fibers)
    join()
    assert event.is_set() and event.wait(0) and event.wait()
    event.clear()
    assert not event.is_set() and "unset" in repr(event)
    with pytest.raises(TypeError):
        event.wait("x")


@pytest.mark.parametrize("lock", [None, Lock, RLock, threading.Lock, threading.RLock])
def test_conditions(lock):
    condition = Condition(lock and lock())
    for call in (condition.wait, condition.notify, condition.notify_all):
        with pytest.raises(RuntimeError):
            call()
    if lock in (threading.Lock, threading.RLock):  # these would block the thread
        return
    got, ready = [], []

    def f(i):
        with condition:
            got.append((i, condition.wait_for(lambda: ready, 60)))

    fibers = [waiting(fiberrt.spawn(f, i)) for i in range(4)]
    join = in_thread(f, 4)
    until(lambda: len(condition._waiters) == 5)
    with condition:
        assert condition.wait(0.01) is False and condition.wait(-1) is False
        assert condition.wait_for(lambda: 0, 0.01) == 0
        ready.append(1)
        condition.notify(2)
    fibers[0].result(), fibers[1].result()
    assert sorted(got) == [(0, [1]), (1, [1])]
    with condition:
        condition.notify_all()
    fibers[2].result(), fibers[3].result(), join()
    assert len(got) == 5 and not condition._waiters


def test_a_condition_releases_and_restores_a_lock_taken_twice():
    condition = Condition()

    def f():
        with condition, condition:
            condition.wait()
            return condition._lock._recursion_count()

    fiber = waiting(fiberrt.spawn(f))
    with condition:
        condition.notify()
    assert fiber.result() == 2


def test_a_cancelled_waiter_of_a_condition_holds_the_lock_and_hands_its_notify_on():
    condition, held = Condition(Lock()), []

    def f():
        with condition:
            try:
                condition.wait()
            except CancelledError:
                held.append(condition._lock.locked())
                raise

    first, second = waiting(fiberrt.spawn(f)), waiting(fiberrt.spawn(f))
    with condition:
        first.cancel()  # it gets the cancel, and waits for the lock
        fiberrt.reschedule()
        condition.notify()
        fiberrt.reschedule()
        assert held == []
    first.join()
    assert first.cancelled and held == [True]
    assert second.result(60) is None
    assert not condition._lock.locked() and not condition._waiters


def test_a_throw_while_a_condition_retakes_its_lock_comes_later():
    condition = Condition(Lock())

    def f():
        with condition:
            condition.wait()
            assert condition._lock.locked()
            fiberrt.sleep(60)

    fiber = waiting(fiberrt.spawn(f))
    with condition:
        condition.notify()
        fiberrt.reschedule()
        fiber.throw(KeyError("later"))
        fiberrt.reschedule()
        assert not fiber.done
    with pytest.raises(KeyError, match="later"):
        fiber.result(60)
    assert not condition._lock.locked()


def test_they_are_freed_and_can_be_subclassed_and_weakly_referenced():
    class Own(RLock):
        def __init__(self, x):
            self.x = x

    own = Own(3)
    own.me = own
    references = [weakref.ref(own)] + [weakref.ref(kind()) for kind in (Lock, RLock, Semaphore, Event, Condition)]
    assert own.x == 3 and own.acquire()
    del own
    gc.collect()
    assert [reference() for reference in references] == [None] * 6


def test_before_any_fiber_and_at_exit(lines):
    assert lines(
        """
        import atexit, threading, fiberrt
        lock, rlock, event = fiberrt.Lock(), fiberrt.RLock(), fiberrt.Event()
        with lock, rlock: print("taken")
        assert fiberrt._fiberrt.stats is not None
        class Last:
            def __del__(self):
                with lock, rlock: print("at the very end")
        last = Last()
        lock.acquire()
        stuck = threading.Thread(target=lock.acquire, daemon=True)  # lives on, and holds no lock
        stuck.start()
        while fiberrt.spawn(int).result(): pass
        fiberrt.sleep(0.05)
        lock.release()
        fiberrt.sleep(0.05)
        lock = fiberrt.Lock()
        threading.Thread(target=event.wait, daemon=True).start()
        """
    ) == ["taken", "at the very end"]


def test_in_the_child_of_a_fork_locks_can_be_made_new(lines):
    assert lines(
        """
        import os, threading, warnings, fiberrt
        warnings.simplefilter('ignore', DeprecationWarning)  # a fork while there are threads
        lock, rlock, theirs = fiberrt.Lock(), fiberrt.RLock(), fiberrt.Lock()
        held = threading.Event()
        go = threading.Event()
        def other():
            with theirs, rlock:
                held.set()
                go.wait(60)
        thread = threading.Thread(target=other)
        thread.start()
        held.wait(60)
        lock.acquire()
        waiter = fiberrt.spawn(lock.acquire)
        fiberrt.sleep(0.01)
        pid = os.fork()
        if pid == 0:
            assert lock.locked() and rlock.locked() and theirs.locked()
            assert not rlock.acquire(False)
            for each in (lock, rlock, theirs):
                each._at_fork_reinit()
                assert not each.locked()
                with each: pass
                fiberrt.spawn(each.__enter__).result()
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        lock.release()
        print(waiter.result(60))
        go.set()
        thread.join()
        """
    ) == ["7", "True"]


def test_ctrl_c_ends_the_main_flows_wait_for_a_lock(program):
    done = program(
        """
        import os, signal, threading, fiberrt
        lock = fiberrt.Lock()
        lock.acquire()
        presser = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        try:
            presser.start()
            lock.acquire()
        except KeyboardInterrupt:
            print("interrupted", lock.locked())
        lock.release()
        print(lock.acquire(False))
        """
    )
    assert done.code == 0, done.err
    assert done.out.splitlines() == ["interrupted True", "True"]


def test_no_references_leak():
    lock, condition, event = RLock(), Condition(), Event()
    event.set()

    def work():
        for _ in range(100):
            with lock, condition, Semaphore(1):
                event.wait(1)
                condition.wait(0)
            lock.acquire(timeout=0.5)
            lock.release()

    work()
    gc.collect()
    before = len(gc.get_objects())
    work()
    gc.collect()
    assert len(gc.get_objects()) <= before + 10


@pytest.mark.parametrize("kind", [fiberrt.Lock, fiberrt.RLock, threading.Lock, threading.RLock])
def test_a_timeout_beyond_the_longest_wait_of_locks(kind):
    assert kind().acquire(timeout=9e9)
    for much in (1e10, 1e300, float("inf")):
        with pytest.raises(OverflowError):
            kind().acquire(timeout=much)


def test_subclasses_call_init_with_their_own_arguments_and_have_attributes():
    class Named(fiberrt.Semaphore):
        def __init__(self, name, value, **more):
            super().__init__(value)
            self.name, self.more = name, more

    class NamedBounded(fiberrt.BoundedSemaphore):
        def __init__(self, name, value):
            fiberrt.BoundedSemaphore.__init__(self, value=value)
            self.name = name

    class Silent(fiberrt.Semaphore):
        def __init__(self, anything):
            pass

    class Counting(fiberrt.Event):
        def __init__(self, start):
            super().__init__()
            self.count = start

        def set(self):
            self.count += 1
            super().set()

    class NamedLock(fiberrt.Lock):
        def __init__(self, name):
            super().__init__()
            self.name = name

    class NamedCondition(fiberrt.Condition):
        def __init__(self, name, lock=None):
            super().__init__(lock)
            self.name = name

    semaphore = Named("x", 3, y=1)
    assert (semaphore._value, semaphore.name, semaphore.more) == (3, "x", {"y": 1})
    bounded = NamedBounded("z", 2)
    assert bounded.acquire() and bounded._value == 1 and vars(bounded) == {"name": "z"}
    bounded.release()
    with pytest.raises(ValueError):
        bounded.release()
    assert Silent("x")._value == 1
    event = Counting(5)
    event.set()
    assert event.count == 6 and event.is_set()
    assert NamedLock("l").acquire() and NamedLock("l").name == "l"
    with NamedCondition("c") as taken:
        assert taken
    for plain in (fiberrt.Semaphore(0), fiberrt.BoundedSemaphore(), fiberrt.Event()):
        plain.mine = plain  # garbage for the collector
        assert plain.mine is plain and vars(plain) == {"mine": plain}
        del plain.mine
        with pytest.raises(AttributeError):
            plain.mine
    for wrong, error in (((-1,), ValueError), (("x",), TypeError), ((1, 2), TypeError), ((1 << 80,), OverflowError)):
        for kind in (fiberrt.Semaphore, fiberrt.BoundedSemaphore):
            with pytest.raises(error):
                kind(*wrong)
    with pytest.raises(TypeError):
        fiberrt.Event(1)


def test_cycles_with_attributes_are_collected():
    class Mark:
        pass

    for kind in (fiberrt.Semaphore, fiberrt.BoundedSemaphore, fiberrt.Event):
        made = kind()
        made.me, made.mark = made, Mark()
        gone = weakref.ref(made.mark)
        del made
        gc.collect()
        assert gone() is None


def test_init_called_again_while_fibers_wait():
    semaphore = fiberrt.Semaphore(0)
    fibers = [fiberrt.spawn(semaphore.acquire) for _ in range(2)]
    fiberrt.reschedule()
    semaphore.__init__(3)
    assert [fiber.result(60) for fiber in fibers] == [True, True] and semaphore._value == 1
    semaphore.__init__(0)
    assert semaphore._value == 0 and not semaphore.acquire(False)
