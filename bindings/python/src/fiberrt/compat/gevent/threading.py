# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.threading: locks and identifiers for fibers, and the other names of threading."""

import threading as _stdlib

from ..._condition import Condition
from ..._fiberrt import BoundedSemaphore, Event, Lock, RLock, Semaphore
from ..._fiberrt import ident as get_ident
from ..._local import local
from ._names import take

_names = (Condition, BoundedSemaphore, Event, Lock, RLock, Semaphore, get_ident, local)
take(globals(), _stdlib)
__all__ = list(_stdlib.__all__)
