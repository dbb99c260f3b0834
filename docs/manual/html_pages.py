# SPDX-License-Identifier: MIT OR Apache-2.0
"""The pages as HTML, by mandoc, with an index of all that the header has."""

import html
import re
import subprocess
import tempfile
from pathlib import Path

from pages import first_sentence

HERE = Path(__file__).resolve().parent


def write(pages, header, names, out):
    out.mkdir(parents=True, exist_ok=True)
    (out / "manual.css").write_text((HERE / "manual.css").read_text(encoding="utf-8"), encoding="utf-8")
    for name, section, text in rendered(pages):
        text = text.replace("<body>", '<body>\n<p class="index"><a href="index.html">index</a></p>', 1)
        (out / f"{name}.{section}.html").write_text(text, encoding="utf-8")
    (out / "index.html").write_text(index(pages, header, names), encoding="utf-8")


def rendered(pages):
    """Yields each page as HTML, with its links: (name, section, HTML)."""
    aliases = {name: lines[0].split("/")[1] for (name, _), lines in pages.items() if lines[0].startswith(".so ")}
    for (name, section), lines in pages.items():
        if name not in aliases:
            yield name, section, re.sub(r'<a class="Xr" href="([\w.-]+)\.(\d)\.html">(.*?)</a>',
                                        lambda match: link(match, pages, aliases), render(lines))


def render(lines):
    with tempfile.NamedTemporaryFile("w", suffix=".mdoc", encoding="utf-8") as source:
        source.write("\n".join(lines) + "\n")
        source.flush()
        done = subprocess.run(["mandoc", "-Thtml", "-Ostyle=manual.css,man=%N.%S.html", source.name],
                              stdout=subprocess.PIPE, check=True, timeout=60)
    return done.stdout.decode()


def link(match, pages, aliases):
    """Links lead to pages that are here; of an alias to the place where its function is told of."""
    name, section, text = match.groups()
    if (name, section) not in pages:
        return f'<span class="Xr">{text}</span>'
    place = f"#{name}" if name in aliases else ""
    return f'<a class="Xr" href="{aliases.get(name, f"{name}.{section}")}.html{place}">{text}</a>'


def index(pages, header, names):
    out = ["<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
           f"<title>libfiberrt {header.version}: manual</title>",
           '<link rel="stylesheet" href="manual.css" type="text/css">', "</head>", "<body>",
           f"<h1>libfiberrt {header.version}</h1>",
           '<p>Begin with <a href="fiberrt.7.html">fiberrt(7)</a>: what fibers are, the rules for all calls, the '
           "caveats.</p>"]
    tools = sorted(name for name, section in pages if section == "1")
    out.append("<p>Programs: " + ", ".join(f'<a href="{name}.1.html">{name}(1)</a>' for name in tools) + "</p>")
    for section in header.sections:
        out.append(f"<h2>{html.escape(section.title)}</h2>")
        topic = names.topics.get(section.title)
        if topic:
            out.append(f'<p>In general: <a href="{topic}.7.html">{topic}(7)</a></p>')
        out.append("<table>")
        seen = []
        for function in header.functions:
            page = names.pages[function.name]
            if function.section is not section or page in seen:
                continue
            seen.append(page)
            about, members = names.groups[page]
            places = [f"#{member.name}" if len(members) > 1 else "" for member in members]
            links = ", ".join(f'<a href="{page}.3.html{place}">{member.name}</a>'
                              for member, place in zip(members, places))
            about = first_sentence(members[0]) if about == members[0].name else about
            out.append(f"<tr><td>{links}</td><td>{html.escape(about)}</td></tr>")
        out.append("</table>")
    others = sorted({**names.types, **names.constants})
    out.append("<h2>Types and constants</h2>")
    places = []
    for name in others:
        target = pages[name, "3"][0].split("/")[1]
        places.append(f'<a href="{target}.html">{name}</a>')
    out.append("<p>" + ",\n".join(places) + "</p>")
    return "\n".join(out + ["</body>", "</html>", ""])
