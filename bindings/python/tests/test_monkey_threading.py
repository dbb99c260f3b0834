# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs with threads and queues under fiberrt.monkey: their threads are fibers of one thread."""

import textwrap

import pytest

import fiberrt
from fiberrt._queue import SimpleQueue

PATCHED = "import fiberrt.monkey; fiberrt.monkey.patch()\nimport _thread, queue, sys, threading, time, fiberrt\n"


@pytest.fixture
def patched(lines):
    """Returns the lines that a program writes after patch()."""

    def run(source: str) -> list[str]:
        return lines(PATCHED + textwrap.dedent(source))

    return run


def test_threads_are_fibers_that_overlap(patched):
    # No fiber continues before all wait.
    assert patched("""
        barrier = threading.Barrier(101)
        seen = set()
        def work(i):
            barrier.wait(60)
            seen.add((_thread.get_ident(), threading.get_ident(), threading.current_thread() is threads[i]))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(100)]
        for thread in threads: thread.start()
        print(threading.active_count(), len(threading.enumerate()), all(thread.is_alive() for thread in threads))
        barrier.wait(60)
        for thread in threads: thread.join()
        print(len({a for a, b, c in seen}), len({b for a, b, c in seen}), all(c for a, b, c in seen))
        print({b for a, b, c in seen} == {thread.ident for thread in threads}, threading.active_count())
        print(any(thread.is_alive() for thread in threads), threading.main_thread().ident == _thread.get_ident())
    """) == ["101 101 True", "1 100 True", "True 1", "False True"]


def test_attributes_of_a_thread(patched):
    assert patched("""
        def work():
            me = threading.current_thread()
            print(me.name, me.daemon, fiberrt.current().name, me.ident == threading.get_ident(), me.native_id > 0)
            go.wait()
        go = threading.Event()
        thread = threading.Thread(target=work, name="worker", daemon=True)
        for wrong in thread.join, lambda: threading.current_thread().join():
            try: wrong()
            except RuntimeError as error: print(error)
        thread.start()
        try: thread.start()
        except RuntimeError as error: print(error)
        thread.join(0); thread.join(0.01)
        print(thread.is_alive(), "started daemon" in repr(thread))
        go.set()
        thread.join()
        print(thread.is_alive(), "stopped daemon" in repr(thread), threading.current_thread().name)
        hit = []
        timer = threading.Timer(0.01, hit.append, ["x"]); timer.start(); timer.join()
        never = threading.Timer(1000, hit.append, ["y"]); never.start(); never.cancel(); never.join()
        print(hit)
    """) == [
        "cannot join thread before it is started", "cannot join current thread", "worker True worker True True",
        "threads can only be started once", "True True", "False True MainThread", "['x']",
    ]  # fmt: skip


def test_exceptions_and_cancels_of_threads(patched):
    assert patched("""
        threading.excepthook = lambda args: print(args.exc_type.__name__, args.thread.name)
        def fail(): raise KeyError(1)
        def leave(): sys.exit(5)
        def wait():
            try: fibers.append(fiberrt.current()); threading.Event().wait()
            finally: print("ended")
        fibers = []
        for function in fail, leave, wait:
            thread = threading.Thread(target=function, name=function.__name__)
            thread.start()
            if fibers: fibers[0].cancel()
            thread.join()
        # An exception that ends a join has no other effect.
        go = threading.Event()
        thread = threading.Thread(target=go.wait)
        thread.start()
        with fiberrt.move_on_after(0.01) as scope: thread.join()
        print(scope.expired, thread.is_alive())
        joiner = fiberrt.spawn(thread.join)
        fiberrt.reschedule(); joiner.cancel(); joiner.join()
        print(thread.is_alive(), threading.active_count())
        go.set(); thread.join()
        print(thread.is_alive(), threading.active_count())
    """) == ["KeyError fail", "SystemExit leave", "ended", "True True", "True 2", "False 1"]


def test_values_of_each_thread_its_own(patched):
    assert patched("""
        import contextvars, decimal
        mine, var = threading.local(), contextvars.ContextVar("var", default="none")
        mine.x, gate, seen = "main", threading.Barrier(3), []
        var.set("main"); decimal.getcontext().prec = 5
        def work(i):
            seen.append((hasattr(mine, "x"), var.get(), decimal.getcontext().prec))
            mine.x = i; var.set(i)
            gate.wait()
            seen.append((mine.x == i, var.get() == i))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(sorted(set(map(str, seen))), mine.x, var.get())
    """) == [str(sorted({"(False, 'none', 28)", "(True, True)"})) + " main main"]


