# SPDX-License-Identifier: MIT OR Apache-2.0
"""Signals, the end of threads and of the interpreter, forks, and refused interpreters."""

import pytest


def test_exit_runs_finally(lines):
    assert lines("""
        import fiberrt
        def f(n):
            try:
                fiberrt.sleep(60)
            finally:
                print('finally', n)
        fibers = [fiberrt.spawn(f, n) for n in range(3)]
        fiberrt.reschedule()
        never = fiberrt.spawn(print, 'never')
    """) == ["finally 0", "finally 1", "finally 2"]


def test_exit_is_not_held_up_for_ever(program):
    done = program("""
        import fiberrt
        from fiberrt import _fiberrt
        def stubborn():
            while True:
                try:
                    fiberrt.reschedule()
                except BaseException:
                    with fiberrt.shield():
                        fiberrt.sleep(0.01)
        fiberrt.spawn(stubborn)
        fiberrt.reschedule()
        print(_fiberrt.shut_down(0.1), flush=True)
        import os; os._exit(0)
    """)
    assert (done.code, done.out) == (0, "1\n")


def test_exit_reports_unretrieved_exceptions(program):
    done = program("""
        import fiberrt
        def bad():
            raise ValueError('lost')
        kept = fiberrt.spawn(bad)
        fiberrt.reschedule()
        asked = fiberrt.spawn(bad)
        asked.join()
    """)
    assert done.code == 0
    assert done.err.count("ValueError: lost") == 1 and "in bad" in done.err


@pytest.mark.parametrize("wait", ["fiberrt.sleep(60)", "fiber.join()", "[fiberrt.reschedule() for _ in iter(int, 1)]"])
def test_system_exit_in_a_fiber_ends_the_program(program, wait):
    done = program(f"""
        import fiberrt, sys
        fiber = fiberrt.spawn(sys.exit, 3)
        {wait}
    """)
    assert (done.code, done.err) == (3, "")


@pytest.mark.parametrize(
    "others",
    [
        "fiberrt.spawn(fiberrt.sleep, 60)",
        "[fiberrt.spawn(spin) for _ in range(5)]",
        "[fiberrt.spawn(never_wait) for _ in range(3)]",
        "fiberrt.spawn(_fiberrt.read, os.pipe()[0], 1)",
    ],
)
def test_keyboard_interrupt_reaches_the_main_flow(lines, others):
    assert lines(f"""
        import fiberrt, os, signal, threading, time
        from fiberrt import _fiberrt
        def spin():
            while True:
                fiberrt.reschedule()
        def never_wait():
            while True:
                pass
        {others}
        times = []
        def press():
            times.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        presser = threading.Timer(0.2, press)
        try:
            presser.start()
            fiberrt.sleep(60)
        except KeyboardInterrupt:
            print('interrupted', time.monotonic() - times[0] < 10)
    """) == ["interrupted True"]


def test_keyboard_interrupt_comes_within_100_ms_while_fibers_spin(lines):
    """Takes the best of several, as the machine may be busy."""
    assert lines("""
        import fiberrt, os, signal, threading, time
        def spin():
            while True:
                fiberrt.reschedule()
        def compute():
            while True:
                sum(range(1000))
                fiberrt.reschedule()
        def press():
            waits.wait(60)
            time.sleep(0.02)
            times.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        for spins in (spin, compute):
            fibers = [fiberrt.spawn(spins) for _ in range(50)]
            least = 60
            for _ in range(10):
                times, waits = [], threading.Event()
                presser = threading.Thread(target=press)
                presser.start()
                try:
                    fiberrt.spawn(waits.set)
                    fiberrt.sleep(60)
                except KeyboardInterrupt:
                    least = min(least, time.monotonic() - times[0])
                presser.join()
                if least < 0.1:
                    break
            print(least < 0.1)
            for fiber in fibers:
                fiber.cancel()
                fiber.join()
    """) == ["True", "True"]


def test_signal_handlers_run_while_all_wait(lines):
    assert lines("""
        import fiberrt, os, signal, threading
        seen = []
        signal.signal(signal.SIGUSR1, lambda *_: (seen.append(1), waiter.wakeup()))
        waiter = fiberrt.spawn(fiberrt.park)
        fiberrt.reschedule()
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGUSR1]).start()
        print(waiter.result(60), seen)
    """) == ["True [1]"]


