# SPDX-License-Identifier: MIT OR Apache-2.0
"""MkDocs calls these functions. They add the pages of the site, each at the path that its document or source has in the
repository, so that relative links work here as they do there. Other pages are made from sources:

    manual/   the man pages, as docs/manual/manual.py makes them of fiberrt.h; a page for each name
    cpp/      fiberrt.hpp: cxx.py
    python/   the Python package: python_api.py
    go/       the Go package: go_api.py

A source that a document links to becomes a page, and so does a folder.
"""

import html
import logging
import posixpath
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File, InclusionLevel
from mkdocs.structure.toc import get_toc
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CLexer

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "docs/manual"), str(Path(__file__).parent)]

import cxx
import go_api
import header as c_header
import html_pages
import manual
import pages
import python_api

logging.getLogger("mkdocs").setLevel(logging.WARNING)  # not by --quiet, with which --strict counts no warnings

DOCUMENTS = ("*.md", "docs/*.md", "docs/guide/*.md", "examples/*.md", "bindings/*/*.md", "bindings/*/docs/*.md",
             "bench/*.md", "fuzz/*.md")  # fmt: skip
EXAMPLES = {"examples": "The examples", "bindings/python/examples": "Examples in Python",
            "bindings/go/examples": "Examples in Go", "bindings/rust/fiberrt/examples": "Examples in Rust"}  # fmt: skip
LANGUAGES = {".c": "c", ".h": "c", ".cc": "cpp", ".hpp": "cpp", ".py": "python", ".go": "go", ".rs": "rust", ".awk": "awk",
             ".sh": "sh", ".S": "gas", ".cmake": "cmake", ".txt": "text"}  # fmt: skip
# Links to these lead to what the site has made of them.
INSTEAD = {
    "include/fiberrt.h": "manual/index.md",
    "include/fiberrt.hpp": "cpp/index.md",
    "docs/manual/fiberrt.7": "manual/fiberrt.7.md",
    "bindings/go/fiberrt/doc.go": "go/index.md",
}
LINK = re.compile(r"(\]\()([^)#\s]*)((?:#[^)\s]*)?\))")


class Site:
    """What the functions below know of the site that is being made."""

    def __init__(self) -> None:
        path = ROOT / "include/fiberrt.h"
        self.header = c_header.read_header(path.read_text(encoding="utf-8"), manual.dl_header(path))
        self.names = pages.Names(self.header)
        self.man = manual.make_pages(self.header)
        self.bodies: "dict[str, str]" = {}  # of the pages that are HTML, by their paths
        self.below: "dict[str, list]" = {}  # what a path in mkdocs.yml that ends with a slash stands for
        self.places: "dict[str, str]" = {}  # the place that explains a C name: manual/fiber_chan_create.3.html#...
        for name, section in self.man:
            first = self.man[name, section][0]
            if first.startswith(".so "):
                page = first.split("/")[1]
                self.places[name] = f"manual/{page}.html#{name}" if name in self.names.pages else f"manual/{page}.html"
            elif section == "3":
                self.places[name] = f"manual/{name}.3.html"


site: Site


def on_files(files, config):
    global site
    site = Site()

    def add(path: str, text: str, **meta: str) -> None:
        head = "".join(f"{key}: {value}\n" for key, value in meta.items())
        files.append(File.generated(config, path, content=f"---\n{head}---\n{text}" if meta else text))

    config["copyright"] = f"libfiberrt {site.header.version}"
    documents = {str(path.relative_to(ROOT)): path for pattern in DOCUMENTS for path in sorted(ROOT.glob(pattern))}
    for name, path in documents.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in sorted(ROOT.glob("docs/**/*.svg")):
        files.append(File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)))

    add_manual(add)
    chapters = cxx.pages((ROOT / "include/fiberrt.hpp").read_text(encoding="utf-8"))
    for name, text in chapters.items():
        add(f"cpp/{name}.md", text)
    site.below["cpp/"] = [f"cpp/{name}.md" for name in chapters]
    for name, text in (("python/index.md", python_api.page(ROOT / "bindings/python/src")),
                       ("go/index.md", go_api.page(ROOT / "bindings/go/fiberrt"))):  # fmt: skip
        add(name, text)
        site.below[posixpath.dirname(name) + "/"] = [name]

    sources = set()
    for folder, title in EXAMPLES.items():
        found = [path for path in sorted((ROOT / folder).rglob("*")) if not path.name.endswith("_test.go")]
        found = [str(path.relative_to(ROOT)) for path in found if path.suffix in (".c", ".cc", ".h", ".py", ".go")]
        index = f"{folder}/README.md"
        if index in documents:  # which has an order for them
            text = documents[index].read_text(encoding="utf-8")
            found.sort(key=lambda name: (text + f"]({Path(name).name})").index(f"]({Path(name).name})"))
        else:
            index = f"{folder}/index.md"
            add(index, examples(folder, title, found))
        site.below[f"{folder}/"] = [index, *(f"{name}.md" for name in found)]
        sources |= set(found)
    shown = set(sources)
    for name, path in documents.items():
        for _, target, _ in LINK.findall(path.read_text(encoding="utf-8")):
            target = resolved(name, target)
            folder = target in EXAMPLES or f"{target}/README.md" in documents
            if target and target not in documents and not target.endswith(".svg") and not folder:
                sources.add(target)
    sources |= set(INSTEAD)
    for name in sorted(sources):
        path = ROOT / name
        if path.is_dir():
            text = "\n".join(f"- `{item.name}`" for item in sorted(path.iterdir()))
            add(f"{name}/index.md", f"# {name}\n\n{text}\n")
            files.get_file_from_path(f"{name}/index.md").inclusion = InclusionLevel.NOT_IN_NAV
            continue
        try:
            text = path.read_text(encoding="utf-8").rstrip("\n")
        except UnicodeDecodeError:  # a picture, or other bytes
            files.append(File.generated(config, name, abs_src_path=str(path)))
            continue
        about = f"[What the site says of this file](/{INSTEAD[name]}).\n\n" if name in INSTEAD else ""
        about = about.replace("(/", "(" + "../" * name.count("/"))
        language = LANGUAGES.get(path.suffix, "text")
        fence = "`" * 8
        title = path.name if name in shown else name
        # The search finds the examples; the other sources would hide the documents.
        add(f"{name}.md", f"# {name}\n\n{about}{fence}{language}\n{text}\n{fence}\n", title=title,
            **({} if name in shown else {"search": "{ exclude: true }"}))  # fmt: skip
        if name not in shown:
            files.get_file_from_path(f"{name}.md").inclusion = InclusionLevel.NOT_IN_NAV
    config["nav"] = expanded(config["nav"])
    return files


