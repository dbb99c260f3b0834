# SPDX-License-Identifier: MIT OR Apache-2.0
"""The standard library's ``selectors``, whose ``select()`` lets other fibers run while it waits."""

from __future__ import annotations

import selectors as _stdlib
from selectors import EVENT_READ as EVENT_READ
from selectors import EVENT_WRITE as EVENT_WRITE
from selectors import BaseSelector as BaseSelector
from selectors import SelectorKey as SelectorKey
from typing import Any

from . import _select as _own


class EpollSelector(_stdlib.EpollSelector):
    """A selector for any number of pollable descriptors. Other fibers may register descriptors during a wait."""

    _selector_cls = _own.epoll


class PollSelector(_stdlib.PollSelector):
    """The standard library's PollSelector, but other fibers run while it waits."""

    _selector_cls = _own.poll


class SelectSelector(_stdlib.SelectSelector):
    """The standard library's SelectSelector, but other fibers run while it waits."""

    def _select(self, r: Any, w: Any, _: Any, timeout: float | None = None) -> Any:
        return _own.select(r, w, (), timeout)


DefaultSelector = EpollSelector
