#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws README's picture of a benchmark run: for a few shapes a bar for this library, for the bare floor and for each
peer. Reads the JSON file of run.py, and the machine and the peers' versions from this machine, so draw where you have
measured:

    ./dev bench NAMES --json FILE        (bench/picture.py --names prints NAMES)
    bench/picture.py FILE docs/pictures/speed.svg

Exit code 1 means that FILE lacks a shape, this library, or the floor of a shape."""

import argparse
import datetime
import json
import os
import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from runner.table import number

ROOT = Path(__file__).resolve().parent.parent

# The groups of bars, in two columns: the name in the JSON file, the heading, the unit, and what must be there.
COLUMNS = (
    (("yield/different", "Two fibers that switch", "ns per switch", ("fiberrt", "bare")),
     ("parkwake/pair", "Wake another fiber and park", "ns per round trip", ("fiberrt", "bare")),
     ("channel/pair", "Channel", "ns per round trip", ("fiberrt",))),
    (("yield/1000", "A thousand fibers take turns", "ns per switch", ("fiberrt", "bare")),
     ("spawn/warm", "Spawn a fiber and join it", "ns per fiber", ("fiberrt", "bare")),
     ("echo/64x100", "Echo server on loopback", "µs of CPU per request", ("fiberrt", "epoll"))),
)
SHAPES = [group for column in COLUMNS for group in column]

# The subjects in the order of their bars, with their names in the picture.
OURS = {"fiberrt": "libfiberrt", "fiberrt_ev": "libfiberrt on libev"}
FLOORS = {"bare": "bare switch", "epoll": "bare epoll loop"}
FLOWS = {"cxx20": "C++20 coroutines", "boost_context": "Boost.Context"}  # they have no scheduler
PEERS = {"boost_fiber": "Boost.Fiber", "state_threads": "State Threads", "uring": "io_uring loop",
         "uring_multi": "io_uring, multishot", "libev": "libev", "libuv": "libuv"}
NAMES = OURS | FLOORS | FLOWS | PEERS
KINDS = {"ours": OURS, "floor": FLOORS, "flow": FLOWS, "peer": PEERS}

WIDTH, MARGIN, GAP, TOP = 720, 16, 24, 52
COLUMN = (WIDTH - 2 * MARGIN - GAP) // 2
LABEL, VALUE = 118, 46  # of a column's width: the names, and the numbers behind the bars
ROW, HEADING, BETWEEN = 17, 22, 14


class Lacking(Exception):
    """The figures do not suffice for the picture."""


def figures_of(rows):
    """{"bench/shape": {subject: median}}, complete."""
    figures = {}
    for row in rows:
        figures.setdefault(f"{row['bench']}/{row['shape']}", {})[row["subject"]] = row["median"]
    for name, _, _, required in SHAPES:
        for subject in required:
            if subject not in figures.get(name, {}):
                raise Lacking(f"there is no figure of {subject} for {name}")
    return figures


def draw_group(x, y, heading, unit, figures):
    """The elements of one group of bars, and the y below them. Each group has its own linear scale from 0."""
    parts = [f'<text x="{x}" y="{y + 13}"><tspan font-weight="bold">{escape(heading)}</tspan>'
             f'<tspan fill="#57606a">, {escape(unit)}</tspan></text>']
    y += HEADING
    scale = (COLUMN - LABEL - VALUE) / max(figures.values())
    for subject in (subject for subject in NAMES if subject in figures):
        value = figures[subject]
        kind = next(kind for kind, subjects in KINDS.items() if subject in subjects)
        bold = ' font-weight="bold"' if subject == "fiberrt" else ""
        right = x + LABEL + max(value * scale, 1)
        parts.append(f'<text x="{x + LABEL - 6}" y="{y + 12}" text-anchor="end"{bold}>{escape(NAMES[subject])}</text>'
                     f'<rect x="{x + LABEL}" y="{y + 2}" width="{right - x - LABEL:.1f}" height="{ROW - 4}"'
                     f' class="{kind}"/><text x="{right + 5:.1f}" y="{y + 12}"{bold}>{number(value)}</text>')
        y += ROW
    return parts, y + BETWEEN


def draw(figures, caption):
    parts, bottom = [], 0
    for at, column in enumerate(COLUMNS):
        y = TOP
        for name, heading, unit, _ in column:
            drawn, y = draw_group(MARGIN + at * (COLUMN + GAP), y, heading, unit, figures[name])
            parts += drawn
        bottom = max(bottom, y)
    for line in caption:
        bottom += 15
        parts.append(f'<text x="{MARGIN}" y="{bottom - 8}" font-size="11" fill="#57606a">{escape(line)}</text>')
    height = bottom + 6
    return (f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n'
            f'<!-- Made by bench/picture.py from a run of ./dev bench; do not edit. -->\n'
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
            f' font-family="sans-serif" font-size="12" fill="#1f2328">\n'
            f'<title>Times of libfiberrt, of a bare floor, and of other libraries</title>\n'
            f'<style>.ours {{ fill: #d1495b }} .floor {{ fill: #9a9a9a }} .flow {{ fill: #b5d3e2 }} .peer {{ fill: #66a3c2 }}'
            f'</style>\n'
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>\n'
            f'<text x="{MARGIN}" y="24" font-size="15" font-weight="bold">Shorter is better</text>\n'
            f'<text x="{MARGIN}" y="40" fill="#57606a">medians; each group has its own scale; no scheduler: grey (the'
            f' least code that does this) and light blue</text>\n' + "\n".join(parts) + "\n</svg>\n")


def defined(paths, *names):
    """The values of macros in the first of these headers that exists, or None."""
    for path in paths:
        if path.is_file():
            text = path.read_text(errors="replace")
            found = [re.search(rf'^#\s*define\s+{name}\s+"?([\w.]+)', text, re.M) for name in names]
            return [match[1] for match in found] if all(found) else None
    return None


def versions(peers_dir):
    """The versions of the library and of the peers, each as text."""
    def header(name):
        return [peers_dir / "usr/include" / name, Path("/usr/include") / name]

    numbers = ("MAJOR", "MINOR", "PATCH")
    known = {
        "libfiberrt": defined([ROOT / "include/fiberrt.h"], *(f"FIBERRT_VERSION_{part}" for part in numbers)),
        "Boost": defined(header("boost/version.hpp"), "BOOST_LIB_VERSION"),
        "State Threads": defined(header("st.h"), "ST_VERSION"),
        "libev": defined(header("ev.h"), "EV_VERSION_MAJOR", "EV_VERSION_MINOR"),
        "libuv": defined(header("uv/version.h"), *(f"UV_VERSION_{part}" for part in numbers)),
    }
    for compiler in (ROOT / "build/bench/CMakeFiles").glob("*/CMakeCXXCompiler.cmake"):
        found = re.search(r'CMAKE_CXX_COMPILER_ID "(\w+)".*CMAKE_CXX_COMPILER_VERSION "([\d.]+)"',
                          compiler.read_text(), re.S)
        if found:
            known[{"GNU": "gcc", "Clang": "clang"}.get(found[1], found[1])] = [found[2]]
    return [f"{name} {'.'.join(parts).replace('_', '.')}" for name, parts in known.items() if parts]


def machine():
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    processor = re.sub(r"\((?:R|TM)\)", "", found[1]) if found else os.uname().machine
    return f"{processor}, {os.cpu_count()} processors, Linux {os.uname().release.split('-')[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", action="store_true", help="print the names of the benchmarks in the picture, and end")
    parser.add_argument("file", nargs="?", type=Path, help="the figures, which run.py --json wrote")
    parser.add_argument("picture", nargs="?", type=Path, help="the SVG file to write")
    parser.add_argument("--machine", metavar="TEXT", help="the machine, for the caption (default: this one)")
    parser.add_argument("--peers-dir", type=Path, metavar="DIR", default=ROOT / "build/peers",
                        help="where the peers are unpacked (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.names:
        print(*(name for name, *_ in SHAPES))
        return 0
    if not arguments.picture:
        parser.error("which FILE, and which picture?")
    try:
        figures = figures_of(json.loads(arguments.file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, Lacking) as error:
        print(f"picture.py: {arguments.file}: {error}", file=sys.stderr)
        return 1
    day = datetime.date.fromtimestamp(arguments.file.stat().st_mtime)
    caption = [f"{day:%B} {day.day}, {day.year}; {arguments.machine or machine()}",
               "; ".join(versions(arguments.peers_dir))]
    arguments.picture.write_text(draw(figures, caption), encoding="utf-8")
    print(f"Picture: {arguments.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