def test_end_of_a_thread_runs_finally(lines):
    assert lines("""
        import fiberrt, threading
        def f():
            try:
                fiberrt.sleep(60)
            finally:
                with fiberrt.shield():
                    fiberrt.sleep(0.001)
                print('finally')
        def work():
            kept.extend(fiberrt.spawn(f) for _ in range(3))
            fiberrt.reschedule()
        kept = []
        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        print(all(fiber.cancelled for fiber in kept))
    """) == ["finally"] * 9 + ["True"]


def test_daemon_threads_do_not_disturb_the_exit(lines):
    for _ in range(5):
        assert lines("""
            import fiberrt, threading, time
            def work():
                def spin():
                    while True:
                        fiberrt.reschedule()
                def nap():
                    while True:
                        fiberrt.sleep(0.0001)
                fiberrt.spawn(spin), fiberrt.spawn(nap)
                fiberrt.sleep(60)
            for _ in range(3):
                threading.Thread(target=work, daemon=True).start()
            time.sleep(0.1)
            print('end')
        """) == ["end"]


@pytest.mark.parametrize("call", ["os.system(f'read it <&{r}')", "os.open(fifo, os.O_RDONLY)", "os.splice(r, y, 1)"])
def test_daemons_in_calls_of_os_do_not_hold_up_the_exit(lines, call):
    assert lines(f"""
        import fiberrt.monkey
        fiberrt.monkey.patch()
        import os, tempfile, threading, time
        fifo = os.path.join(tempfile.mkdtemp(), "fifo")
        os.mkfifo(fifo)
        r, w = os.pipe()
        os.set_inheritable(r, True)
        x, y = os.pipe()
        threading.Thread(target=lambda: {call}, daemon=True).start()
        for _ in range(10): time.sleep(0.001)
        print("over")
    """) == ["over"]


def test_a_finalizer_at_the_very_end_runs_a_command(lines):
    assert lines("""
        import fiberrt.monkey
        fiberrt.monkey.patch()
        import os, threading
        class Last:
            def __init__(self, *functions): self.functions = functions
            def __del__(self): print(*[function(command) for function, command in self.functions])
        threading.Thread(target=int).start()
        last = Last((os.system, "exit 3"), (lambda command: fiberrt.offload(os.strerror, command), 2))
    """) == ["768 No such file or directory"]


@pytest.mark.parametrize("keep", ["mine.thing = Thing()", "kept.append(weakref.ref(fiberrt.current())); return Thing()"])
def test_daemon_threads_in_finalizers_do_not_disturb_the_exit(lines, keep):
    assert lines(f"""
        import fiberrt, threading, time, weakref
        mine, kept = fiberrt.local(), []
        class Thing:
            def __del__(self):
                inside.set()
                while True:
                    time.sleep(0.0005)
        def f():
            {keep}
        def work():
            fiberrt.spawn(f)
            fiberrt.reschedule()
            fiberrt.reschedule()
        for _ in range(3):
            inside = threading.Event()
            threading.Thread(target=work, daemon=True).start()
            inside.wait()
        print('end')
        """) == ["end"]


def test_fork_in_the_main_flow(lines):
    assert lines("""
        import fiberrt, os, sys
        def f():
            try:
                fiberrt.sleep(0.1)
            finally:
                print('finally', flush=True)
        fiber = fiberrt.spawn(f)
        fiberrt.reschedule()
        pid = os.fork()
        if pid == 0:
            print('lost', fiber.done, fiberrt.spawn(lambda: 1).result(), flush=True)
            sys.exit(4)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        fiber.join()
    """) == ["lost True 1", "4", "finally"]


@pytest.mark.parametrize("end, code", [("return", 0), ("sys.exit(5)", 5), ("os._exit(6)", 6)])
def test_fork_in_a_fiber(lines, end, code):
    assert lines(f"""
        import fiberrt, os, sys, atexit
        def f():
            pid = os.fork()
            if pid == 0:
                fiberrt.sleep(0.001)
                print('child', fiberrt.spawn(lambda: 2).result(), flush=True)
                {end}
                return
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        fiberrt.spawn(f).result()
    """) == ["child 2", str(code)]


