# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values that modules of the standard library have read from the real system before a run: random states, the folder of
temporary files, a time, a machine's address. A run gets values that are the same in each run."""

from __future__ import annotations

import os
import posix
import random
import sys
import tempfile
from typing import Any

_first_folder = ""  # of temporary files, if the program names none


def prepare() -> None:
    """Change this process, for all runs."""
    global _first_folder
    _first_folder = tempfile._get_default_tempdir()  # type: ignore[attr-defined]
    uuid = sys.modules.get("uuid")
    if uuid is not None:
        uuid._node = None  # getnode() then takes it from the simulated uuid1()
    _seed_by_urandom()


def _seed_by_urandom() -> None:
    """Make random.seed() and random.Random() without a seed take it from os.urandom(), not from the system in C."""
    before, before_bound = random.Random.seed, random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        """Initialize the state from a seed; without one, from os.urandom()."""
        before(self, int.from_bytes(posix.urandom(32), "little") if a is None else a, version)

    random.Random.seed = seed  # type: ignore[method-assign]
    random.seed = random._inst.seed  # type: ignore[attr-defined]
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        for key, value in list(names.items()):
            if value is before_bound:
                names[key] = random.seed


def _named_folders() -> list[str | None]:
    return [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]


def begin(folder: str) -> None:
    """Change this process, which is a run. It makes the folder if the program asks for temporary files."""
    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)
    logging: Any = sys.modules.get("logging")
    if logging is not None:  # LogRecord.relativeCreated counts from it
        import time

        logging._startTime = time.time_ns() if isinstance(logging._startTime, int) else time.time()
    if tempfile.tempdir in (None, _first_folder):
        first, named = tempfile._get_default_tempdir, _named_folders()  # type: ignore[attr-defined]

        def own_folder() -> str:
            if _named_folders() != named:  # by the test
                return str(first())
            os.makedirs(folder, 0o700, exist_ok=True)
            return folder

        tempfile.tempdir = None
        tempfile._get_default_tempdir = own_folder  # type: ignore[attr-defined]
