# SPDX-License-Identifier: MIT OR Apache-2.0
"""Settings that fiberrt.monkey and fiberrt.native make in modules when a program imports them.

psycopg2 and psycopg wait in C. If fiberrt.native has not adopted them, they are set to call a Python function instead.
If the module queue is imported again, it takes SimpleQueue from _queue, which then makes new types. The files of _pyio
hold locks of _thread while they wait, so they get locks of fibers. Future.done(), running() and cancelled() of
concurrent.futures count as polls. pathlib finds os.scandir() in glob. input() adds lines to readline's history as
set_auto_history() says. asyncio learns that each fiber may run an event loop, and celery that each may run a task.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import ModuleType
from typing import Any

from . import _fiberrt


def _wait_for_psycopg2(connection: Any) -> None:
    """The wait callback of psycopg2."""
    from psycopg2 import OperationalError  # type: ignore[import-untyped]
    from psycopg2.extensions import POLL_OK, POLL_READ, POLL_WRITE  # type: ignore[import-untyped]

    while (state := connection.poll()) != POLL_OK:
        events = {POLL_READ: select.POLLIN, POLL_WRITE: select.POLLOUT}.get(state)
        if events is None:
            raise OperationalError(f"poll() returned {state!r}")
        _fiberrt.wait_fd(connection, events)


def _is_adopted(name: str) -> bool:
    native = sys.modules.get(f"{__package__}.native")
    return native is not None and bool(native.is_adopted(name))


def _set_psycopg2(extensions: Any) -> None:
    if not _is_adopted("psycopg2") and extensions.get_wait_callback() is None:  # the program has not set another one
        extensions.set_wait_callback(_wait_for_psycopg2)


def _set_psycopg(waiting: Any) -> None:
    if not _is_adopted("psycopg") and "PSYCOPG_WAIT_FUNC" not in os.environ:
        # Wait by poll() of the module select or, in older versions, by a selector, but not in C.
        waiting.wait = getattr(waiting, "wait_poll", waiting.wait_selector)


def _set_multiprocessing(connection: Any) -> None:
    import selectors

    connection._WaitSelector = selectors.PollSelector


def _set_asyncio(module: Any) -> None:
    from . import aio  # noqa: F401 - from now on each fiber has its own running event loop


def _set_celery(threads: Any) -> None:
    import threading

    threads.get_ident = threading.get_ident  # celery keeps the running task under it: each fiber has its own


def _set_glob(module: Any) -> None:
    import os

    globber: Any = getattr(module, "_StringGlobber", None)  # since Python 3.13
    if hasattr(globber, "scandir"):
        globber.scandir = staticmethod(os.scandir)


def _set_queue(module: Any) -> None:
    from . import _queue

    module.Empty, module.SimpleQueue = _queue.queue.Empty, _queue.SimpleQueue


def _set_pyio(module: Any) -> None:
    module.Lock = _fiberrt.Lock


def _set_readline(module: Any) -> None:
    from . import _readline

    _readline.follow_auto_history(module)


def _giving_turns(method: Callable[[Any], bool]) -> Callable[[Any], bool]:
    @wraps(method)
    def look(self: Any) -> bool:
        _fiberrt.poll_turn()
        return method(self)

    return look


def _set_futures(module: Any) -> None:
    for name in "cancelled", "done", "running":
        setattr(module.Future, name, _giving_turns(getattr(module.Future, name)))


# For each module: its setting, and the modules that must be patched for it.
_SETTINGS: dict[str, tuple[Callable[[Any], None], set[str]]] = {
    "_pyio": (_set_pyio, {"threading"}),
    "_queue": (_set_queue, {"queue"}),
    "asyncio": (_set_asyncio, {"threading"}),
    "celery.utils.threads": (_set_celery, {"threading"}),
    "concurrent.futures._base": (_set_futures, {"threading"}),
    "glob": (_set_glob, {"os"}),
    "multiprocessing.connection": (_set_multiprocessing, {"selectors"}),
    "readline": (_set_readline, {"io"}),
    "psycopg2.extensions": (_set_psycopg2, {"select"}),
    "psycopg.waiting": (_set_psycopg, {"select", "selectors"}),
}


class _Loader(Loader):
    """Wraps a module's loader: loads the module, makes its settings, and restores the original loader."""

    def __init__(self, loader: Any, settings: list[Callable[[Any], None]]) -> None:
        self._loader = loader
        self._settings = settings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        for setting in self._settings:
            setting(module)


class _Finder(MetaPathFinder):
    """Wraps the loaders of the modules that have settings, and of the extension modules of packages that are followed.
    The other finders find these modules."""

    def __init__(self) -> None:
        self.settings: dict[str, list[Callable[[Any], None]]] = {}
        self.followed: dict[str, Callable[[Any], None]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        settings = self.settings.get(fullname, [])
        followed = self.followed.get(fullname.partition(".")[0])
        if not settings and followed is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if finder is self or find is None else find(fullname, path, target)
            if spec is not None:
                if followed is not None and isinstance(spec.loader, ExtensionFileLoader):
                    settings = [followed, *settings]
                if settings and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, settings)
                return spec
        return None


_finder = _Finder()


def _find_with_us() -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def set_when_imported(name: str, setting: Callable[[Any], None]) -> None:
    """Make a setting in a module, now or at the later import."""
    settings = _finder.settings.setdefault(name, [])
    if setting in settings:
        return
    settings.append(setting)
    _find_with_us()
    if name in sys.modules:
        setting(sys.modules[name])


def watch(patched: set[str]) -> None:
    """Make the settings that belong to these patched modules of the standard library, now or at the later import."""
    for name, (setting, needed) in _SETTINGS.items():
        if needed <= patched:
            set_when_imported(name, setting)


def follow(package: str, imported: Callable[[Any], None]) -> None:
    """Call imported(module) after the import of each extension module of a package, or of this module."""
    _finder.followed[package] = imported
    _find_with_us()


def unfollow(package: str) -> None:
    _finder.followed.pop(package, None)


def followed() -> list[str]:
    return list(_finder.followed)