def test_locks(patched):
    assert patched("""
        import functools
        lock, shared, count, pairs = threading.RLock(), [], threading.Semaphore(2), threading.Barrier(2)
        most = now = 0
        def work(i):
            global most, now
            with count:
                now += 1; most = max(most, now)
                pairs.wait(60)
                now -= 1
            with lock, lock:
                shared.append(i); time.sleep(0.001); shared.append(i)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(20)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(shared[::2] == shared[1::2], sorted(shared[::2]) == list(range(20)), most)
        condition = threading.Condition()
        woken = []
        def waits(i):
            with condition:
                while not woken: condition.wait()
                woken.append(i)
        threads = [threading.Thread(target=waits, args=(i,)) for i in range(3)]
        for thread in threads: thread.start()
        with condition: woken.append("go"); condition.notify_all()
        for thread in threads: thread.join()
        print(len(woken))
        broken = []
        barrier = threading.Barrier(2)
        def breaks():
            try: barrier.wait(0.01)
            except threading.BrokenBarrierError: broken.append(barrier.broken)
        thread = threading.Thread(target=breaks); thread.start(); thread.join()
        print(broken)
        # A user of the interpreter's own locks: a cached property that waits is computed once.
        calls = []
        class Slow:
            @functools.cached_property
            def value(self): calls.append(1); time.sleep(0.001); return 7
        slow = Slow()
        print({fiber.result() for fiber in [fiberrt.spawn(lambda: slow.value) for i in range(3)]}, len(calls) <= 3)
    """) == ["True True 2", "4", "[True]", "{7} True"]


def test_queues(patched):
    assert patched("""
        for kind in queue.Queue, queue.LifoQueue, queue.PriorityQueue:
            work, done = kind(3), []
            def consume():
                while (item := work.get()) is not None:
                    done.append(item)
                    work.task_done()
            thread = threading.Thread(target=consume)
            thread.start()
            for i in range(50): work.put(i)
            work.join(); print(sorted(done) == list(range(50)), work.mutex.locked(), len(work.queue))
            if kind is not queue.PriorityQueue: work.put(None); thread.join()
            else:
                for fiber in fiberrt._fiberrt.fibers():
                    if fiber.name == thread.name: fiber.cancel()
                thread.join()
        class Ring(queue.Queue):
            def _init(self, maxsize): self.queue = []
            def _get(self): return self.queue.pop()
        ring = Ring()
        fiber = fiberrt.spawn(ring.get); fiberrt.reschedule(); ring.put(5); print(fiber.result())
        simple = queue.SimpleQueue()
        fiber = fiberrt.spawn(simple.get); fiberrt.reschedule(); simple.put(6, False, 0)
        print(fiber.result(), simple.empty())
        for call in simple.get_nowait, lambda: simple.get(timeout=0.01), lambda: ring.get(timeout=0.01):
            try: call()
            except queue.Empty: print("empty")
    """) == ["True False 0"] * 3 + ["5", "6 True"] + ["empty"] * 3


def test_executors(patched):
    # Futures and waits of concurrent.futures let other fibers run.
    assert patched("""
        import concurrent.futures as futures
        gate = threading.Barrier(50)
        def work(i):
            gate.wait(60)
            return i, _thread.get_ident()
        with futures.ThreadPoolExecutor(50) as executor:
            tasks = [executor.submit(work, i) for i in range(49)]
            done, left = futures.wait(tasks, timeout=0.01)
            print(len(done), len(left))
            waiter = fiberrt.spawn(tasks[0].result)
            order = [executor.submit(work, 49)]
            print(sorted(f.result()[0] for f in futures.as_completed(tasks + order)) == list(range(50)))
            print(waiter.result()[0], len({f.result()[1] for f in tasks}))
            print(list(executor.map(lambda x: x * x, range(5))))
            try: executor.submit(work).result()
            except TypeError: print("TypeError")
            try: futures.Future().result(0.01)
            except futures.TimeoutError: print("timeout")
        # Two fibers submit at once.
        def many():
            with futures.ThreadPoolExecutor(3) as executor:
                return sum(executor.map(lambda x: time.sleep(0.001) or x, range(10)))
        print([fiber.result() for fiber in [fiberrt.spawn(many) for i in range(5)]])
    """) == ["0 49", "True", "0 1", "[0, 1, 4, 9, 16]", "TypeError", "timeout", "[45, 45, 45, 45, 45]"]


