# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions that are called when an object becomes ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _fiberrt


class Linkable:
    """The base of Event, AsyncResult and Semaphore. In a fiber of their own, the functions are called with the
    object."""

    _links: list[Callable[[Any], object]] | None = None
    _telling = False
    _keeps_links = False  # the object may become ready again

    def ready(self) -> bool:
        raise NotImplementedError

    def linkcount(self) -> int:
        """The number of linked functions."""
        return len(self._links or ())

    def rawlink(self, callback: Callable[[Any], object], /) -> None:
        """Call callback(self) when the object becomes ready, or soon if it is. The callback should not wait."""
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        if self._links is None:
            self._links = []
        self._links.append(callback)
        if self.ready():
            self._tell_links()

    def unlink(self, callback: Callable[[Any], object], /) -> None:
        """Undo one rawlink(). It does nothing if there is none."""
        if self._links and callback in self._links:
            self._links.remove(callback)

    def _tell_links(self) -> None:
        """Called when the object is ready."""
        if self._links and not self._telling:
            self._telling = True
            _fiberrt.spawn(_tell, self)


def _tell(linkable: Linkable) -> None:
    from .hub import get_hub

    linkable._telling = False
    links = list(linkable._links or ())
    for link in links:
        if link not in (linkable._links or ()):
            continue  # removed by another one
        if not linkable.ready():
            break
        if not linkable._keeps_links:
            linkable.unlink(link)
        try:
            link(linkable)
        except BaseException as error:
            get_hub().handle_error((link, linkable), type(error), error, error.__traceback__)


class Spawned:
    """Calls a callback in a new fiber."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[Any], object]) -> None:
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        self.callback = callback

    def __call__(self, source: Any) -> None:
        from .hub import spawn_raw

        spawn_raw(self.callback, source)

    def __eq__(self, other: object) -> bool:
        return self.callback == getattr(other, "callback", other)

    def __hash__(self) -> int:
        return hash(self.callback)


class IfSuccessful(Spawned):
    __slots__ = ()

    def __call__(self, source: Any) -> None:
        if source.successful():
            super().__call__(source)


class IfFailed(Spawned):
    __slots__ = ()

    def __call__(self, source: Any) -> None:
        if not source.successful():
            super().__call__(source)
