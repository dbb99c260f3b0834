# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Python frames of fibers as the C library reads them, without the GIL, are those that the interpreter has."""

import random
import re
import threading

import fiberrt
import pytest
from fiberrt import _fiberrt

ROOM = 64  # frames that core_frames() reads
FUNCTION, FILE = 111, 135  # bytes of the texts of a frame


def cut(text, most):
    """The text as a frame of the C library has it."""
    octets = text.encode(errors="replace")
    if len(octets) <= most:
        return octets.decode()
    while len(octets) > most - 3:
        text = text[1:]
        octets = text.encode(errors="replace")
    return "..." + octets.decode()


def expected(fiber):
    frames, frame = [], _fiberrt.frame(fiber)
    while frame is not None:
        code = frame.f_code
        frames.append((cut(code.co_filename, FILE), frame.f_lineno or 0, cut(code.co_qualname, FUNCTION)))
        frame = frame.f_back
    if len(frames) > ROOM:
        frames[ROOM - 1 :] = [("", 0, "")]
    return frames


def frames_of_a_parked(function, *arguments):
    """Returns the frames of a fiber that runs the function, as the library and as the interpreter have them."""
    fiber = fiberrt.spawn(function, *arguments)
    for _ in range(3):
        fiberrt.reschedule()
    assert fiber.state == "waiting"
    found = _fiberrt.core_frames(fiber), expected(fiber)
    fiber.cancel()
    fiber.join()
    return found


class Shop:
    def wait(self):
        fiberrt.sleep(600)

    @classmethod
    def of_class(cls):
        cls().wait()

    @staticmethod
    def of_nothing():
        Shop.of_class()

    @property
    def of_property(self):
        self.of_nothing()

    def __enter__(self):
        return self.of_property

    def __exit__(self, *_):
        pass


def generates():
    with Shop() as nothing:
        yield nothing


async def awaits():
    for nothing in generates():
        return nothing


def drives():
    coroutine = awaits()
    try:
        coroutine.send(None)
    except StopIteration:
        pass


def many_shapes(depth=3):
    def inner(number):
        if not number:
            return [drives() for _ in (1,)]
        return sorted([number], key=lambda each: inner(each - 1))

    (
        inner
        (
            depth
        )
    )  # fmt: skip


def test_frames_of_many_shapes():
    core, interpreter = frames_of_a_parked(many_shapes)
    assert core == interpreter
    functions = [function for _, _, function in core]
    assert functions[0] == "Shop.wait" and functions[-1] == "many_shapes" and functions.count("many_shapes.<locals>.inner") == 4
    assert {file for file, _, _ in core} == {cut(__file__, FILE)}


def test_frames_of_the_caller():
    def f():
        core = _fiberrt.core_frames(fiberrt.current())
        return core, expected(fiberrt.current())

    core, interpreter = fiberrt.spawn(f).result()
    assert [(file, function) for file, _, function in core] == [(file, function) for file, _, function in interpreter][1:]
    assert core[0][2].endswith(".<locals>.f") and core[0][1] == f.__code__.co_firstlineno + 1


def test_frames_of_a_fiber_that_has_not_begun_or_has_ended():
    fiber = fiberrt.spawn(lambda: None)
    assert _fiberrt.core_frames(fiber) == []
    assert _fiberrt.id_of(fiber) > 0
    fiber.join()
    assert _fiberrt.core_frames(fiber) is None
    assert _fiberrt.id_of(fiber) == 0


@pytest.mark.parametrize("function", [_fiberrt.core_frames, _fiberrt.id_of, _fiberrt.function_name])
def test_other_arguments_are_refused(function):
    for other in (None, 1, fiberrt):
        with pytest.raises(TypeError):
            function(other)


def test_frames_beyond_the_room_are_told_to_be_missing():
    def deep(number):
        if number:
            return deep(number - 1)
        fiberrt.sleep(600)

    for number in (ROOM - 2, ROOM - 1, ROOM, 300):
        core, interpreter = frames_of_a_parked(deep, number)
        assert core == interpreter
        assert len(core) == min(number + 1, ROOM) and (core[-1] == ("", 0, "")) == (number + 1 > ROOM)