def test_modules_imported_before(lines):
    # A library has its own locks and imported names; these are replaced, except locks that are held.
    assert lines("""
        import concurrent.futures.thread, logging, tempfile, threading, _thread, types, sys, queue
        library = types.ModuleType("library"); sys.modules["library"] = library
        exec("from threading import Lock, Event, get_ident, Thread, local; from _thread import allocate_lock\\n"
             "lock, held = Lock(), Lock(); held.acquire()", vars(library))
        old_queue, old_event, old_thread, old_condition = (
            queue.Queue(), threading.Event(), threading.Thread(target=lambda: got.append(old_queue.get())),
            threading.Condition())
        handler = logging.StreamHandler(sys.stdout); logging.getLogger().addHandler(handler)
        import fiberrt, fiberrt.monkey
        real_lock = threading.Lock
        fiberrt.monkey.patch("queue")
        print(fiberrt.monkey.is_patched("threading"), library.Lock is library.allocate_lock is fiberrt.Lock)
        print(library.Event is fiberrt.Event, library.get_ident is threading.get_ident, library.local is fiberrt.local)
        print(type(library.lock).__name__, type(library.held) is fiberrt.Lock, type(handler.lock) is fiberrt.RLock)
        print(type(concurrent.futures.thread._global_shutdown_lock) is fiberrt.Lock)
        got = []
        old_thread.start()
        print(old_thread.is_alive(), got)
        old_queue.put("x"); old_thread.join(); print(got)
        for wait, wake in (
            (old_event.wait, old_event.set),
            (lambda: old_condition.__enter__() and old_condition.wait() and old_condition.__exit__(None, None, None),
             lambda: old_condition.__enter__() and (old_condition.notify(), old_condition.__exit__(None, None, None))),
        ):
            fiber = fiberrt.spawn(wait); fiberrt.reschedule(); print(fiber.done); wake(); fiber.join()
        logging.warning("logged")
    """) == [
        "True True", "True True True", "Lock False True", "True", "True []", "['x']", "False", "False",
        "logged",
    ]  # fmt: skip


def test_real_threads_run_next_to_fibers(lines):
    assert lines("""
        import threading, _thread, time
        go, ended = threading.Event(), []
        def real():
            go.wait(); ended.append(_thread.get_ident())
        before = threading.Thread(target=real); before.start()
        import fiberrt, fiberrt.monkey
        fiberrt.monkey.patch()
        # Joining a thread that is older than patch() does not block: another fiber ends that thread.
        joiner = fiberrt.spawn(before.join)
        fiberrt.reschedule()
        print(joiner.done, before.is_alive())
        go.set(); joiner.join()
        print(before.is_alive(), ended[0] == before.ident != _thread.get_ident())
        # A real thread and fibers use the new objects together.
        import queue
        there, back = queue.Queue(), queue.SimpleQueue()
        def other():
            back.put((there.get(), threading.current_thread().name.startswith("Dummy"), _thread.get_ident()))
        _thread.start_new_thread(other, ())
        there.put(1)
        item, dummy, ident = back.get()
        print(item, dummy, ident != _thread.get_ident())
        print(fiberrt.to_thread(lambda: threading.get_ident() == _thread.get_ident()))
    """) == ["False True", "False True", "1 True True", "True"]


def test_dummies_go_with_their_fibers(patched):
    assert patched("""
        import logging, os
        logging.basicConfig(stream=sys.stdout, format="%(threadName).5s")
        def work():
            logging.error("x")
            me = threading.current_thread(); time.sleep(0.001)
            return threading.current_thread() is me
        print({fiber.result() for fiber in [fiberrt.spawn(work) for i in range(50)]}, threading.active_count())
    """)[-1:] == ["{True} 1"]


def test_the_end_waits_for_threads_but_daemons(lines):
    assert lines(
        PATCHED
        + """
import atexit
atexit.register(print, "atexit")
def work():
    threading.main_thread().join(); print("main has ended")
    threading.Thread(target=lambda: (time.sleep(0.01), print("late"))).start()
def serves():
    try: threading.Event().wait()
    finally: print("cancelled")
threading.Thread(target=serves, daemon=True).start()
threading.Thread(target=work).start()
import concurrent.futures
pool = concurrent.futures.ThreadPoolExecutor(2)
pool.submit(lambda: print("pooled"))
print("main")
"""
    ) == ["pooled", "main", "main has ended", "late", "atexit", "cancelled"]


