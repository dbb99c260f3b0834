# SPDX-License-Identifier: MIT OR Apache-2.0
"""OpenTelemetry's current span follows the fiber, with its packages as they are."""

import re
import runpy
import subprocess
import sys
import threading
from pathlib import Path

import fiberrt
import pytest
import servers

servers.needs("the tests of OpenTelemetry", "opentelemetry.sdk.trace")

from opentelemetry import context, trace  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

COUNT = 100


@pytest.fixture
def traced():
    """A tracer, and a function that returns the finished spans: a dict from each span's name to that of its parent."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def parents():
        spans = exporter.get_finished_spans()
        names = {span.context.span_id: span.name for span in spans}
        assert len(set(names.values())) == len(spans)
        return {span.name: names[span.parent.span_id] if span.parent else None for span in spans}

    return provider.get_tracer("fibers"), parents


def test_spans_of_100_concurrent_fibers(traced):
    """All fibers open their spans in turn, and hold them while the others go on; spawned fibers continue the span."""
    tracer, parents = traced
    barrier = [0]

    def meet(number):
        barrier[0] += 1
        while barrier[0] < number * COUNT:
            fiberrt.reschedule()

    def child(name):
        with tracer.start_as_current_span(name) as span:
            fiberrt.reschedule()
            assert trace.get_current_span() is span

    def request(number):
        with tracer.start_as_current_span(f"request {number}") as outer:
            meet(1)
            assert trace.get_current_span() is outer
            with tracer.start_as_current_span(f"query of {number}") as inner:
                meet(2)
                assert trace.get_current_span() is inner
                fiber = fiberrt.spawn(child, f"child of {number}")
            with fiberrt.TaskGroup() as group:
                group.spawn(child, f"task of {number}")
                group.spawn(fiberrt.to_thread, child, f"thread of {number}")
            fiber.join()
            assert trace.get_current_span() is outer
        assert trace.get_current_span() is trace.INVALID_SPAN

    with fiberrt.TaskGroup() as group:
        for number in range(COUNT):
            group.spawn(request, number)
    expected = {}
    for number in range(COUNT):
        expected[f"request {number}"] = None
        expected |= {f"{kind} of {number}": f"request {number}" for kind in ("query", "task", "thread")}
        expected[f"child of {number}"] = f"query of {number}"
    assert parents() == expected


def test_spans_of_fibers_of_several_threads(traced):
    tracer, parents = traced

    def request(name):
        with tracer.start_as_current_span(name):
            fiberrt.sleep(0.001)
            with tracer.start_as_current_span(f"part of {name}"):
                fiberrt.sleep(0.001)

    def thread(name):
        with tracer.start_as_current_span(name):
            with fiberrt.TaskGroup() as group:
                for number in range(20):
                    group.spawn(request, f"{number} of {name}")

    threads = [threading.Thread(target=thread, args=(f"thread {number}",)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    found = parents()
    assert len(found) == 4 * 41
    for name, parent in found.items():
        kind, _, of = name.partition(" of ")
        assert parent == (None if kind.startswith("thread") else of)


def test_baggage_and_a_span_that_is_attached_by_hand_stay_with_the_fiber(traced):
    from opentelemetry import baggage

    tracer, _ = traced

    def request(number):
        token = context.attach(baggage.set_baggage("number", number))
        span = tracer.start_span(f"request {number}")
        fiberrt.reschedule()
        with trace.use_span(span, end_on_exit=True):
            fiberrt.reschedule()
            assert baggage.get_baggage("number") == number and trace.get_current_span() is span
        fiberrt.reschedule()
        context.detach(token)  # OpenTelemetry logs an error if this is another context
        assert baggage.get_baggage("number") is None

    fibers = [fiberrt.spawn(request, number) for number in range(COUNT)]
    for fiber in fibers:
        fiber.result()
    assert baggage.get_baggage("number") is None


def test_a_cancelled_fiber_ends_its_spans(traced):
    tracer, parents = traced

    def request():
        with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner"):
            fiberrt.sleep(600)

    fiber = fiberrt.spawn(request)
    fiberrt.reschedule()
    assert parents() == {}
    fiber.cancel()
    fiber.join()
    assert parents() == {"inner": "outer", "outer": None}
    assert trace.get_current_span() is trace.INVALID_SPAN


def the_example():
    path = Path(__file__).parent.parent / "examples" / "spans.py"
    if not path.exists():
        servers.did_not_run("the test of the example spans", "the tests are not next to the sources")
    return str(path)


@pytest.mark.parametrize("options", [[], ["-m", "fiberrt"]])
def test_the_example(options):
    done = subprocess.run([sys.executable, *options, the_example()], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    requests = runpy.run_path(the_example())["REQUESTS"]
    assert requests == COUNT and len(lines) == 7 * COUNT
    for at in range(0, len(lines), 7):
        order = re.fullmatch(r"order (\d+)", lines[at])[1]
        children = sorted(zip(lines[at + 1 : at + 7 : 2], lines[at + 2 : at + 7 : 2]))
        assert children == [
            (f"  look up the {what} of {order}", f"    read the {what} of {order}") for what in ("customer", "price", "stock")
        ]
    assert {int(line.split()[1]) for line in lines[::7]} == set(range(COUNT))