def made(source, file, name="f"):
    names = {"fiberrt": fiberrt}
    exec(compile(source, file, "exec"), names)
    return names[name]


@pytest.mark.parametrize(
    "file", ["short", "", "é.py", "ж" * 67, "ж" * 68, "ж" * 69, "文件" * 100, "x" * 134, "x" * 135, "x" * 136,
             "/a/long/path/" + "y" * 5000 + "/to.py", "🐍" * 40, "a" + "🐍" * 40, "lost\udce9.py"],
)  # fmt: skip
def test_frames_with_names_of_every_kind(file):
    core, interpreter = frames_of_a_parked(made("def f():\n fiberrt.sleep(600)", file))
    assert core == interpreter
    assert len(core[0][0].encode()) <= FILE and core[0][2] == "f"


@pytest.mark.parametrize("name", ["ñ", "变量", "𝒻" * 20, "n" * 110, "n" * 111, "n" * 112, "é" * 300])
def test_frames_of_functions_with_names_of_every_kind(name):
    function = made("def f():\n fiberrt.sleep(600)", "names.py")
    function.__code__ = function.__code__.replace(co_qualname=name)
    core, interpreter = frames_of_a_parked(function)
    assert core == interpreter == [("names.py", 2, cut(name, FUNCTION))]


@pytest.mark.parametrize("lines", [0, 1, 5, 31, 32, 33, 1000, 20_000, 70_000])
def test_lines_far_apart(lines):
    """A call over many lines, behind as many statements."""
    source = "def f():\n" + " x = 1\n" * lines + " try:\n  (fiberrt." + "\n" * lines + "sleep(\n" + "\n" * lines + "600))\n finally:\n  pass\n"
    core, interpreter = frames_of_a_parked(made(source, "long.py"))
    assert core == interpreter and core[0][1] > 2 * lines


def test_lines_of_statements_that_stand_in_another_order():
    """The line of the present instruction may be before that of the one before it."""
    source = (
        "def f():\n"
        " for i in range(3):\n"
        "  if i == 2:\n"
        "   try:\n"
        "    raise ValueError\n"
        "   except ValueError as e:\n"
        "    (lambda: (\n"
        "     e,\n"
        "     fiberrt.sleep(600)))()\n"
        "   finally:\n"
        "    pass\n"
    )
    core, interpreter = frames_of_a_parked(made(source, "order.py"))
    assert core == interpreter and [line for _, line, _ in core] == [9, 7]


def test_code_without_lines():
    function = made("def f():\n fiberrt.sleep(600)", "none.py")
    for table in (b"", b"\xff" * 8, b"\x80" * 2, bytes(range(256)) * 20, b"\xf7" + b"\x7f" * 50):
        function.__code__ = function.__code__.replace(co_linetable=table)
        core, interpreter = frames_of_a_parked(function)
        assert [(file, name) for file, _, name in core] == [("none.py", "f")]
        if table != bytes(range(256)) * 20 and table[:1] != b"\xf7":  # these are no tables
            assert core == interpreter


def random_program(seed):
    """A program of some functions, whose call f0() calls others until one waits."""
    dice = random.Random(seed)
    lines = []
    count = dice.randrange(1, 12)
    for number in range(count):
        lines += ["" for _ in range(dice.randrange(4))]
        lines.append(f"def f{number}():")
        lines += [f" x{i} = {i}" for i in range(dice.randrange(5))]
        call = "fiberrt.sleep(600)" if number == count - 1 else f"f{number + 1}()"
        lines += dice.choice([
            [f" return {call}"],
            [" return [", "", f"  {call} for _ in", "  (1,)]"],
            [" try:", "  raise KeyError", " except KeyError:", f"  {call}"],
            [" if x0 if 0 else 1:", "  def g():", f"   yield {call}", "  for _ in g(): pass"],
            [f" return max([1], key=lambda _: ({call}, 1)[1])"],
            [" class Local:", "  def __add__(self, _):", f"   {call}", " Local() + 1"],
            [f" exec('\\n\\n{call}', globals())"],
        ])  # fmt: skip
    return made("\n".join(lines), f"program {seed}", "f0")