def test_multiprocessing_by_fork(lines):
    assert lines("""
        import fiberrt, multiprocessing
        def work(queue):
            queue.put(fiberrt.spawn(lambda: 3).result())
        def f():
            context = multiprocessing.get_context('fork')
            queue = context.SimpleQueue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            process.join()
            return queue.get()
        print(fiberrt.spawn(f).result())
    """) == ["3"]


@pytest.mark.parametrize("isolated", [True, False])
def test_subinterpreters_are_refused(program, isolated):
    done = program(f"""
        import fiberrt, sys
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        if sys.version_info < (3, 13):
            other = interpreters.create(isolated={isolated})
        else:
            other = interpreters.create('isolated' if {isolated} else 'legacy')
        fiber = fiberrt.spawn(fiberrt.reschedule)
        try:
            print(interpreters.run_string(other, 'import fiberrt'))
        except Exception as error:
            print(error)
        interpreters.destroy(other)
        print('joined', fiber.join())
    """)
    told = done.out.splitlines()
    assert done.code == 0 and done.err == "" and told[-1] == "joined True"
    assert "ImportError" in told[0] and "subinterpreter" in told[0]


def test_offload(lines):
    assert lines("""
        import fiberrt, threading, time
        main = threading.get_ident()
        def f(n):
            return fiberrt.offload(lambda: (time.sleep(0.05), threading.get_ident() != main, n)[1:])
        begun = time.monotonic()
        fibers = [fiberrt.spawn(f, n) for n in range(3)]
        print([fiber.result() for fiber in fibers])
        try:
            fiberrt.offload(int, 'x')
        except ValueError:
            print('raised')
        print(fiberrt.offload(lambda: fiberrt.spawn(lambda: 8).result()))
        print(fiberrt.offload(int, 'ff', base=16))
    """) == ["[(True, 0), (True, 1), (True, 2)]", "raised", "8", "255"]


def test_finalizers_find_no_value_of_a_context_that_is_dropped(lines):
    assert lines("""
        import contextvars, fiberrt
        variables = [contextvars.ContextVar(name) for name in 'abc']
        class Value:
            def __del__(self):
                for variable in variables:
                    found.append(variable.get(None))
                variables[0].set(object())
                found.append(type(variables[0].get()))
        found = []
        def f():
            for variable in variables:
                variable.set(Value())
            for variable in variables:
                variable.get()
        for _ in range(100):
            fiberrt.spawn(f).join()
        fiberrt.reschedule()
        kinds = {type(value) for value in found}
        print(len(found), Value in kinds)
    """) == ["1200 False"]


# Of what a fiber holds, by a thing whose finalizer waits.
HOLDS = """
    import contextvars, fiberrt, weakref
    mine, variable, seen = fiberrt.local(), contextvars.ContextVar('variable'), []
    class Waits:
        def __init__(self, then=None):
            self.then = then
        def __del__(self):
            fiberrt.sleep(0.001)
            fiberrt.reschedule()
            if self.then:
                self.then()
            seen.append('finalized')
    class Watched:
        pass
    def watched():
        thing = Watched()
        thing.watch = weakref.ref(thing, lambda _: (fiberrt.sleep(0.001), seen.append('finalized')))
        watches.append(thing.watch)
        return thing
    watches = []
    def by_argument(thing): pass
    def by_name(*, thing): pass
    def by_frame(): thing = Waits()
    def by_local(): mine.thing = Waits()
    def by_context(): variable.set(Waits())
    def by_callback(): mine.thing = watched()
    def failed(thing): mine.thing = thing; raise LookupError
    def cancelled(thing): mine.thing, thing = thing, None; fiberrt.sleep(60)
"""


@pytest.mark.parametrize(
    "spawn, seen",
    [
        ("by_argument, Waits()", 1),
        ("by_name, thing=Waits()", 1),
        ("Waits().__eq__, 1", 1),
        ("by_frame", 1),
        ("by_local", 1),
        ("by_context", 1),
        ("by_callback", 1),
        ("by_argument, Waits(by_local)", 2),
        ("by_argument, Waits(lambda: mine.__setattr__('thing', Waits(by_context)))", 3),
        ("by_argument, Waits(lambda: variable.set(Waits(lambda: variable.set(Waits(by_context)))))", 4),
    ],
)
def test_join_returns_after_finalizers_that_wait(lines, spawn, seen):
    assert lines(
        f"{HOLDS}"
        f"""
    fiber = fiberrt.spawn({spawn})
    print(fiber.join(60), len(seen), fiber.state)
    """
    ) == [f"True {seen} ended"]


