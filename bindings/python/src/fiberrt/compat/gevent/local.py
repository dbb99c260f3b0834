# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.local: fiberrt.local."""

from ..._local import local

__all__ = ["local"]
