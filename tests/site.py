#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks the HTML site of ./dev site. It builds the site, then looks: that every document, C function, class of
fiberrt.hpp, name of the Python package and example has its page; that the search's index has them; that each link and
each anchor leads somewhere; that no page loads anything from another host, or names a path of this machine. A document
with a broken link and a broken anchor, which is planted in a copy of the sources, must fail the build.

Usage: site.py SOURCE FOLDER TOOLS

FOLDER is for the sites that are built. TOOLS is the environment of the generator (tools/site/build.py).
Exit status: 77 if the generator cannot be installed here (tools/site/build.py); then nothing is checked.
"""

import ast
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

SOURCE, FOLDER, TOOLS = (Path(argument).resolve() for argument in sys.argv[1:4])
SITE = FOLDER / "site"
DOCUMENTS = ("*.md", "docs/*.md", "docs/guide/*.md", "bindings/*/README.md", "bindings/python/docs/*.md")
LOADS = {"img": ("src", "srcset"), "script": ("src",), "link": ("href",), "iframe": ("src",),
         "source": ("src", "srcset"), "object": ("data",), "embed": ("src",), "video": ("src",),
         "audio": ("src",), "use": ("href",)}  # fmt: skip
wrong: "list[str]" = []


def check(what: str, holds: bool) -> None:
    if not holds:
        wrong.append(what)


def build(source: Path, out: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, source / "tools/site/build.py", out, TOOLS], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)  # fmt: skip


class Page(html.parser.HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: "list[str]" = []
        self.loaded: "list[str]" = []
        self.anchors: "list[str]" = []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attributes) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors += [given[name] for name in ("id", "name") if name in given and (name == "id" or tag == "a")]
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "meta" and given.get("http-equiv") == "refresh":
            self.links.append(given["content"].partition("url=")[2])
        if tag == "link" and given.get("rel") in ("next", "prev"):
            self.links.append(given["href"])
        else:
            self.loaded += [given[name] for name in LOADS.get(tag, ()) if name in given]
        self.loaded += re.findall(r"url\((.*?)\)", given.get("style", ""))


def check_links(pages: "dict[Path, Page]") -> int:
    """Each link leads to a file of the site and, if it has an anchor, to that. Returns how many were followed."""
    followed = 0
    for path, page in pages.items():
        here = path.relative_to(SITE)
        for link in [*page.links, *page.loaded]:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme == "data" or parts.scheme in ("http", "https", "mailto") and link not in page.loaded:
                continue
            if parts.scheme or parts.netloc:
                wrong.append(f"{here} loads {link}")
                continue
            target = path if not parts.path else Path(os.path.normpath(path.parent / urllib.parse.unquote(parts.path)))
            if not target.is_relative_to(SITE) or not target.is_file():
                wrong.append(f"{here}: {link} leads nowhere")
            elif parts.fragment and not parts.fragment.startswith("__"):  # those are the theme's
                anchors = pages[target].anchors if target in pages else []
                check(f"{here}: {link} has no such anchor", urllib.parse.unquote(parts.fragment) in anchors)
            followed += 1
        doubled = {name for name in page.anchors if page.anchors.count(name) > 1}
        check(f"{here} has an anchor twice: {doubled}", not doubled)
    for path in SITE.rglob("*.css"):
        for url in re.findall(r"(?:url\(|@import )[\"']?([^\"')]*)", path.read_text(encoding="utf-8")):
            check(f"{path.relative_to(SITE)} loads {url}", not re.match(r"(https?:)?//", url))
    # For these the theme's script would fetch something from another host.
    marks = re.compile('class="mermaid|data-md-component="source"|fonts.googleapis')
    fetches = [str(path.relative_to(SITE)) for path, page in pages.items() if marks.search(page.text)]
    check(f"pages that fetch something: {fetches}", not fetches)
    return followed


def check_pages(pages: "dict[Path, Page]") -> None:
    def has(name: str, *anchors: str) -> None:
        page = pages.get(SITE / name)
        check(f"there is no page {name}", page is not None)
        for anchor in anchors if page is not None else ():
            check(f"{name} has no place {anchor}", anchor in page.anchors)

    for pattern in DOCUMENTS:
        for path in SOURCE.glob(pattern):
            name = str(path.relative_to(SOURCE).with_suffix(".html"))
            has(name.replace("README.html", "index.html"))
    for path in SOURCE.glob("docs/guide/pictures/*.svg"):
        check(f"{path.name} is missing", (SITE / path.relative_to(SOURCE)).is_file())
    for path in [*SOURCE.glob("examples/*.[ch]"), *SOURCE.glob("examples/*.cc")]:
        has(f"{path.relative_to(SOURCE)}.html")
    exported = ["awk", "-f", SOURCE / "src/exported.awk", SOURCE / "include/fiberrt.h"]
    functions = [line.split()[0] for line in subprocess.check_output(exported, text=True).splitlines()]
    check("there are hardly any functions", len(functions) > 100)
    for name in functions:
        has(f"manual/{name}.3.html")
    for path in SOURCE.glob("docs/man1/*.1"):
        has(f"manual/{path.name}.html")
    header = (SOURCE / "include/fiberrt.hpp").read_text(encoding="utf-8")
    header = re.sub(r"\nnamespace detail \{\n.*?\n\} // namespace detail\n", "\n", header, flags=re.S)
    anchors = {anchor for path, page in pages.items() if path.parent == SITE / "cpp" for anchor in page.anchors}
    classes = re.findall(r"^(?:class|struct) (?:\[\[\w+\]\] )?(\w+)[^;]*\{", header, re.M)
    check("there are hardly any classes", len(classes) > 20)
    for name in classes:
        check(f"the class {name} of fiberrt.hpp is on no page", name in anchors)
    package = ast.parse((SOURCE / "bindings/python/src/fiberrt/__init__.py").read_text(encoding="utf-8"))
    names = next(ast.literal_eval(node.value) for node in package.body
                 if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")  # fmt: skip
    has("python/index.html", *(name.lower() for name in names if not name.isupper()))
    has("go/index.html", "run", "fiber", "fiberjoin")


def check_search() -> None:
    index = json.loads((SITE / "search/search_index.json").read_text(encoding="utf-8"))["docs"]

    def finds(text: str, place: str) -> None:
        there = [entry for entry in index if entry["location"].startswith(place)]
        found = any(text in entry["title"] or text in entry["text"] for entry in there)
        check(f"the search does not find {text} in {place}", found)

    finds("fiber_select", "manual/fiber_select.3.html")
    finds("fiber_chan_send", "manual/")
    finds("channel", "cpp/")
    finds("TaskGroup", "python/")
    finds("io_uring", "docs/guide/")
    # The words that the design defines, and its last section.
    design = (SOURCE / "docs/design.md").read_text(encoding="utf-8")
    for title in re.findall(r"^## ([\w ]+)$", design, re.M):
        finds(title, "docs/design.html")
    finds("cord", "docs/design.html")


def check_paths() -> None:
    """Nothing refers to the machine on which the site was built."""
    places = {str(SOURCE), str(FOLDER), str(TOOLS), str(Path.home())} - {"/"}
    for path in SITE.rglob("*"):
        if path.suffix in (".html", ".json", ".js", ".css", ".xml", ".svg"):
            text = path.read_text(encoding="utf-8", errors="replace")
            for place in places:
                # A short path, such as a home of /root, may also be a part of an example's text.
                if re.search(rf"(?<![\w/]){re.escape(place)}/", text):
                    wrong.append(f"{path.relative_to(SITE)} names {place}")
    homes = "".join(path.read_text(encoding="utf-8") for path in SITE.glob("*.html"))
    check("pages carry comments of the sources", "<!-- " not in homes)


def check_planted() -> None:
    """A link and an anchor that lead nowhere fail the build."""
    copy = FOLDER / "planted"
    shutil.rmtree(copy, ignore_errors=True)
    skip = shutil.ignore_patterns("build", ".git", "corpus", "__pycache__")

    def ignored(folder: str, names: "list[str]") -> "set[str]":
        return skip(folder, names) | {name for name in names if Path(folder, name) == FOLDER}

    shutil.copytree(SOURCE, copy, symlinks=True, ignore=ignored)
    with (copy / "docs/hosted.md").open("a", encoding="utf-8") as file:
        file.write("\n[planted](no-such-page.md) and [planted](io.md#no-such-anchor)\n")
    (copy / "docs/unlisted.md").write_text("# A document that mkdocs.yml does not list\n")
    done = build(copy, FOLDER / "planted-site")
    check("a planted mistake does not fail the build", done.returncode == 1)
    for what in ("no-such-page.md", "no-such-anchor", "unlisted.md"):
        check(f"the build does not name the planted mistake {what}:\n{done.stdout}", what in done.stdout)
    shutil.rmtree(copy)


def main() -> None:
    done = build(SOURCE, SITE)
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(done.returncode)
    pages = {path: Page(path) for path in SITE.rglob("*.html")}
    followed = check_links(pages)
    check("there are hardly any links", followed > 5000)
    check_pages(pages)
    check_search()
    check_paths()
    check_planted()
    print("\n".join(wrong) or f"{len(pages)} pages, {followed} links: all is there")
    sys.exit(1 if wrong else 0)


main()
