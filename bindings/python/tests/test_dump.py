# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.dump(): as a dict, grouped, and with frames of C code."""

import io
import json
import os
import threading

import fiberrt
import pytest
from fiberrt import _fiberrt


def waits_here():
    fiberrt.sleep(600)


def calls():
    waits_here()


@pytest.fixture
def parked():
    """Two fibers that wait, and one that has not begun."""
    fibers = [fiberrt.spawn(waits_here), fiberrt.spawn(calls)]
    fiberrt.reschedule()
    fibers.append(fiberrt.spawn(calls))
    yield fibers
    for fiber in fibers:
        fiber.cancel()
    for fiber in fibers:
        fiber.join()


def entries(dump):
    return {each["name"]: each for each in dump["fibers"] if "python_frames" in each}


def functions(entry):
    return [frame["function"] for frame in entry["python_frames"]]


def test_a_dump_as_a_dict(parked):
    waits, called, new = parked
    waits.name = "the first: ä\n\"文\""
    dump = fiberrt.dump(json=True)
    assert json.loads(json.dumps(dump)) == dump
    assert dump["fiberrt"] == fiberrt.__version__ and dump["pid"] == os.getpid() and dump["now_ns"] > 0
    assert dump["deadlocks"] == dump["wait_circles"] == dump["incomplete"] == []
    found = entries(dump)
    entry = found[waits.name]
    line = waits_here.__code__.co_firstlineno + 1
    assert entry["python_frames"] == [{"file": __file__, "line": line, "function": "waits_here"}]
    assert (entry["state"], entry["wait"], entry["waits_for"]) == ("waiting", "sleeps", "sleep")
    assert entry["still"] and not entry["main_flow"] and not entry["cancelled"] and "frames" not in entry
    assert 500e9 < entry["wait_left_ns"] <= 600e9
    assert entry["id"] == str(_fiberrt.id_of(waits)) and entry["function_name"] == "waits_here"
    assert 0 < entry["stack_used"] <= entry["stack_touched"] <= entry["stack_size"]
    assert functions(found[called.name]) == ["waits_here", "calls"] and found[called.name]["function_name"] == "calls"
    assert functions(found[new.name]) == [] and found[new.name]["function_name"] == "calls"
    assert found[new.name]["state"] == "runnable" and found[new.name]["wait_left_ns"] is None
    assert found["main"]["state"] == "running" and functions(found["main"])[0] == "test_a_dump_as_a_dict"
    (cord,) = [each for each in dump["cords"] if each["id"] == entry["cord"]]
    assert cord["name"] == threading.current_thread().name and cord["thread"] == threading.get_native_id()
    assert not cord["ended"] and cord["fibers"] >= 4


def test_parents_deadlines_and_cancels_in_a_dump():
    def opens():
        with fiberrt.move_on_after(500), fiberrt.TaskGroup() as group:
            group.spawn(waits_here).name = "child"

    fiber = fiberrt.spawn(opens)
    fiber.name = "opener"
    while "child" not in entries(fiberrt.dump(json=True)):
        fiberrt.reschedule()
    fiberrt.reschedule()
    found = entries(fiberrt.dump(json=True))
    assert 400e9 < found["opener"]["wait_left_ns"] <= 500e9
    assert found["opener"]["waits_for"] and functions(found["opener"])[-1].endswith("<locals>.opens")
    fiber.cancel()
    assert entries(fiberrt.dump(json=True))["opener"]["cancelled"]
    fiber.join()


def test_a_dump_as_a_dict_with_frames_of_c_code(parked):
    found = entries(fiberrt.dump(json=True, c_frames=True))
    for fiber in parked[:2]:
        frames = found[fiber.name]["frames"]
        assert frames and all(int(frame["pc"], 16) for frame in frames)
        assert functions(found[fiber.name])[0] == "waits_here"
    assert found[parked[2].name]["frames"] == []
    assert functions(found["main"])[0] == "test_a_dump_as_a_dict_with_frames_of_c_code" and found["main"]["frames"]


def test_a_dump_as_a_dict_of_other_threads():
    def thread():
        over = fiberrt.Event()
        fiber = fiberrt.spawn(waits_here)
        fiber.name = "elsewhere"
        there.append(over)
        over.wait()
        fiber.cancel()
        fiber.join()

    def spins():
        there.append(None)
        while there:
            pass

    there = []
    threads = [threading.Thread(target=thread, name="it waits"), threading.Thread(target=spins, name="it runs")]
    threads[0].start()
    while not there or "elsewhere" not in entries(fiberrt.dump(json=True)):
        fiberrt.sleep(0.001)
    while functions(found := entries(fiberrt.dump(json=True))["elsewhere"]) != ["waits_here"]:
        fiberrt.sleep(0.001)
    assert found["wait"] == "sleeps" and found["waits_for"] == "sleep"
    dump = fiberrt.dump(json=True)
    (cord,) = [each for each in dump["cords"] if each["id"] == found["cord"]]
    assert cord["name"] == "it waits" and cord["thread"] == threads[0].native_id
    over = there.pop()
    over.set()
    threads[0].join()
    # A fiber that runs in another thread, where it waits for the GIL, is told, too.
    threads[1] = threading.Thread(target=lambda: fiberrt.spawn(spins).join(), name="it runs")
    threads[1].start()
    while not there:
        fiberrt.sleep(0.001)
    dump = fiberrt.dump(json=True, c_frames=True)
    (found,) = [each for each in entries(dump).values() if functions(each)[:1] and "<locals>.spins" in functions(each)[0]]
    assert found["state"] == "running" and found["frames"] == [] and found["python_frames_complete"]
    there.clear()
    threads[1].join()


