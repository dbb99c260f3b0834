# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recursion through C code of every kind ends with RecursionError, never with SIGSEGV."""

import sys

import pytest
from servers import did_not_run

DEBUG = hasattr(sys, "gettotalrefcount")

SHAPES = {
    "getattr": "class A:\n    def __getattr__(s, n): return getattr(s, n + 'x')\ndef go(): A().x",
    "sorted": "def go(): return sorted([1], key=lambda x: go())",
    "list_sort": "def go(): return [1, 2].sort(key=lambda x: go())",
    "max": "def go(): return max([1], key=lambda x: go())",
    "map": "def go(): return list(map(lambda x: go(), [1]))",
    "filter": "def go(): return list(filter(lambda x: go(), [1]))",
    "reduce": "import functools\ndef go(): return functools.reduce(lambda a, b: go(), [1, 2])",
    "call": "class A:\n    def __call__(s, *a): return next(map(s, [1]))\ndef go(): A()()",
    "new": "class A:\n    def __new__(c): return A()\ndef go(): A()",
    "bool": "class A:\n    def __bool__(s): return bool(s)\ndef go(): bool(A())",
    "eq": "class A:\n    def __eq__(s, o): return s == o\ndef go(): A() == 1",
    "lt": "class A:\n    def __lt__(s, o): return bool(sorted([A(), A()]))\ndef go(): A() < 1",
    "hash": "class A:\n    def __hash__(s): return hash(s)\ndef go(): hash(A())",
    "str": "class A:\n    def __str__(s): return '%s' % s\ndef go(): str(A())",
    "format": "class A:\n    def __format__(s, x): return f'{s}'\ndef go(): f'{A()}'",
    "iter": "class A:\n    def __iter__(s): return iter(list(s))\ndef go(): iter(A())",
    "index": "class A:\n    def __index__(s): return [1][A()]\ndef go(): [1][A()]",
    "getitem": "class A:\n    def __getitem__(s, i): return s[i]\ndef go(): A()[1]",
    "setattr": "class A:\n    def __setattr__(s, n, v): s.x = 1\ndef go(): setattr(A(), 'x', 1)",
    "contains": "class A:\n    def __contains__(s, x): return x in s\ndef go(): 1 in A()",
    "instancecheck": "class M(type):\n    def __instancecheck__(c, o): return isinstance(o, (c,))\n"
    "class A(metaclass=M): pass\ndef go(): isinstance(1, A)",
    "property": "import operator\nclass A:\n    @property\n    def x(s): return operator.attrgetter('x')(s)\n"
    "def go(): A().x",
    "yield_from": "def g(): yield from g()\ndef go(): list(g())",
    "join": "def go(): return ''.join(go() for _ in (1,))",
    "re_sub": "import re\ndef go(): return re.sub('a', lambda m: go(), 'a')",
    "exec": "def go(): exec('go()', globals())",
    "eval": "def go(): return eval('go()', globals())",
    "bisect": "import bisect\ndef go(): bisect.insort([1], 2, key=lambda k: go())",
    "defaultdict": "import collections\ndef go(): return collections.defaultdict(go)[1]",
    "deepcopy": "import copy\nclass A:\n    def __deepcopy__(s, m): return copy.deepcopy(A())\n"
    "def go(): copy.deepcopy(A())",
    "pickle": "import pickle\nclass A:\n    def __reduce__(s): return A, (pickle.dumps(s),)\n"
    "def go(): pickle.dumps(A())",
    "json_default": "import json\ndef go(): return json.dumps(object(), default=lambda o: go())",
    "json_loads": "import json\ndef go(): json.loads('[' * 100000)",
    "json_dumps": "import json\na = []\nfor i in range(100000): a = [a]\ndef go(): json.dumps(a)",
    "repr_of_lists": "a = []\nfor i in range(100000): a = [a]\ndef go(): repr(a)",
    "lists_compared": "a, b = [], []\nfor i in range(100000): a, b = [a], [b]\ndef go(): a == b",
    "pickle_of_lists": "import pickle\na = []\nfor i in range(100000): a = [a]\ndef go(): pickle.dumps(a)",
    "parser": "def go(): eval('-' * 100000 + '1')",
    "parser_of_brackets": "def go(): eval('(' * 10000)",
    "literal_eval": "import ast\na = ast.Constant(1)\nfor i in range(5000): a = ast.List([a])\ndef go(): ast.literal_eval(a)",
    "compiler": "def go(): compile('+'.join(['x'] * 50000), '', 'eval')\ntry: go()\n"
    "except (RecursionError, MemoryError): pass\n"
    "else: go = lambda: (_ for _ in ()).throw(RecursionError)",
    "python": "def go(): go()",
}

