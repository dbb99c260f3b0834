# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.time: sleep()."""

import time as _stdlib

from ._names import take
from .hub import sleep

take(globals(), _stdlib)
__all__ = ["sleep"]