def test_finalizers_of_cancelled_fibers_wait(lines):
    assert lines(
        f"{HOLDS}"
        """
    before = fiberrt.spawn(by_argument, Waits(by_local))
    print(before.cancel(), before.join(60), before.cancelled, len(seen))
    during = fiberrt.spawn(cancelled, Waits(by_local))
    fiberrt.reschedule()
    print(during.cancel(), during.join(60), during.cancelled, len(seen))
    thrown = fiberrt.spawn(by_argument, Waits())
    thrown.throw(KeyError), thrown.throw(ValueError)
    print(thrown.join(60), repr(thrown.exception), len(seen))
    """
    ) == ["True True True 2", "True True True 4", "True KeyError() 5"]


def test_the_end_is_not_over_before_its_finalizers(lines):
    """To a cancel, an exception that is thrown, the end of the thread and that of the program."""
    assert lines(
        f"{HOLDS}"
        """
    import threading
    def twice():
        fiberrt.sleep(0.01)
        seen.append('end')
    fiber = fiberrt.spawn(by_argument, Waits(twice))
    fiberrt.reschedule()
    print(fiber.done, fiber.cancel(), fiber.throw(KeyError), fiber.join(60), fiber.cancelled, fiber.exception, len(seen))
    def work():
        fiberrt.spawn(by_argument, Waits(twice))
        fiberrt.reschedule()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    print(len(seen))
    fiberrt.spawn(by_argument, Waits(lambda: (twice(), print(len(seen)))))
    fiberrt.reschedule()
    """
    ) == ["False True None True False None 2", "4", "5"]


def test_finalizers_of_unretrieved_results_wait(program):
    done = program(
        f"{HOLDS}"
        """
    def bad(thing):
        own = thing
        raise LookupError('unretrieved')
    import sys
    for f, args in ((Waits, ()), (Waits, [by_local]), (bad, [Waits()]), (cancelled, [Waits()])):
        fiberrt.spawn(f, *args).cancel() if f is cancelled else fiberrt.spawn(f, *args)
        del args
    while len(seen) < 5:
        fiberrt.sleep(0.001)
    def hook(unraisable):
        fiberrt.sleep(0.001)
        kept.append(unraisable.object)
    kept, sys.unraisablehook = [], hook
    fiberrt.spawn(bad, None)
    while not kept:
        fiberrt.sleep(0.001)
    print(kept[0].join(60), repr(kept[0].exception))
    """
    )
    assert (done.code, done.out) == (0, "True LookupError('unretrieved')\n")
    assert done.err.count("Exception ignored in") == 1 and "LookupError: unretrieved" in done.err


def test_the_last_finalizers_are_refused_a_wait_and_have_a_stack_that_ends(program):
    done = program("""
        import fiberrt, sys, weakref
        def deep(n):
            return sorted([n], key=lambda n: deep(n + 1) if n < 100_000 else 0)
        class Result:
            def __del__(self):
                try:
                    fiberrt.sleep(0)
                except RuntimeError as error:
                    seen.append(str(error))
                try:
                    deep(0)
                except RecursionError:
                    seen.append('RecursionError')
        def f():
            kept.append(weakref.ref(fiberrt.current()))
            return Result()
        kept, seen = [], []
        sys.setrecursionlimit(1_000_000)
        fiberrt.spawn(f)
        fiberrt.reschedule()
        fiberrt.reschedule()
        print(kept[0](), seen[0].split(':')[0], seen[1:])
        """)
    assert (done.code, done.out) == (0, "None a fiber cannot wait here ['RecursionError']\n"), done.err


def test_finalizers_that_never_come_to_an_end(lines):
    assert lines("""
        import contextvars, fiberrt
        variable, made, over = contextvars.ContextVar('variable'), [0], []
        class Again:
            def __init__(self):
                made[0] += 1
            def __del__(self):
                if not over:
                    variable.set(Again())
        def f():
            variable.set(Again())
        fiber = fiberrt.spawn(f)
        print(fiber.join(60), made[0] > 5, made[0] < 1000)
        over.append(1)
        """) == ["True True True"]


