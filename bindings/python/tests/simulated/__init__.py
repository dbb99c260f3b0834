# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small programs with threads, for the tests of fiberrt.testing: some with a bug, some correct."""

from __future__ import annotations

import threading
from collections.abc import Callable


def together(**calls: Callable[[], object]) -> None:
    """Make each call in a thread of that name, and wait for their ends."""
    threads = [threading.Thread(target=call, name=name) for name, call in calls.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
