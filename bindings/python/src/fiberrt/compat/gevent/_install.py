# SPDX-License-Identifier: MIT OR Apache-2.0
"""install(): these modules under gevent's names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from ..._later import set_when_imported
from ._current import getcurrent

_PACKAGE = __package__ or ""


class _Loader(Loader):
    """Loads our module, which keeps its own name."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        made = import_module(_PACKAGE + spec.name.removeprefix("gevent"))
        self._spec = made.__spec__
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _Finder(MetaPathFinder):
    """Finds gevent's modules in this package, and imports each when the program does."""

    def __init__(self) -> None:
        self._names = {f"gevent.{each.name}" for each in iter_modules(sys.modules[_PACKAGE].__path__)}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, _Loader()) if fullname in self._names else None


def _set_locust(runners: Any) -> None:
    """locust compares Greenlets with greenlet.getcurrent(). That of the package greenlet does not know fibers."""
    instead = ModuleType("greenlet")
    vars(instead).update(vars(runners.greenlet), getcurrent=getcurrent)
    runners.greenlet = instead


def install() -> None:
    """Let `import gevent` and its submodules find the modules of this package. RuntimeError: gevent itself has been
    imported."""
    here = sys.modules[_PACKAGE]
    if sys.modules.get("gevent", here) is not here:
        raise RuntimeError("gevent has been imported already: install() must come first")
    if not installed():
        sys.modules["gevent"] = here
        sys.meta_path.insert(0, _Finder())
        set_when_imported("locust.runners", _set_locust)


def installed() -> bool:
    """Whether install() has been called."""
    return sys.modules.get("gevent") is sys.modules[_PACKAGE]