def test_a_finalizer_does_not_join_its_own_fiber(lines):
    assert lines(
        f"{HOLDS}"
        """
    def join(wait):
        try:
            wait(fiberrt.current())
        except RuntimeError as error:
            print(error)
    for wait in (fiberrt.Fiber.join, fiberrt.Fiber.result, fiberrt.select, lambda fiber: fiberrt.wait([fiber])):
        print(fiberrt.spawn(by_argument, Waits(lambda: join(wait))).join(60))
    """
    ) == ["a fiber cannot wait for its own end", "True"] * 4


def test_contexts_of_finalizers_do_not_stay(lines):
    assert lines("""
        import contextvars, fiberrt, weakref
        variable, alive, rounds = contextvars.ContextVar('variable'), weakref.WeakSet(), [0]
        class Thing:
            def __init__(self, depth):
                alive.add(self)
                self.depth = depth
            def __del__(self):
                rounds[0] += 1
                if self.depth:
                    variable.set(Thing(self.depth - 1))
        def in_context():
            variable.set(Thing(3))
        def in_result():
            return Thing(3)
        def in_exception():
            thing = Thing(3)
            raise fiberrt.CancelledError
        for f in (in_context, in_result, in_exception):
            fiberrt.spawn(f)
            fiberrt.reschedule()
            fiberrt.reschedule()
            print(len(alive), rounds)
        """) == ["0 [4]", "0 [8]", "0 [12]"]


@pytest.mark.parametrize("used", [True, False])  # what of this module, by the thread before it ends
@pytest.mark.parametrize("keep", ["mine.thing = ", "variable.set", "plain.thing = "])
def test_finalizers_at_the_end_of_a_thread_wait(lines, keep, used):
    before = "fiberrt.reschedule()" if used else "pass"
    assert lines(f"""
        import contextvars, fiberrt, threading
        mine, variable, seen = fiberrt.local(), contextvars.ContextVar('variable'), []
        plain = threading.local()
        class Waits:
            def __init__(self, name):
                self.name = name
            def __del__(self):
                fiberrt.sleep(0.001)
                seen.append(fiberrt.spawn(lambda: (fiberrt.sleep(0.001), self.name)[1]).result())
        def work():
            {before}
            {keep}(Waits('thing'))
        for _ in range(20):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        while len(seen) < 20:
            fiberrt.sleep(0.001)
        print(set(seen))
        """) == ["{'thing'}"]


def test_worlds_of_threads_that_are_gone_are_left_over_and_swept(lines):
    assert lines("""
        import fiberrt, io, sys, threading, weakref
        from fiberrt import _fiberrt
        class Late:
            def __init__(self, count):
                self.count = count
            def __del__(self):
                if self.count:
                    mine.late = Late(self.count - 1)
                fiberrt.sleep(0)
                if threading.current_thread() is not threading.main_thread():
                    lost.append(fiberrt.spawn(fiberrt.sleep, 60))
                    mains.add(fiberrt.current())
                    fiberrt.sleep(0)
        mine, lost, mains = fiberrt.local(), [], weakref.WeakSet()
        def work():
            mine.late = Late(20)
        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        sys.setswitchinterval(1e-6)
        while len(_fiberrt.fibers()) > 1:
            fiberrt.sleep(0.001)
        fiberrt.dump(io.StringIO())
        print(all(fiber.join(60) for fiber in lost), len(mains), fiberrt.spawn(int, 7).result())
        """) == ["True 0 7"]


@pytest.mark.parametrize("first", ["mine = fiberrt.current()", "fiberrt.reschedule()", "fiberrt.spawn(int).join()"])
def test_a_finalizer_is_the_first_function_of_its_thread_to_wait(lines, first):
    """A finalizer runs while the thread's world is being opened."""
    assert lines(f"""
        import fiberrt, gc, threading
        class Waits:
            def __del__(self):
                fiberrt.sleep(0)
                seen.append(fiberrt.current())
        def work():
            for _ in range(100):
                garbage = Waits()
                garbage.itself = garbage
            garbage = None
            gc.set_threshold(1)
            gc.enable()
            {first}
            gc.disable()
            gc.collect()
            print(set(seen) == {{fiberrt.current()}}, len(seen))
            fiber = fiberrt.spawn(lambda: (fiberrt.sleep(0.001), 5)[1])
            print(fiber.result(), len([fiber for fiber in fiberrt._fiberrt.fibers()]))
        seen = []
        gc.disable()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """) == ["True 100", "5 1"]


