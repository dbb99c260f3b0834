# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.subprocess: fiberrt.subprocess, and the other names of the standard library's subprocess."""

import subprocess as _stdlib

from ... import subprocess as _own
from ._names import take

take(globals(), _own)
take(globals(), _stdlib)
__all__ = list(_stdlib.__all__) if hasattr(_stdlib, "__all__") else [name for name in globals() if name[0] != "_"]
