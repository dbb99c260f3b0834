#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks bench/picture.py: it draws a bar and a number for each figure, refuses figures that do not suffice, and README
shows its picture. Usage: picture.py SOURCE_DIR FOLDER"""

import json
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

source, folder = Path(sys.argv[1]), Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
SVG = "{http://www.w3.org/2000/svg}"
failures = []


def check(what, good):
    print(("ok: " if good else "FAILED: ") + what)
    if not good:
        failures.append(what)


def call(*arguments):
    return subprocess.run([sys.executable, source / "bench/picture.py", *arguments], capture_output=True, text=True,
                          timeout=100, check=False)


def draw(rows):
    (folder / "figures.json").write_text(json.dumps(rows))
    return call(folder / "figures.json", folder / "picture.svg", "--machine", "an <odd> machine", "--peers-dir", folder)


def texts(path):
    """The texts of a picture; an invalid one ends the test."""
    root = xml.etree.ElementTree.parse(path).getroot()
    return ["".join(text.itertext()) for text in root.iter(SVG + "text")], root


names = call("--names").stdout.split()
check("it names its benchmarks", len(names) >= 4 and all("/" in name for name in names))
rows = []
for at, name in enumerate(names):
    bench, shape = name.split("/")
    subjects = ("fiberrt", "epoll", "libuv") if bench == "echo" else ("fiberrt", "bare", "boost_fiber")
    rows += [{"bench": bench, "shape": shape, "subject": subject, "median": 100 * at + 10.5 + number}
             for number, subject in enumerate(subjects)]
done = draw(rows)
check("it draws", done.returncode == 0 and not done.stderr)
said, root = texts(folder / "picture.svg")
check("each figure is a number at a bar", all(f"{row['median']:.2f}"[:5] in said for row in rows))
check("each figure has a bar", len([bar for bar in root.iter(SVG + "rect") if bar.get("class")]) == len(rows))
check("the peers are named", {"libfiberrt", "Boost.Fiber", "libuv"} <= set(said))
check("the caption has the machine", any("an <odd> machine" in text for text in said))
done = draw([row for row in rows if row["subject"] != "bare"])
check("without the floor there is no picture", done.returncode == 1 and "no figure of bare" in done.stderr)
(folder / "figures.json").write_text("{")
check("a file that is no JSON is refused", call(folder / "figures.json", folder / "picture.svg").returncode == 1)

readme = (source / "README.md").read_text()
check("README shows the picture", "](docs/pictures/speed.svg)" in readme)
said, root = texts(source / "docs/pictures/speed.svg")
ours = [bar for bar in root.iter(SVG + "rect") if bar.get("class") == "ours"]
check("the picture has our bar for each shape", len(ours) >= len(names) and said.count("libfiberrt") == len(names))
check("it is as wide as README shows it", root.get("width") == "720")
sys.exit(1 if failures else 0)