def test_fibers_that_would_not_end_with_their_thread_are_lost(program):
    done = program("""
        import fiberrt, sys, threading
        class Late:  # it goes after the thread's dict
            def __call__(self):
                pass
            def __del__(self):
                over.append(fibers[0].done)
                fiberrt.sleep(0.01)  # in which it runs once more, and ends
        def stubborn():
            while not over:
                with fiberrt.shield():
                    fiberrt.sleep(0.001)
            over.append('ran')
        def work():
            fibers.append(fiberrt.spawn(stubborn))
            sys.set_asyncgen_hooks(firstiter=Late())
            fiberrt.reschedule()
        fibers, over, queue = [], [], fiberrt.Queue()
        thread = threading.Thread(target=work)
        thread.start()
        while not fibers:
            fiberrt.sleep(0.001)
        joins = fiberrt.spawn(fibers[0].join, 60)
        fiberrt._fiberrt.watch(fibers[0], queue)
        fiberrt.reschedule()
        print(fibers[0].join(60), joins.result(), queue.get() is fibers[0], repr(fibers[0].exception))
        thread.join()
        print(fiberrt._fiberrt.frame(fibers[0]), fibers[0].cancel(), fibers[0].state, over)
        """)
    assert (done.code, done.err) == (0, "fiberrt: a thread ends, but 1 of its fibers do not\n")
    lost = "RuntimeError('the fiber was lost with its thread')"
    assert done.out.splitlines() == [f"True True True {lost}", "None False failed [True, 'ran']"]


def test_a_fiber_that_was_lost_with_its_thread_is_joined(lines):
    assert lines("""
        import contextvars, fiberrt, threading
        class Late:
            def __del__(self):
                lost.append(fiberrt.spawn(fiberrt.sleep, 60))
        def work():
            variable.set(Late())
        variable, lost = contextvars.ContextVar('variable'), []
        fiberrt.reschedule()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        while not lost:
            fiberrt.sleep(0.001)
        while not lost[0].join(0.01):
            pass
        print(lost[0].exception)
        """) == ["the fiber was lost with its thread"]


@pytest.mark.parametrize("keep", ["variable.set(Late())", "plain.thing = Late()", "mine.thing = Late()"])
def test_finalizers_of_objects_left_to_a_pool_thread_wait(lines, monkeypatch, keep):
    monkeypatch.setenv("PYTHONMALLOC", "debug")  # so that what was freed is seen
    assert lines(f"""
        import contextvars, fiberrt, threading
        variable, plain, mine = contextvars.ContextVar('variable'), threading.local(), fiberrt.local()
        class Late:
            def __del__(self):
                fiberrt.sleep(0.001)
                seen.append(fiberrt.spawn(lambda: (fiberrt.sleep(0.001), threading.get_ident())[1]).result())
        def call(n):
            {keep}
            return fiberrt.spawn(lambda: (fiberrt.sleep(0.001), n)[1]).result() if n % 2 else n
        seen = []
        print([fiberrt.offload(call, n) for n in range(6)], len(seen), threading.get_ident() in seen)
        """) == ["[0, 1, 2, 3, 4, 5] 6 False"]


def test_others_look_at_a_world_whose_thread_is_ending(lines, monkeypatch):
    monkeypatch.setenv("PYTHONMALLOC", "debug")  # so that what was freed is seen
    assert lines("""
        import contextvars, fiberrt, io, sys, threading
        from fiberrt import _fiberrt
        class Late:
            def __del__(self):
                seen.append(threading.get_ident())
                fiberrt.current()
        def work():
            variable.set(Late())
        def start():
            for _ in range(1000):
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
            seen.append(None)
        variable, seen = contextvars.ContextVar('variable'), [threading.get_ident(), None]
        sys.setswitchinterval(1e-6)
        starter = threading.Thread(target=start)
        numbers = set()
        seen.pop()
        starter.start()
        while None not in seen[-1:]:
            for fiber in _fiberrt.fibers():
                numbers.add(_fiberrt.thread_of(fiber))
                _fiberrt.frame(fiber)
        starter.join()
        print(numbers - {None} <= set(seen))
        """) == ["True"]