PROGRAM = """
import sys, fiberrt
source, stack = sys.argv[1], int(sys.argv[2])
exec(source, globals())
def run():
    try:
        go()
    except (RecursionError, MemoryError, SyntaxError) as error:
        return type(error).__name__
    return 'none'
if stack:
    fiberrt.stack_size(stack)
fibers = [fiberrt.spawn(run) for _ in range(2)]
sys.setrecursionlimit(int(sys.argv[3]))
print(*[fiber.result() for fiber in fibers])
"""


# 1 MiB is what README recommends for very many fibers. The parser of a debug build needs more.
@pytest.mark.parametrize("stack", [8 << 20, 1 << 20])
@pytest.mark.parametrize("shape", SHAPES)
def test_recursion(lines, shape, stack):
    if DEBUG and stack < 8 << 20 and shape.startswith("parser"):
        did_not_run("the parser's recursion on stacks of 1 MiB", "the frames of a debug interpreter's parser are larger")
    [line] = lines(PROGRAM, SHAPES[shape], str(stack), "1000")
    assert set(line.split()) <= {"RecursionError", "MemoryError", "SyntaxError"}


@pytest.mark.parametrize("shape", ["getattr", "sorted", "lt", "json_loads", "call", "exec", "python"])
def test_recursion_on_other_stacks_and_with_other_limits(lines, shape):
    for stack in (256 << 10, 8 << 20):
        for limit in (1000, 20000):
            [line] = lines(PROGRAM, SHAPES[shape], str(stack), str(limit))
            assert set(line.split()) <= {"RecursionError", "MemoryError"}  # this is the parser's, of exec


def test_a_thousand_levels_less_some_of_plain_functions(lines):
    [line] = lines("""
        import fiberrt
        def deep(n): return deep(n - 1) if n else 'deep'
        print(fiberrt.spawn(deep, 950).result())
    """)
    assert line == "deep"


@pytest.mark.skipif(DEBUG, reason="objects and frames of a debug build are larger")
@pytest.mark.parametrize("stack, most", [(8 << 20, 10 * 1024), (1 << 20, 8 * 1024)])
def test_memory_of_waiting_fibers(lines, stack, most):
    # A page of the stack, a page of the page table (on stacks of 1 MiB: half of one), 1 KB of objects. After the end,
    # the pages of the stacks go back to the system.
    each, end = lines("""
        import sys, fiberrt
        def memory(path, name):
            with open(path) as file:
                return sum(int(line.split()[1]) for line in file if line.startswith(name)) * 1024
        def resident(): return memory('/proc/self/smaps_rollup', 'Rss:')
        def page_tables(): return memory('/proc/self/status', 'VmPTE:')
        fiberrt.stack_size(int(sys.argv[1]))
        count = 2000
        event = fiberrt.Event()
        def nested(i):
            if i: nested(i - 1)
            else: event.wait()
        waits = [event.wait, lambda: event.wait(1000), lambda: nested(2)]
        def spawn(count):
            fibers = [fiberrt.spawn(waits[i % len(waits)]) for i in range(count)]
            fiberrt.reschedule()
            return fibers
        def end(fibers):
            event.set()
            for fiber in fibers: fiber.join()
            event.clear()
        end(spawn(len(waits)))
        resident_before, page_tables_before = resident(), page_tables()
        fibers = spawn(count)
        resident_most = resident()
        print((resident_most - resident_before + page_tables() - page_tables_before) // count)
        end(fibers)
        while resident() > resident_most - count * 4096 * 9 // 10:
            fiberrt.sleep(0.01)
        print("given back")
    """, str(stack))
    assert int(each) <= most
    assert end == "given back"


DEEP = """
import sys, threading, fiberrt
if sys.argv[1] == "patch":
    import fiberrt.monkey
    fiberrt.monkey.patch()
def deep(n): return deep(n - 1) + 1 if n else 0
def go(): return sorted([1], key=lambda x: go())
def run(most):
    try: print(deep(most))
    except RecursionError: print("RecursionError")
    try: go()
    except RecursionError: print("RecursionError")
"""


