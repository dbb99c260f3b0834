# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.select: select(), poll() and epoll() that let other fibers run, and the other names of the standard library's
select."""

import select as _stdlib

from ... import _select as _own
from ._names import take

error, select, poll, epoll = OSError, _own.select, _own.poll, _own.epoll
take(globals(), _stdlib)
__all__ = ["epoll", "error", "poll", "select"]