def test_frames_of_1000_random_fibers():
    fibers = [fiberrt.spawn(random_program(seed)) for seed in range(1000)]
    fiberrt.sleep(0.001)
    assert {fiber.state for fiber in fibers} == {"waiting"}
    for fiber in fibers:
        assert _fiberrt.core_frames(fiber) == expected(fiber)
    for fiber in fibers:
        fiber.cancel()
        fiber.join()


def test_frames_of_another_thread_that_sleeps():
    there = []

    def thread():
        over = fiberrt.Event()
        fibers = [fiberrt.spawn(many_shapes, depth) for depth in range(1, 5)]
        there.append((over, [*fibers, fiberrt.current()]))
        over.wait()
        for fiber in fibers:
            fiber.cancel()
            fiber.join()

    thread_of_fibers = threading.Thread(target=thread)
    thread_of_fibers.start()
    while not there or any(fiber.state != "waiting" for fiber in there[0][1][:-1]):
        fiberrt.sleep(0.001)
    over, fibers = there[0]
    for fiber in fibers:
        while (core := _fiberrt.core_frames(fiber)) is None:  # its thread is about to sleep
            fiberrt.sleep(0.001)
        assert core == expected(fiber)
    assert _fiberrt.core_frames(fibers[-1])[0][2].endswith("<locals>.thread")
    over.set()
    thread_of_fibers.join()


def test_frames_of_fibers_that_run_on_meanwhile(program):
    """Answers are whole stacks, never mixtures; and nothing crashes while functions come and go."""
    done = program(
        r"""
        import random, threading
        import fiberrt
        from fiberrt import _fiberrt

        over = False
        fibers = []

        def make(depth):
            # Each stack has one number in all of its names and lines.
            source = "\n" * depth + "".join(
                f"def f{i}(): {'fiberrt.sleep(0)' if i == depth else f'f{i + 1}()'};\n" for i in range(depth + 1))
            names = {"fiberrt": fiberrt}
            exec(compile(source, f"file {depth}", "exec"), names)
            return names["f0"]

        def work():
            while not over:
                make(random.randrange(1, 30))()

        def thread():
            global fibers
            fibers = [fiberrt.spawn(work) for _ in range(10)]
            for fiber in fibers:
                fiber.join()

        t = threading.Thread(target=thread)
        t.start()
        while not fibers:
            pass
        told = parked = 0
        while parked < 1000:
            for fiber in fibers:
                found = _fiberrt.core_frames(fiber)
                if found is None:
                    continue
                told += 1
                assert found == [] or found[-1][2] in ("work", "?"), found
                stack = [frame for frame in found if frame[0].startswith("file ")]
                if not stack or stack[0][2] == "<module>":
                    continue
                parked += 1
                depth = int(stack[0][0].split()[1])
                assert found == [(f"file {depth}", depth + i + 1, f"f{i}") for i in range(depth, -1, -1)] + found[-1:], found
        over = True
        t.join()
        print("told", told >= parked)
        """
    )
    assert (done.code, done.out, done.err) == (0, "told True\n", "")


def test_the_layout_is_known_for_a_thread_without_the_gil(program):
    """A thread in a long call of C code: its main flow runs, and is not told."""
    done = program(
        """
        import threading, time
        import fiberrt
        from fiberrt import _fiberrt

        flows = []

        def thread():
            flows.append(fiberrt.current())
            while flows:
                time.sleep(0.01)

        t = threading.Thread(target=thread)
        t.start()
        while not flows:
            time.sleep(0.01)
        print(_fiberrt.core_frames(flows[0]))
        flows.clear()
        t.join()
        """
    )
    assert (done.code, done.out, done.err) == (0, "None\n", "")


def test_names_in_the_core_s_dump():
    def waits():
        fiberrt.sleep(600)

    fibers = [fiberrt.spawn(waits) for _ in range(3)]
    fiberrt.reschedule()
    text = _fiberrt.core_text(1 | 4).decode()
    assert len(re.findall(r'"function":"[\w.]*<locals>\.waits"', text)) == 3
    assert len(re.findall(r'"function_name":"[\w.]*<locals>\.waits"', text)) == 3
    for fiber in fibers:
        fiber.cancel()
        fiber.join()
