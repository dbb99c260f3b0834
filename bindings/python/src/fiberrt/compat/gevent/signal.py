# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.signal: fiberrt.signal. gevent.signal_handler() calls a function in a greenlet."""

from signal import getsignal, set_wakeup_fd

from ... import signal as _own
from ._names import take

signal = _own.signal
take(globals(), _own)
__all__ = ["getsignal", "set_wakeup_fd", "signal"]
