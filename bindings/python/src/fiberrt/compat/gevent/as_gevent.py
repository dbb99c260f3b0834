# SPDX-License-Identifier: MIT OR Apache-2.0
"""The import of this module calls fiberrt.compat.gevent.install()."""

from ._install import install

install()