def test_equal_stacks_are_counted():
    fibers = [fiberrt.spawn(waits_here) for _ in range(1200)] + [fiberrt.spawn(calls) for _ in range(7)]
    fiberrt.sleep(0.001)
    dump = fiberrt.dump(json=True, grouped=True)
    assert "fibers" not in dump and json.loads(json.dumps(dump)) == dump
    of_python = [group for group in dump["groups"] if "python_frames" in group]
    groups = [group for group in of_python if "waits_here" in functions(group)]
    assert [group["count"] for group in groups] == [1200, 7]
    assert [functions(group) for group in groups] == [["waits_here"], ["waits_here", "calls"]]
    ids = {str(_fiberrt.id_of(fiber)) for fiber in fibers}
    for group in groups:
        assert group["state"] == "waiting" and group["wait"] == "sleeps" and set(group["fibers"]) <= ids
        assert len(group["fibers"]) == min(8, group["count"])
    text = io.StringIO()
    fiberrt.dump(text, grouped=True)
    lines = text.getvalue().splitlines()
    at = lines.index("1,200 fibers, waiting: sleeps")
    assert lines[at + 1].startswith("    ") and lines[at + 1].endswith(", …")
    some = lines[at + 1].strip().removesuffix(", …").split(", ")
    assert len(set(some)) == 8 and set(some) <= {fiber.name for fiber in fibers[:1200]}
    assert lines[at + 2] == f'    File "{__file__}", line {waits_here.__code__.co_firstlineno + 1}, in waits_here'
    at = lines.index("7 fibers, waiting: sleeps")
    assert sorted(lines[at + 1].strip().split(", ")) == sorted(fiber.name for fiber in fibers[1200:])
    assert [line.split()[-1] for line in lines[at + 2 : at + 4]] == ["calls", "waits_here"]
    assert "    C #0 " not in text.getvalue()
    text = io.StringIO()
    fiberrt.dump(text, grouped=True, c_frames=True)
    assert "    C #0 " in text.getvalue()
    for fiber in fibers:
        fiber.cancel()
    for fiber in fibers:
        fiber.join()


def test_a_dump_as_text_with_frames_of_c_code(parked):
    plain, with_c = io.StringIO(), io.StringIO()
    fiberrt.dump(plain)
    fiberrt.dump(with_c, c_frames=True)
    assert "    C #0 " in with_c.getvalue() and "    C #" not in plain.getvalue()
    assert "in waits_here" in with_c.getvalue() and "fiberrt/_dump.py" not in with_c.getvalue()


def test_arguments_of_dump():
    with pytest.raises(TypeError, match="writes no file"):
        fiberrt.dump(io.StringIO(), json=True)
    with pytest.raises(TypeError):
        fiberrt.dump(None, True)
    for flags in (-1, 1 << 40, "json", None):
        with pytest.raises(ValueError):
            _fiberrt.core_text(flags)
    with pytest.raises(OSError):
        _fiberrt.core_text(1 << 20)


def test_a_dump_without_descriptors(program):
    done = program(
        """
        import fiberrt, resource, io, json, threading, traceback
        fiberrt.current()
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        for arguments in ({"json": True}, {"grouped": True}, {"c_frames": True}):
            try:
                fiberrt.dump(**arguments)
            except OSError as error:
                print(error.errno)
        text = io.StringIO()
        fiberrt.dump(text)
        print("main" in text.getvalue())
        """
    )
    assert (done.code, done.out, done.err) == (0, "24\n24\n24\nTrue\n", "")


def test_the_types_of_a_dump_have_all_its_members(parked):
    from fiberrt import _dumped

    def unknown(entries, kind):
        return {key for entry in entries for key in entry} - kind.__annotations__.keys()

    fiberrt.accounting()
    try:
        fiberrt.reschedule()
        for grouped in (False, True):
            dump = fiberrt.dump(json=True, c_frames=not grouped, grouped=grouped)
            assert not unknown([dump], _dumped.GroupedDump if grouped else _dumped.Dump)
            assert not unknown(dump["cords"], _dumped.DumpedCord)
            assert not unknown(dump.get("fibers", ()), _dumped.DumpedFiber)
            assert not unknown(dump.get("groups", ()), _dumped.DumpedGroup)
            if not grouped:
                assert any("turns" in fiber for fiber in dump["fibers"])
                assert any("slice" in cord for cord in dump["cords"])
    finally:
        fiberrt.accounting(False)
