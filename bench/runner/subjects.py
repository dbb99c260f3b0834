# SPDX-License-Identifier: MIT OR Apache-2.0
"""The subjects, and the benchmarks that each can measure on this machine."""

from runner.adopted import Https, Query
from runner.benches import BENCHES, GROUPS, Failure, LeftOut
from runner.copying import Copy
from runner.of_python import Python
from runner.servers import Echo, Http
from runner.suite import Suite


SUBJECTS = {
    "bare": (Suite,), "fiberrt": (Suite, Echo, Http, Https, Query, Copy, Python), "cxx20": (Suite,), "boost_context": (Suite,),
    "boost_fiber": (Suite,), "state_threads": (Suite,), "epoll": (Echo,), "uring": (Echo,), "uring_multi": (Echo,),
    "fiberrt_ev": (Echo, Copy), "libev": (Echo,), "libuv": (Echo,), "nginx": (Http, Https), "threads": (Query,), "gevent_psycogreen": (Query,), "tool": (Copy,),
    **dict.fromkeys(("gevent", "greenlet", "asyncio", "uvloop", "fiberrt_asyncio", "asyncio_protocol", "uvloop_protocol",
                     "fiberrt_asyncio_protocol"), (Python,)),
}


KINDS = {"echo": Echo, "http": Http, "https": Https, "query": Query, "copy": Copy, **dict.fromkeys(GROUPS["python"], Python)}  # of all other benchmarks: Suite


def find_subjects(arguments, benches):
    """The subjects that can measure a benchmark, {(bench, shape, subject): object}, and the reasons why others cannot,
    {(subject, kind): reason}. Programs that none of the named benchmarks needs are left out."""
    found, missing = {}, {}
    for subject in arguments.subjects:
        for kind in SUBJECTS[subject]:
            if kind not in {KINDS.get(bench, Suite) for bench in benches}:
                continue
            try:
                instance = kind(subject, arguments)
            except (LeftOut, Failure) as reason:
                missing[subject, kind] = str(reason)
                continue
            for name in instance.names:
                bench, shape = name.split("/", 1)
                if bench in BENCHES:
                    found[bench, shape, subject] = instance
    return found, missing


def select_runs(parser, names, found):
    """The runs to make, keys of `found`, in the order of BENCHES. An unknown name ends the program."""
    known = list(dict.fromkeys(f"{bench}/{shape}" for bench, shape, _ in found))
    for name in names:
        if name not in BENCHES and name not in known:
            parser.error(f"unknown benchmark '{name}'; known: {', '.join([*BENCHES, *known])}")
    order = list(BENCHES)
    runs = [key for key in found if not names or key[0] in names or f"{key[0]}/{key[1]}" in names]
    shapes = list(dict.fromkeys((bench, shape) for bench, shape, _ in runs))
    return sorted(runs, key=lambda key: (order.index(key[0]), shapes.index(key[:2])))
