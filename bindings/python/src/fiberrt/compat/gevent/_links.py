# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions that are called when an object becomes ready."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from typing import Any

from ... import _fiberrt


class Linkable:
    """The base of Event, AsyncResult and Semaphore. A separate fiber calls each linked function with the object. If
    another thread than the one of rawlink() makes the object ready, that thread calls the function itself: it may be a
    helper thread, whose fibers end with the call that the thread runs."""

    _links: list[tuple[Callable[[Any], object], int]] | None = None  # the functions and the threads of rawlink()
    _only_while_ready = False  # call no function once the object is no longer ready

    def ready(self) -> bool:
        raise NotImplementedError

    def linkcount(self) -> int:
        """The number of linked functions."""
        return len(self._links or ())

    def rawlink(self, callback: Callable[[Any], object], /) -> None:
        """Call callback(self) once, when the object becomes ready, or soon if it is. The callback must not wait."""
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        if self._links is None:
            self._links = []
        link = (callback, get_ident())
        self._links.append(link)
        if self.ready():
            _fiberrt.spawn(_tell, self, [link])

    def unlink(self, callback: Callable[[Any], object], /) -> None:
        """Undo one rawlink(). It does nothing if there is none."""
        for link in list(self._links or ()):
            if link[0] == callback:
                _take(self, link)
                return

    def _tell_links(self) -> None:
        """Called when the object is ready."""
        if not self._links:
            return
        links, here = list(self._links), get_ident()
        own = [link for link in links if link[1] == here]
        if len(own) < len(links):
            _tell(self, [link for link in links if link[1] != here])
        if own:
            _fiberrt.spawn(_tell, self, own)


def _take(linkable: Linkable, link: tuple[Callable[[Any], object], int]) -> bool:
    """Remove a link. Return whether it was there."""
    try:
        (linkable._links or []).remove(link)
    except ValueError:
        return False
    return True


def _tell(linkable: Linkable, links: list[tuple[Callable[[Any], object], int]]) -> None:
    """Call the functions of the links that have not been removed, and remove them."""
    from .hub import get_hub

    for link in links:
        if linkable._only_while_ready and not linkable.ready():
            return
        if not _take(linkable, link):
            continue
        try:
            link[0](linkable)
        except BaseException as error:
            get_hub().handle_error((link[0], linkable), type(error), error, error.__traceback__)


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
