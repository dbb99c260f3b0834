# SPDX-License-Identifier: MIT OR Apache-2.0
# plain_links.py FOLDER - in the Markdown pages below FOLDER, a link to a file that is not there becomes its text: the
# package has only some of the files of the sources. Code blocks stay as they are. If there is no FOLDER, there are no
# pages.
import pathlib
import re
import sys

FENCED = re.compile(r"(^```.*?^```$)", re.M | re.S)
LINK = re.compile(r"\[((?:[^][]|\[[^][]*\])*)\]\(([^()\s#:]*[./][^()\s#:]*|[a-z]+)(?:#[^()\s]*)?\)")

for page in sorted(pathlib.Path(sys.argv[1]).rglob("*.md")):

    def plain(link: re.Match, page: pathlib.Path = page) -> str:
        return link[0] if (page.parent / link[2]).exists() else link[1]

    parts = FENCED.split(page.read_text(encoding="utf-8"))
    parts[::2] = [LINK.sub(plain, part) for part in parts[::2]]
    page.write_text("".join(parts), encoding="utf-8")
