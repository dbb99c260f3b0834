#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks links, without a network: every relative link and anchor of the Markdown pages, their pictures, every .Xr of
the man pages in docs/, and every path of the project that pages or comments name. Of URLs it checks only the form.
Also reports each row of a table in a page that does not end in its line.

usage: links.py SOURCE

A path counts if it begins with a folder of the project and, in a page, stands between backticks; in a comment it must
also end like a file of source text. A path with a word in capitals, such as src/sync/NAME.h, stands for others.
"""

import argparse
import os
import re
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import blocks  # noqa: E402
import prose  # noqa: E402

URL = re.compile(r"(?:https?://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d+)?(?:/[^\s<>\"]*)?|mailto:[^\s@]+@[a-z0-9.-]+)")
LINK = re.compile(r"\]\(\s*([^)\s]+)(?:\s+\"[^\"]*\")?\)|(?:src|href)=\"([^\"]+)\"|^\[[^\]^]+\]:\s*(\S+)")
PATH_IN_PAGE = re.compile(r"`([\w.*-]+(?:/[\w.*-]+)*/?)(?::\d+)?`")
PATH_IN_COMMENT = re.compile(r"(?<![\w./$}-])([a-z]+(?:/[\w.*-]+)+\.(?:cc|h|hpp|py|sh|md|txt|cmake|awk|S|c|go))\b")
PLACEHOLDER = re.compile(r"[A-Z]{4,}|X\b")
NOT_PLACEHOLDERS = {"README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "SUPPORTED", "PLATFORMS"}


def slugs(page):
    """The anchors of a page. A heading that comes again gets a number."""
    found, times = set(), {}
    for _, text in page.prose:
        if not re.match(r"#{1,6} ", text):
            continue
        name = blocks.slug(text.lstrip("# "))
        found.add(f"{name}-{times[name]}" if name in times else name)
        times[name] = times.get(name, 0) + 1
    return found


class Links:
    def __init__(self, source):
        self.source = source
        self.errors = []
        self.counts = {}
        self.files = self.all_files()
        self.known = set(self.files)
        for name in self.files:
            self.known.update(str(folder) for folder in Path(name).parents)
        # Only folders whose names no program uses for its own: usr/include/x.h is no path of the project.
        self.folders = {name.partition("/")[0] for name in self.files if "/" in name}

    def all_files(self):
        try:
            names = subprocess.run(["git", "ls-files", "-z"], cwd=self.source, capture_output=True, text=True,
                                   check=True).stdout.split("\0")  # fmt: skip
        except (OSError, subprocess.CalledProcessError):
            names = []
        names = [name for name in names if name and (self.source / name).exists()]
        if not names:
            for folder, folders, files in os.walk(self.source):
                folders[:] = [name for name in folders if name != "build" and not name.startswith(".")]
                names += [str(Path(folder, name).relative_to(self.source)) for name in files]
        return sorted(names)

    def error(self, name, line, what):
        self.errors.append(f"{name}:{line}: {what}")

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def text(self, name):
        return (self.source / name).read_text(encoding="utf-8") if (self.source / name).is_file() else ""

    def exists(self, path, page=""):
        """Whether a path is in the tree, from its root or from the folder of a page; * stands for any name."""
        for base in {"", os.path.dirname(page)}:
            name = os.path.normpath(os.path.join(base, path))
            if name in self.known or (self.source / name).exists():
                return True
            if any(f"{name}{suffix}" in self.known for suffix in (".c", ".cc")):  # the program that is built of it
                return True
            if "*" in name:
                pattern = re.compile(re.escape(name).replace(r"\*", "[^/]*"))
                if any(pattern.fullmatch(file) for file in self.known):
                    return True
        return False

    def is_path(self, text):
        words = set(re.findall(r"[A-Z]{2,}", text))
        return text.partition("/")[0] in self.folders and "/" in text and not (
            PLACEHOLDER.search(text) and not words <= NOT_PLACEHOLDERS)  # fmt: skip

    def page(self, page, anchors):
        for line, text in page.prose:
            if text.startswith("|") and not text.rstrip().endswith("|"):
                self.error(page.name, line, "this row of a table does not end in this line")
            if "![](" in text:
                self.error(page.name, line, "the picture has no alternative text")
            for found in LINK.finditer(re.sub(r"`[^`]*`", "", text)):
                self.link(page, line, found[1] or found[2] or found[3], anchors)
            for url in re.findall(r"(?<!\]\()\bhttps?:[^\s<>)`\"']*", text):
                self.url(page, line, url.rstrip(".,;:"))
            for path in PATH_IN_PAGE.findall(text):
                if self.is_path(path):
                    self.count("paths")
                    if not self.exists(path, page.name):
                        self.error(page.name, line, f"there is no {path}")

    def link(self, page, line, target, anchors):
        if re.match(r"[a-z]+:", target):
            self.url(page, line, target)
            return
        self.count("links")
        name, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(page.name), name)) if name else page.name
        if not (self.source / path).exists() or path.startswith(".."):
            self.error(page.name, line, f"the link leads nowhere: {target}")
        elif anchor and path.endswith(".md") and anchor not in anchors.get(path, ()):
            self.error(page.name, line, f"there is no such heading: {target}")
        elif path.endswith(".svg"):
            self.picture(page, line, path)

    def url(self, page, line, url):
        self.count("URLs")
        if not URL.fullmatch(url):
            self.error(page.name, line, f"this is no URL: {url}")

    def picture(self, page, line, path):
        """A picture must be a valid one, and have a text for readers who cannot see it."""
        self.count("pictures")
        try:
            root = xml.etree.ElementTree.parse(self.source / path).getroot()
        except xml.etree.ElementTree.ParseError as error:
            self.error(page.name, line, f"{path} is no picture: {error}")
            return
        if not root.tag.endswith("}svg") or not root.findtext("{http://www.w3.org/2000/svg}title"):
            self.error(page.name, line, f"{path} has no title")

    def manual(self, name, functions):
        """The cross references of a man page to commands and functions of the project; of others only the form. The
        test `manual` checks references to pages that are made."""
        pages = {tuple(Path(file).name.rsplit(".", 1)) for file in self.files if re.search(r"^docs/man.*\.\d$", file)}
        for line, text in enumerate((self.source / name).read_text(encoding="utf-8").split("\n"), 1):
            found = re.match(r"\.(?:Xr|It Xr)\b\s*(.*)", text)
            if not found:
                continue
            self.count("cross references")
            parts = found[1].split()
            if len(parts) < 2 or not re.fullmatch(r"[1-9]", parts[1]):
                self.error(name, line, f".Xr needs a name and a section: {text}")
            elif parts[1] == "1" and parts[0].startswith("fiberrt") and (parts[0], "1") not in pages:
                self.error(name, line, f"there is no page {parts[0]}(1)")
            elif parts[1] == "3" and parts[0].startswith("fiber") and parts[0] not in functions:
                self.error(name, line, f"there is no page {parts[0]}(3)")

    def comments(self, name):
        """The paths that comments and docstrings name."""
        path = self.source / name
        if path.suffix == ".md" or path.is_symlink() or not prose.reader_of(path):
            return
        for paragraph in prose.paragraphs(path):
            for found in PATH_IN_COMMENT.finditer(paragraph.text):
                if self.is_path(found[1]):
                    self.count("paths")
                    if not self.exists(found[1], name):
                        self.error(name, paragraph.line_at(found.start()), f"there is no {found[1]}")

    def all(self):
        pages = [blocks.Page(name, (self.source / name).read_text(encoding="utf-8"))
                 for name in self.files if name.endswith(".md")]  # fmt: skip
        anchors = {page.name: slugs(page) for page in pages}
        for page in pages:
            self.page(page, anchors)
        functions = set(re.findall(r"\bfiber_\w+", self.text("include/fiberrt.h")))
        functions |= set(re.findall(r"\bfiberrt_dl_\w+", self.text("src/dl_header.sh")))
        for name in self.files:
            if re.search(r"^docs/.*\.[1-9]$", name):
                self.manual(name, functions)
            elif not name.startswith("fuzz/corpus"):
                self.comments(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--at-least", type=int, default=0, help="fail if fewer links are found")
    given = parser.parse_args()
    links = Links(given.source.resolve())
    links.all()
    for error in links.errors:
        print(f"FAILED: {error}")
    print(", ".join(f"{count} {what}" for what, count in sorted(links.counts.items())))
    if links.counts.get("links", 0) < given.at_least:
        print(f"FAILED: fewer than {given.at_least} links were found")
        return 1
    return 1 if links.errors else 0


if __name__ == "__main__":
    sys.exit(main())
