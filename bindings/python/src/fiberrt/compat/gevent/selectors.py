# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.selectors: fiberrt.selectors."""

from ... import selectors as _own
from ._names import take

take(globals(), _own)
GeventSelector = DefaultSelector = _own.DefaultSelector
__all__ = ["DefaultSelector", "GeventSelector"]