def test_fork(patched):
    assert patched("""
        import os, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # the thread of to_thread() exists: no matter here
        go = threading.Event()
        others = [threading.Thread(target=go.wait) for i in range(3)]
        for thread in others: thread.start()
        def child(how):
            try:
                print(how, threading.active_count(), threading.main_thread() is threading.current_thread(),
                      any(thread.is_alive() for thread in others), threading.current_thread().is_alive())
                for thread in others: thread.join()
                more = threading.Thread(target=lambda: print(how, "more", threading.active_count()))
                more.start(); more.join()
                sys.stdout.flush()
            finally:
                os._exit(7)
        def fork(how):
            sys.stdout.flush()
            pid = os.fork()
            if not pid: child(how)
            return os.waitstatus_to_exitcode(fiberrt.to_thread(os.waitpid, pid, 0)[1])
        print(fork("main"), fiberrt.spawn(fork, "fiber").result())
        codes = []
        thread = threading.Thread(target=lambda: codes.append(fork("thread"))); thread.start(); thread.join()
        print(codes, threading.active_count(), [thread.is_alive() for thread in others])
        go.set()
        for thread in others: thread.join()
    """) == [
        "main 1 True False True", "main more 2", "fiber 1 True False True", "fiber more 2", "7 7",
        "thread 1 True False True", "thread more 2", "[7] 4 [True, True, True]",
    ]  # fmt: skip


def test_stack_sizes_and_signals(patched):
    assert patched("""
        import signal
        print(threading.stack_size(), threading.stack_size(1 << 26))
        print(threading.stack_size(0), threading.stack_size())
        for wrong in 1, -1:
            try: threading.stack_size(wrong)
            except ValueError: print("ValueError")
        threading.stack_size(1 << 26)
        sys.setrecursionlimit(20000)
        def deep(n): return n and deep(n - 1) + 1
        found = []
        thread = threading.Thread(target=lambda: found.append(deep(15000))); thread.start(); thread.join()
        print(found)
        signal.signal(signal.SIGUSR1, lambda number, frame: found.append(number))
        go = threading.Event()
        thread = threading.Thread(target=go.wait); thread.start()
        signal.pthread_kill(thread.ident, signal.SIGUSR1)
        go.set(); thread.join()
        print(found[1:] == [signal.SIGUSR1])
        try: signal.pthread_kill(thread.ident, 0)
        except ProcessLookupError: print("gone")
        signal.pthread_kill(threading.main_thread().ident, 0)
    """) == ["0 0", "67108864 0", "ValueError", "ValueError", "[15000]", "True", "gone"]


def test_many_threads_leave_nothing(patched):
    assert patched("""
        import gc
        def rounds(n):
            for i in range(n):
                threads = [threading.Thread(target=time.sleep, args=(0,)) for i in range(100)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
            del threads, thread
            gc.collect()
            return len(gc.get_objects())
        rounds(2)
        first = rounds(2)
        print(rounds(10) - first < 50, threading.active_count(), len(threading._dangling))
    """) == ["True 1 1"]


def test_simple_queue():
    simple = SimpleQueue()
    with pytest.raises(TypeError):
        SimpleQueue(1)
    with pytest.raises(ValueError):
        simple.get(timeout=-1)
    simple.put(1, timeout=-5)
    simple.put_nowait(2)
    assert (simple.qsize(), simple.get(), simple.get_nowait(), simple.empty()) == (2, 1, 2, True)
    fiber = fiberrt.spawn(simple.get)
    fiberrt.reschedule()
    fiber.cancel()
    fiber.join()
    simple.put(3)
    assert simple.get() == 3


def test_join_returns_after_the_finalizers_of_a_threads_locals(lines):
    assert lines("""
        import fiberrt.monkey
        fiberrt.monkey.patch()
        import threading, time
        mine, seen = threading.local(), []
        class Waits:
            def __del__(self):
                time.sleep(0.01)
                seen.append(repr(thread) if thread.is_alive() else 'dead')
        def work():
            mine.thing = Waits()
        for timeout in (None, 60):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(timeout)
            print(len(seen), thread.is_alive())
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.001)
        thread.join(0)
        while thread.is_alive():
            time.sleep(0.001)
        print(len(seen))
        threading.Thread(target=work).start()  # the end of the program waits for it
        """) == ["1 False", "2 False", "3"]