@pytest.mark.parametrize("how", ["spawn", "patch"])
def test_a_recursion_limit_holds(lines, how):
    # As deep as in a thread's main flow, also where levels of Python and of C are counted as one (3.11).
    assert lines(DEEP + """
def at(limit, most):
    sys.setrecursionlimit(limit)
    if sys.argv[1] == "patch":
        thread = threading.Thread(target=run, args=(most,)); thread.start(); thread.join()
    else:
        fiberrt.spawn(run, most).result()
at(1000, 950); at(30000, 29900); at(30000, 30000); at(500, 450); at(500, 500)
""", how) == [
        "950", "RecursionError", "29900", "RecursionError", "RecursionError", "RecursionError", "450", "RecursionError",
        "RecursionError", "RecursionError",
    ]  # fmt: skip


@pytest.mark.parametrize("stack", [256 << 10, 2 << 20, 8 << 20])
def test_a_fiber_that_sets_the_limit_itself_does_not_crash(lines, stack):
    assert lines(DEEP + """
def here():
    sys.setrecursionlimit(50000)
    run(10)
    try: sys.setrecursionlimit(1)
    except RecursionError: print("too low")
    print(sys.getrecursionlimit())
def after():
    run(10)
    for wrong in 0, -1, "x":
        try: sys.setrecursionlimit(wrong)
        except (TypeError, ValueError) as error: print(type(error).__name__)
fiberrt.stack_size(int(sys.argv[2]))
first, second = fiberrt.spawn(here), fiberrt.spawn(after)
first.result(); second.result()
""", "", str(stack)) == [
        "10", "RecursionError", "too low", "50000", "10", "RecursionError", "ValueError", "ValueError", "TypeError",
    ]  # fmt: skip


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_AS, ({} << 20, resource.getrlimit(resource.RLIMIT_AS)[1]))
import fiberrt.monkey, threading
"""


def test_without_address_space_for_another_stack_spawn_raises(lines):
    [first, all_done, again, thread, in_fiber] = lines(
        LIMITED.format(400)
        + """
fiberrt.monkey.patch()  # its libraries are mapped now
go = fiberrt.Event()
fibers = []
try:
    while len(fibers) < 1000: fibers.append(fiberrt.spawn(go.wait))
except MemoryError: pass
print(len(fibers))
go.set()
print(all(fiber.result() for fiber in fibers))
print(fiberrt.spawn(lambda: 7).result())
go.clear()
threads = []
try:
    while len(threads) < 1000:
        threads.append(threading.Thread(target=go.wait))
        threads[-1].start()
except RuntimeError as error: print(error)
go.set()
for thread in threads[:-1]: thread.join()
def spawns():
    kept = []
    wait = fiberrt.Event()
    try:
        while len(kept) < 1000: kept.append(fiberrt.spawn(wait.wait))
    except MemoryError: wait.set()
    return all(fiber.result() for fiber in kept), 0 < len(kept) < 1000
print(*fiberrt.spawn(spawns).result())
"""
    )
    assert 0 < int(first) < 1000
    assert (all_done, again, thread, in_fiber) == ("True", "7", "can't start new thread", "True True")


def test_with_limited_address_space_fibers_begin_at_their_turn(lines):
    assert lines(
        LIMITED.format(1 << 20)
        + """
ran = []
fibers = [fiberrt.spawn(ran.append, i) for i in range(100)]
print(ran, fibers[0].cancel(), fibers[1].throw(KeyError))
class Dropped:
    def __del__(self): fibers.append(fiberrt.spawn(ran.append, "finalizer"))
fibers.append(fiberrt.spawn(lambda dropped: None, Dropped()))
fiberrt.reschedule()
fiberrt.reschedule()
print(ran == [*range(2, 100), "finalizer"], fibers[0].cancelled, repr(fibers[1].exception))
def cancelled():
    fiberrt.current().cancel()
    fibers.append(fiberrt.spawn(ran.append, "of a cancelled one"))
fiberrt.spawn(cancelled).join()
fibers[-1].join()
print(ran[-1])
"""
    ) == ["[] True None", "True True KeyError()", "of a cancelled one"]
