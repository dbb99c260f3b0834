#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the manual out of the comments of include/fiberrt.h: man pages, and the same as HTML; and checks both.

HEADER is fiberrt.h. What fiberrt_dl.h adds to it, and which names the library exports, is what the scripts in src/ say.

    manual.py pages HEADER OUT     man pages, under OUT/man1, OUT/man3, OUT/man7
    manual.py html HEADER OUT      the same pages as HTML, with an index, in OUT; needs mandoc
    manual.py check HEADER         whether the comments and the pages are complete and right; needs mandoc
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the sources stay as they are
import check
import html_pages
from header import Mistake, read_header
from pages import Names, write_page, write_text, write_topic

HERE = Path(__file__).resolve().parent
SRC = HERE.parent.parent / "src"


def dl_header(path):
    """The text of fiberrt_dl.h, made of this fiberrt.h."""
    return subprocess.run(["sh", SRC / "dl_header.sh", path], stdout=subprocess.PIPE, check=True, text=True,
                          encoding="utf-8").stdout


def exported_names(path):
    """What the library exports of this fiberrt.h: {name: release}."""
    lines = subprocess.run(["awk", "-f", SRC / "exported.awk", path], stdout=subprocess.PIPE, check=False, text=True,
                           encoding="utf-8").stdout.splitlines()
    return dict(line.split() for line in lines)


def make_pages(header):
    """All pages: {(name, section): lines}; of an alias the line that leads to its page."""
    names = Names(header)
    out = {}
    for page in names.groups:
        out[page, "3"] = write_page(page, header, names)
    for section in header.sections:
        if section.title in names.topics:
            out[names.topics[section.title], "7"] = write_topic(section, header, names)
    for source in (*sorted(HERE.glob("*.7")), *sorted((HERE.parent / "man1").glob("*.1"))):
        name, section = source.stem, source.suffix[1:]
        out[name, section] = write_text(source.read_text(encoding="utf-8"), name, section, header, names)
    aliases = {name: (page, "3") for name, page in names.pages.items() if name != page}
    for name, block in {**names.types, **names.constants}.items():
        aliases[name] = check.home_of(block, name, header, names)
    for name, (page, section) in aliases.items():
        out[name, "3"] = [f".so man{section}/{page}.{section}"]
    return out


def write_pages(pages, out):
    for (name, section), lines in pages.items():
        path = out / f"man{section}" / f"{name}.{section}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("pages", "html", "check"))
    parser.add_argument("header", type=Path)
    parser.add_argument("where", type=Path, nargs="?")
    chosen = parser.parse_args()
    try:
        header = read_header(chosen.header.read_text(encoding="utf-8"), dl_header(chosen.header))
        pages = make_pages(header)
    except (Mistake, ValueError) as mistake:
        sys.exit(f"manual.py: {mistake}")
    if chosen.what == "pages":
        for function in header.functions: # else its page would be empty
            if not " ".join(function.text).strip():
                sys.exit(f"manual.py: line {function.line}: {function.name} has no comment to make its page of")
        write_pages(pages, chosen.where)
    elif chosen.what == "html":
        html_pages.write(pages, header, Names(header), chosen.where)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            write_pages(pages, Path(scratch))
            wrong = check.comments(header, exported_names(chosen.header))
            wrong += check.made(header, pages, Path(scratch))
        for line in wrong:
            print(line)
        if wrong:
            sys.exit(f"manual.py: {len(wrong)} mistakes")
        print(f"ok: {len(header.functions)} functions, {len(pages)} pages and aliases")


if __name__ == "__main__":
    main()