def add_manual(add) -> None:
    sections: "dict[str, list]" = {}
    for name, section, text in html_pages.rendered(site.man):
        path = f"manual/{name}.{section}.md"
        body = text[text.index('<div class="manual-text">') :]
        body = body[: body.index('<table class="foot">')]
        site.bodies[path] = f"<h1>{name}({section})</h1>\n{manual_page(body)}"
        # A search for the rest of the name finds the page, too: "select".
        short = name.removeprefix("fiber_")
        tags = {"tags": f"[{short}]"} if section == "3" and "_" not in short else {}
        add(path, "", title=name if section == "3" else f"{name}({section})", **tags)
        if section == "3":
            sections.setdefault(site.names.groups[name][1][0].section.title, []).append(path)
    text = html_pages.index(site.man, site.header, site.names).replace("</td><td>", "</td> <td>")
    site.bodies["manual/index.md"] = text[text.index("<body>") + 6 : text.index("</body>")].replace(
        "<h1>libfiberrt", "<h1>The C header: fiberrt.h, libfiberrt"
    )
    site.bodies["manual/index.md"] += '<p>The header itself: <a href="../include/fiberrt.h.html">fiberrt.h</a></p>'
    add("manual/index.md", "", title="The C header")
    general = [f"manual/{name}.{section}.md" for name, section in site.man if section in "17"]
    site.below["manual/"] = ["manual/index.md", "manual/fiberrt.7.md",
                             {"In general, and programs": sorted(set(general) - {"manual/fiberrt.7.md"})},
                             *({title: found} for title, found in sections.items())]  # fmt: skip


def manual_page(body: str) -> str:
    """mandoc's HTML with one heading above its headings, and its code as the theme shows code."""
    body = re.sub(r"<(/?)h([12])\b", lambda match: f"<{match[1]}h{int(match[2]) + 1}", body)

    def code(match: "re.Match[str]") -> str:
        text = html.unescape(re.sub("<.*?>", "", match[1]))
        text = highlight(text, CLexer(), HtmlFormatter(nowrap=True))
        return f'<div class="highlight"><pre><code>{text}</code></pre></div>'

    return re.sub(r"<pre>(.*?)</pre>", code, body, flags=re.S)


def examples(folder: str, title: str, found: "list[str]") -> str:
    lines = [f"# {title}", "", "| | |", "|---|---|"]
    for name in found:
        text = (ROOT / name).read_text(encoding="utf-8")
        text = re.sub(r"\A(#!.*\n)?.*SPDX.*\n\s*", "", text)
        comment = re.match(r'\s*(?:/\*|//|"""|#)(.*?)(?:\*/|"""|\n\s*\*?\s*\n|\n[^#/* ])', text, re.S)
        about = re.sub(r"\s+(\*|//|#)?\s*", " ", comment[1]).strip() if comment else ""
        about = re.sub(rf"^{re.escape(Path(name).name)}\s+-\s+", "", about)
        about = re.sub(r"^(Command|Package) \w+ ", "", about)
        about = re.sub(r"[\\|*_`\[\]]", r"\\\g<0>", html.escape(about, quote=False))  # it is text, not Markdown
        lines.append(f"| [{posixpath.relpath(name, folder)}]({posixpath.relpath(name, folder)}.md) | {about} |")
    return "\n".join(lines) + "\n"


