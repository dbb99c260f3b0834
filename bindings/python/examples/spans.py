# SPDX-License-Identifier: MIT OR Apache-2.0
"""OpenTelemetry's current span follows the fiber: a hundred requests are served at the same time on one thread, and each
span gets the right parent. Nothing here is special to fibers. Needs the package opentelemetry-sdk.

OpenTelemetry keeps the current span in a context variable. A fiber begins with a copy of the context in which it was
spawned, and so does a function that to_thread() calls.
"""

import random

import fiberrt
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

REQUESTS = 100
tracer = trace.get_tracer("spans")


def look_up(what: str, order: int) -> None:
    with tracer.start_as_current_span(f"look up the {what} of {order}"):
        fiberrt.sleep(random.uniform(0, 0.01))  # meanwhile, other fibers have other current spans
        with tracer.start_as_current_span(f"read the {what} of {order}"):
            fiberrt.sleep(random.uniform(0, 0.01))


def serve(order: int) -> None:
    with tracer.start_as_current_span(f"order {order}"):
        fiberrt.sleep(random.uniform(0, 0.01))
        with fiberrt.TaskGroup() as group:
            group.spawn(look_up, "price", order)
            group.spawn(look_up, "stock", order)
            group.spawn(fiberrt.to_thread, look_up, "customer", order)  # on another thread
        trace.get_current_span().set_attribute("done", True)


def tree(spans: list[ReadableSpan], parent: int | None = None, depth: int = 0) -> list[str]:
    """Return the names of the spans, each one indented below its parent, in the order of their beginnings."""
    lines = []
    for span in spans:
        if (span.parent.span_id if span.parent else None) == parent:
            assert span.context
            lines += ["  " * depth + span.name, *tree(spans, span.context.span_id, depth + 1)]
    return lines


def main() -> None:
    exporter = InMemorySpanExporter()  # a real program exports to a collector
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    with fiberrt.TaskGroup() as group:
        for order in range(REQUESTS):
            group.spawn(serve, order)
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
    print("\n".join(tree(spans)))


if __name__ == "__main__":
    main()
