# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes fibers that import the same module at the same time wait for each other, as threads do."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from . import _fiberrt


def patch(ident: Any) -> None:
    """Give the importlib locks of fibers. ident: returns the number of the calling fiber or thread.

    importlib keeps a lock for each module that is being imported. Its own locks are those of threads: a second fiber of
    the thread would count as an import within the import, and get a module that is half initialized.
    """
    importlib: Any = sys.modules["_frozen_importlib"]
    importlib._thread = SimpleNamespace(allocate_lock=_fiberrt.Lock, RLock=_fiberrt.RLock, get_ident=ident)