def expanded(nav):
    if isinstance(nav, str):
        return site.below[nav] if nav.endswith("/") else [nav]
    if isinstance(nav, list):
        return [entry for item in nav for entry in expanded(item)]
    return [{title: path if isinstance(path, str) and not path.endswith("/") else expanded(path)}
            for title, path in nav.items()]  # fmt: skip


def resolved(page: str, target: str) -> str:
    """The path in the repository that a link of this page leads to; an empty string if there is no such file."""
    if not target or ":" in target:
        return ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    return path if not path.startswith("..") and (ROOT / path).exists() else ""


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    markdown = re.sub(r"\A(<!--.*?-->\s*)+", "", markdown, flags=re.S)  # else the page's title is the file's name

    def link(match: "re.Match[str]") -> str:
        target = resolved(here, match[2])
        if not target or files.get_file_from_path(target):
            return match[0]
        pages_of = (INSTEAD.get(target, ""), f"{target}/README.md", f"{target}/index.md", f"{target}.md")
        page_of = next((page for page in pages_of if files.get_file_from_path(page)), target)
        return match[1] + posixpath.relpath(page_of, posixpath.dirname(here) or ".") + match[3]

    if here.startswith(("manual/", "cpp/", "python/", "go/")):
        return markdown
    # Markdown of GitHub indents a nested list by two blanks, Python's by four.
    markdown = re.sub(r"^  (?=(- |  \S))", "    ", markdown, flags=re.M) if here == "CHANGELOG.md" else markdown
    return LINK.sub(link, markdown)


def on_page_content(content, page, config, files):
    here = page.file.src_uri
    if here in site.bodies:
        content, headings = with_places(site.bodies[here])
        page.toc = get_toc(headings)
        return content
    return with_links(content, here)


def with_places(content: str) -> "tuple[str, list]":
    """The HTML with an identifier at each heading; and the headings, as the extension `toc` gives them."""
    found, used = [], []

    def place(match: "re.Match[str]") -> str:
        level, attributes, text = int(match[1]), match[2], match[3]
        plain = html.unescape(" ".join(re.sub("<.*?>", "", text).split()))
        given = re.search(r' id="(.*?)"', attributes) or re.search(r' id="(.*?)"', text)
        name = given[1] if given else re.sub(r"\W+", "-", plain.lower()).strip("-")
        used.append(name)
        if used.count(name) > 1:  # a function has a heading under DESCRIPTION and one under ERRORS
            name += f"-{used.count(name)}"
        if level > 1:
            parent = found if level == 2 or not found else found[-1]["children"]
            parent.append({"level": level, "id": name, "name": html.escape(plain), "children": []})
        attributes, text = (re.sub(r' id="(.*?)"', "", part) for part in (attributes, text))
        return f'<h{level} id="{name}"{attributes}>{text}</h{level}>'

    content = re.sub(r"<h([1-3])\b(.*?)>(.*?)</h\1>", place, content, flags=re.S)
    # mandoc gives a paragraph the identifier of a name in it.
    return re.sub(r'(<p\b[^>]*) id="(.*?)"', lambda p: p[1] if p[2] in used else p[0], content), found


def with_links(content: str, here: str) -> str:
    """The HTML with the C names in it as links to their pages: names in backquotes and, of the pages made from
    fiberrt.hpp, all names. Errors, such as -EINTR, stay on one line."""

    def link(match: "re.Match[str]") -> str:
        place = site.places.get(match[1])
        if not place:
            return match[0]
        return f'<a href="{posixpath.relpath(place, posixpath.dirname(here) or ".")}">{match[0]}</a>'

    def outside(elements: str, pattern: str, replacement, content: str) -> str:
        # Of three pieces, the first is outside of these elements; the third is the name of an element.
        pieces = re.split(rf"(<({elements})\b.*?</\2>)", content, flags=re.S)
        return "".join(piece if at % 3 else re.sub(pattern, replacement, piece)
                       for at, piece in enumerate(pieces) if at % 3 != 2)  # fmt: skip

    content = outside("a|pre|h[1-6]", r"<code>(\w+)(?:\(\))?</code>", link, content)
    if here.startswith("cpp/"):
        content = outside("a|pre|h[1-6]|code", r"(?<![\w.:])((?:fiber|FIBER)_\w+)", link, content)
    return outside("a|pre|h[1-6]|code", r"(?<![\w-])-E[A-Z]{2,}\b", r'<span class="error">\g<0></span>', content)


def on_post_page(output, page, config):
    return re.sub(r"<!--.*?-->\n?", "", output, flags=re.S)


def on_env(env, config, files):
    # Both would need the address at which the site will be published.
    config["theme"].static_templates.difference_update({"404.html", "sitemap.xml"})


def on_post_build(config):
    """A page for each C name that another page explains, as there is an alias in the man pages."""
    for name, place in site.places.items():
        path = Path(config["site_dir"], f"manual/{name}.3.html")
        if not path.exists():
            to = place.removeprefix("manual/")
            path.write_text(f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>\n'
                            f'<meta http-equiv="refresh" content="0; url={to}"></head>\n'
                            f'<body><a href="{to}">{name}</a></body></html>\n')  # fmt: skip
