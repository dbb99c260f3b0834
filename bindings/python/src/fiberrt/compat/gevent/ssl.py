# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.ssl: fiberrt.ssl, and the other names of the standard library's ssl."""

import ssl as _stdlib

from ... import ssl as _own
from ._names import take

take(globals(), _own)
take(globals(), _stdlib)
__all__ = list(_stdlib.__all__) if hasattr(_stdlib, "__all__") else [name for name in globals() if name[0] != "_"]