def test_lost_objects_are_freed(lines):
    assert lines("""
        import contextvars, fiberrt, os, threading, weakref
        class Late:
            def __del__(self):
                lost.update(fiberrt.spawn(fiberrt.sleep, 60) for _ in range(10))
        def work():
            variable.set(Late())
        variable, lost = contextvars.ContextVar('variable'), weakref.WeakSet()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        while fiberrt._fiberrt.fibers()[1:]:
            fiberrt.sleep(0.001)
        print(len(lost))
        lost.update(fiberrt.spawn(fiberrt.sleep, 60) for _ in range(10))
        pid = os.fork()
        if pid == 0:
            print(len(lost), flush=True)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(lost))
        """) == ["0", "0", "0 10"]


def test_a_forked_child_leaves_reports_to_the_parent(program):
    done = program("""
        import fiberrt, os, sys
        def bad():
            raise ValueError('lost')
        kept = fiberrt.spawn(bad)
        fiberrt.reschedule()
        if os.fork() == 0:
            fiberrt.spawn(bad)
            fiberrt.reschedule()
            sys.exit(0)
        os.wait()
        """)
    assert done.code == 0 and done.err.count("ValueError: lost") == 2


def test_fork_loses_the_main_flow(lines):
    assert lines("""
        import fiberrt, os
        main = fiberrt.current()
        def f():
            pid = os.fork()
            if pid == 0:
                try:
                    main.result()
                except RuntimeError as error:
                    print(error, main.done, repr(main.exception), flush=True)
                return
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        fiberrt.spawn(f).result()
        """) == ["the fiber was lost in a fork True RuntimeError('the fiber was lost in a fork')", "0"]


@pytest.mark.parametrize("where", ["f()", "fiberrt.spawn(f).result()"])
def test_a_forked_child_keeps_its_values(lines, where):
    assert lines(f"""
        import contextvars, fiberrt, os
        mine, variable = fiberrt.local(), contextvars.ContextVar('variable')
        class Thing:
            def __del__(self):
                fiberrt.sleep(0.001)
                if os.getpid() != parent:
                    print('dropped', flush=True)
        parent = os.getpid()
        def f():
            mine.x = 1
            variable.set(2)
            pid = os.fork()
            if pid == 0:
                fiberrt.sleep(0.001)
                print(mine.x, variable.get(), mine.__dict__, fiberrt.current().done, flush=True)
                print(fiberrt.spawn(variable.get).result(), hasattr(mine, 'y'), flush=True)
                mine.y = Thing()
                return os._exit(0) if fiberrt.current().name == 'main' else None
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        {where}
        """) == ["1 2 {'x': 1} False", "2 False"] + ["dropped"] * ("spawn" in where) + ["0"]


def test_finalizers_of_objects_that_a_fork_loses(lines):
    """They wait, and make fibers, which are the child's."""
    assert lines("""
        import fiberrt, os
        class Thing:
            def __del__(self):
                if os.getpid() == parent:
                    return
                fiberrt.sleep(0.001)
                made.append(fiberrt.spawn(lambda: 5))
                fiberrt.reschedule()
        made, parent = [], os.getpid()
        lost = [fiberrt.spawn(print, Thing()) for _ in range(10)]
        pid = os.fork()
        if pid == 0:
            print([fiber.result() for fiber in made], {str(fiber.exception) for fiber in lost}, flush=True)
            os._exit(0)
        for fiber in lost:
            fiber.cancel()
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        """) == ["[5, 5, 5, 5, 5, 5, 5, 5, 5, 5] {'the fiber was lost in a fork'}", "0"]


def test_a_finalizer_forks(lines):
    assert lines("""
        import fiberrt, os
        class Forks:
            def __del__(self):
                pid = os.fork()
                if pid == 0:
                    fiberrt.sleep(0.001)
                    print('child', flush=True)
                else:
                    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        def f(thing): pass
        print(fiberrt.spawn(f, Forks()).join(60))
        """) == ["child", "0", "True"]
