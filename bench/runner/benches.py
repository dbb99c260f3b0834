# SPDX-License-Identifier: MIT OR Apache-2.0
"""The meaning of each benchmark's figure, and the reasons why a run may give none."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


OURS = ("fiberrt", "bare", "epoll")  # if one of these is missing or fails, the run fails; a peer is only reported
RUN_TIMEOUT_S = 120


@dataclass(frozen=True)
class Bench:
    """The meaning of a benchmark's figure. `field` names the figure in Google Benchmark's JSON: cpu_time or real_time
    in ns, or a user counter. CPU time is right for a loop that never sleeps: other programs on the CPU do not enter it.
    """

    unit: str
    field: str = "cpu_time"
    cpus: int = 1  # how many CPUs a subject is pinned to; 0: not pinned
    yardstick: str | None = "bare"  # the subject that ratios are to
    repetitions: int = 7
    also: tuple = ()  # further figures of the same run: (suffix of the shape, unit, field)
    bounds: tuple = ()  # (suffix of the shape, the most that any run of fiberrt may have there)
    curve: bool = False  # the shapes are numbers: draw the figure over them


BENCHES = {
    "yield": Bench("ns per switch"),
    "parkwake": Bench("ns per round trip"),
    "spawn": Bench("ns per fiber"),
    "lock": Bench("ns per lock and unlock"),
    "channel": Bench("ns per round trip", yardstick="boost_fiber"),
    "scope": Bench("ns per scope"),
    "task": Bench("ns per task", "ns_per_task", cpus=2),
    "hosted": Bench("ns per turn", yardstick="cxx20"),
    "hooks": Bench("ns per switch", yardstick=None),
    "select": Bench("ns per item", yardstick=None),
    "observe": Bench("ns per switch, or per fiber of the dump", cpus=2, yardstick=None),
    "posix": Bench("ns per call", yardstick=None),
    "crosswake": Bench("ns per round trip", "ns_per_trip", cpus=2),
    "spawnbatch": Bench("ns per fiber", "ns_per_fiber"),
    "scale": Bench("ns per switch", repetitions=5, curve=True),
    "memory": Bench("bytes per fiber", "bytes", yardstick=None, repetitions=5,
                    also=(("-vmas", "mappings", "mappings"), ("-guards", "% of stacks guarded", "guards"))),
    "sleep": Bench("CPU seconds", "cpu_s", yardstick="boost_fiber", repetitions=5),
    "sim": Bench("million steps per CPU second", "million_steps_per_s", yardstick=None),
    "echo": Bench("us of server CPU per request", yardstick="epoll", repetitions=11),
    "http": Bench("us of server CPU per request", yardstick="nginx"),
    "https": Bench("us of server CPU per request", yardstick="nginx"),
    "query": Bench("us of client CPU per query", yardstick="threads", repetitions=5),
    "copy": Bench("s of CPU per GiB", yardstick="tool", repetitions=5, also=(("-resident", "KiB at most", None),),
                  bounds=(("-resident", 4096),)),
    "python-yield": Bench("ns per switch", yardstick="gevent"),
    "python-spawn": Bench("ns per fiber", yardstick="gevent"),
    "python-memory": Bench("bytes per fiber", yardstick="gevent", repetitions=5),
    "python-import": Bench("ms", yardstick="gevent", repetitions=5),
    "python-file": Bench("ns per read", yardstick=None),
    "python-sim": Bench("runs per second", yardstick=None, also=(("-cpu", "us of CPU per run", None),)),
    "python-shrink": Bench("s", yardstick=None, repetitions=5),
    "python-echo": Bench("us of the server's user CPU per request", yardstick="uvloop",
                         also=(("-total", "us of the server's CPU per request", None),
                               ("-rate", "requests per second", None))),
    "python-gunicorn": Bench("us of the server's CPU per request", yardstick="gevent", repetitions=5,
                             also=(("-rate", "requests per second", None), ("-p99", "ms, 99th percentile", None))),
}
GROUPS = {"python": [name for name in BENCHES if name.startswith("python-")]}  # the meaning of a name

# Memory that must be free for the shapes with a million fibers, lest the machine run out. They take up to 5.2 KiB each.
MILLION_GIB = 7


class Failure(Exception):
    """One run of a subject gave no figure."""


class LeftOut(Exception):
    """This machine lacks what the subject needs."""