@pytest.mark.parametrize("call", ["fiberrt.to_thread", "fiberrt.offload"])
def test_threads_that_are_started_by_a_function_on_another_thread_go_on(patched, call):
    # That thread ends with its function. So Threads started there are real threads, and so are those that they start.
    assert patched("""
        seen = []
        go = threading.Event()
        def inner(): go.wait(60); seen.append("inner")
        def work(daemon):
            thread = threading.Thread(target=inner, daemon=daemon); thread.start()
            go.wait(60)
            seen.append((threading.current_thread().name, threading.get_ident() == _thread.get_ident()))
            inners.append(thread)
        def library(daemon):
            thread = threading.Thread(target=work, args=(daemon,), name="work", daemon=daemon)
            thread.start()
            return thread
        inners = []
        for daemon in False, True:
            go.clear(); seen.clear(); inners.clear()
            thread = CALL(library, daemon)
            print(thread.is_alive(), thread in threading.enumerate(), thread.join(0), thread.join(0.01), thread.is_alive())
            go.set()
            thread.join(60)
            print(thread.is_alive(), thread in threading.enumerate(), inners[0].join(60), sorted(seen, key=str))
        with threading.Lock(): pass
        import concurrent.futures
        def pool():
            executor = concurrent.futures.ThreadPoolExecutor(2)
            return executor, executor.submit(_thread.get_ident)
        executor, future = CALL(pool)
        print(future.result(60) != _thread.get_ident(), executor.submit(lambda: 5).result(60))
        executor.shutdown()
    """.replace("CALL", call)) == [
        "True True None None True", "False False None [('work', True), 'inner']",
        "True True None None True", "False False None [('work', True), 'inner']", "True 5",
    ]  # fmt: skip


def test_the_program_waits_for_threads_that_others_have_started(patched):
    assert patched("""
        go = threading.Event()
        def work(): go.wait(); time.sleep(0.1); print("done")
        fiberrt.to_thread(lambda: threading.Thread(target=work).start())
        fiberrt.to_thread(lambda: threading.Thread(target=threading.Event().wait, daemon=True).start())
        print("end", flush=True)
        go.set()
    """) == ["end", "done"]


def test_old_names_warn():
    condition, event = fiberrt.Condition(), fiberrt.Event()
    with pytest.warns(DeprecationWarning, match=r"use is_set\(\)"):
        assert not event.isSet()
    with condition, pytest.warns(DeprecationWarning, match=r"use notify_all\(\)"):
        condition.notifyAll()


def test_a_keyboard_interrupt_that_ends_a_thread_is_raised_in_the_main_flow(lines):
    assert lines(PATCHED + """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
def compute(pause):
    if pause: time.sleep(pause)
    signal.raise_signal(signal.SIGINT)
def end(): raise SystemExit(5)
threading.Thread(target=end).start()
for pause in 0, 0.001:  # join() is called before or after the end
    for wait in (threading.Event().wait, lambda: thread.join()):
        thread = threading.Thread(target=compute, args=(pause,))
        try:
            thread.start()
            wait()
        except KeyboardInterrupt:
            print("interrupted", thread.is_alive())
""") == 4 * ["interrupted False"]  # fmt: skip


def test_a_keyboard_interrupt_of_a_threads_own_code_is_raised_in_the_main_flow_too(lines):
    assert lines(PATCHED + """
def compute(): raise KeyboardInterrupt
thread = threading.Thread(target=compute)
try:
    thread.start()
    thread.join()
except KeyboardInterrupt:
    print("interrupted")
""") == ["interrupted"]  # fmt: skip


def test_a_keyboard_interrupt_of_a_thread_ends_the_program(program):
    done = program(PATCHED + """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=signal.raise_signal, args=(signal.SIGINT,)).start()
try:
    time.sleep(100)
finally:
    print("over")
""")  # fmt: skip
    assert done.code == -2 and done.out == "over\n"
    assert done.err.rstrip().endswith("KeyboardInterrupt") and "Exception in thread" not in done.err


