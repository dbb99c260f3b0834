# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fetches many URLs at once, with only the standard library and threads.

    python fetch_many.py URL...                # a thread for each
    python -m fiberrt fetch_many.py URL...     # the same program: a fiber for each, all on one thread

Exits with 1 if a URL could not be fetched. For thousands of URLs, make 20 threads, or fibers, instead of one for each:
`with ThreadPoolExecutor(20) as pool: list(pool.map(fetch, pages))`.
"""

import sys
import threading
import time
import urllib.request
from dataclasses import dataclass


@dataclass
class Page:
    url: str
    size: int = 0
    seconds: float = 0.0
    error: str = ""


def fetch(page: Page) -> None:
    begun = time.monotonic()
    try:
        with urllib.request.urlopen(page.url, timeout=30) as answer:
            page.size = len(answer.read())
    except (OSError, ValueError) as error:
        page.error = str(error)
    page.seconds = time.monotonic() - begun


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: fetch_many.py URL...", file=sys.stderr)
        return 2
    pages = [Page(url) for url in sys.argv[1:]]
    threads = [threading.Thread(target=fetch, args=(page,)) for page in pages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for page in pages:
        print(page.url, page.error or f"{page.size} bytes in {page.seconds:.3f} s")
    return int(any(page.error for page in pages))


if __name__ == "__main__":
    sys.exit(main())