@pytest.mark.parametrize("handler", ["lambda number, frame: leave()", "lambda *args: leave()", "Handler().handle"])
@pytest.mark.parametrize("error", ["SystemExit(5)", "ValueError(5)"])
def test_an_exception_of_a_handler_that_ends_a_thread_is_raised_in_the_main_flow(lines, handler, error):
    assert lines(PATCHED + f"""
import signal
def leave(): raise {error}
class Handler:
    def handle(self, number, frame): leave()
signal.signal(signal.SIGTERM, {handler})
# A Thread that calls exit() ends only itself.
own = threading.Thread(target=lambda: sys.exit(4))
own.start()
own.join()
thread = threading.Thread(target=signal.raise_signal, args=(signal.SIGTERM,))
try:
    thread.start()
    threading.Event().wait()
except (SystemExit, ValueError) as error:
    print(repr(error), thread.is_alive())
""") == [f"{error} False"]  # fmt: skip


def test_a_handler_s_exit_ends_the_program(program):
    done = program(PATCHED + """
import signal
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
threading.Thread(target=signal.raise_signal, args=(signal.SIGTERM,)).start()
try:
    threading.Event().wait()
finally:
    print("over")
""")  # fmt: skip
    assert (done.code, done.out, done.err) == (7, "over\n", "")


def test_threads_that_import_a_module_at_the_same_time(lines, tmp_path):
    (tmp_path / "slow.py").write_text("import fast, time; time.sleep(0.01); done = True")
    (tmp_path / "fast.py").write_text("import slow")  # circular
    (tmp_path / "one.py").write_text("import time; time.sleep(0.01); import two; done = True")
    (tmp_path / "two.py").write_text("import time; time.sleep(0.01); import one; done = True")
    (tmp_path / "late.py").write_text("import time; time.sleep(0.01); done = True")
    (tmp_path / "fails.py").write_text("import time; time.sleep(0.01); 1 / 0")
    assert lines("""
        import sys
        sys.path.insert(0, sys.argv[1])
        import fiberrt.monkey
        fiberrt.monkey.patch()
        import fiberrt, importlib, threading
        def get(name):
            try: return importlib.import_module(name).done
            except Exception as error: return type(error).__name__
        print(list(fiberrt.map(get, ["slow"] * 3)))
        print(list(fiberrt.map(get, ["one", "two"])))       # each needs the other: no deadlock
        print(list(fiberrt.map(get, ["fails"] * 2)))
        first, second, third = fiberrt.spawn(get, "late"), fiberrt.spawn(get, "late"), fiberrt.spawn(fiberrt.to_thread, get, "late")
        fiberrt.reschedule()
        second.cancel()
        print(first.result(), second.join(), third.result())
    """, str(tmp_path)) == ["[True, True, True]", "[True, True]", "['ZeroDivisionError', 'ZeroDivisionError']", "True True True"]


def test_patch_in_a_module_that_is_being_imported(lines, tmp_path):
    (tmp_path / "app.py").write_text("""
import fiberrt.monkey
fiberrt.monkey.patch()
import threading
def use():
    started.set()
    from app import done                # waits for the import
    print(done)
started = threading.Event()
thread = threading.Thread(target=use)
thread.start()
started.wait()
done = True
""")
    assert lines("""
        import sys
        sys.path.insert(0, sys.argv[1])
        import app
        app.thread.join()
    """, str(tmp_path)) == ["True"]  # fmt: skip
    assert lines("""
        import sys
        sys.path.insert(0, sys.argv[1])
        import fiberrt
        fiberrt.spawn(__import__, "app").result()
        sys.modules["app"].thread.join()
    """, str(tmp_path)) == ["True"]  # fmt: skip


def test_a_cancel_during_an_import_leaves_the_modules_lock_usable(lines):
    assert lines("""
        import sys
        import fiberrt.monkey
        fiberrt.monkey.patch()
        import fiberrt, time
        lock = sys.modules["_frozen_importlib"]._ModuleLock("name")
        def use():
            lock.acquire()
            try: fiberrt.park()
            finally: lock.release()         # waits for the inner lock
        def cancel():
            with lock.lock:
                user.cancel()
                while not user.done and user.waits_for != "lock": fiberrt.sleep(0)
                return user.done
        user = fiberrt.spawn(use)
        fiberrt.reschedule()
        print(fiberrt.spawn(cancel).result(), user.join(), lock.count in (0, []))
        ran = []
        other = fiberrt.spawn(ran.append, "within acquire(), which has the inner lock")
        end = time.monotonic() + 0.003
        while time.monotonic() < end:
            assert lock.wakeup.acquire(False)
            lock.wakeup.release()
        print(ran[:], other.join())
    """) == ["False True True", "[] True"]  # fmt: skip
