# SPDX-License-Identifier: MIT OR Apache-2.0
"""local: an object whose attributes have separate values in each fiber."""

from __future__ import annotations

from . import _fiberrt
from ._fiberrt import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OWN = ("_local__key", "_local__init")


class _Key:
    """The key of a local in the fibers' dicts. They refer to the key, so that the local may be freed before them."""

    __slots__ = ("__weakref__",)


class local:
    """``mine = local(); mine.x = 1``: each fiber sees only the values that it has set itself.

    ``__init__`` of a subclass is called again, with the same arguments, in each fiber that uses the object.
    """

    __slots__ = ("_local__key", "_local__init", "__weakref__")

    def __new__(cls, /, *args: Any, **kwargs: Any) -> local:
        if (args or kwargs) and cls.__init__ is object.__init__:
            raise TypeError("local() takes no arguments")
        self = object.__new__(cls)
        object.__setattr__(self, "_local__key", _Key())
        object.__setattr__(self, "_local__init", (args, kwargs))
        if cls.__init__ is not object.__init__:  # it is called for this fiber now
            current()._locals[self._local__key] = {}
        return self

    def _local__values(self) -> dict[str, Any]:
        key = object.__getattribute__(self, "_local__key")
        of_fiber = current()._locals
        values = of_fiber.get(key)
        if values is None:
            values = of_fiber[key] = {}
            kind = type(self)
            if kind.__init__ is not object.__init__:
                args, kwargs = object.__getattribute__(self, "_local__init")
                try:
                    kind.__init__(self, *args, **kwargs)
                except BaseException:
                    of_fiber.pop(key, None)  # the next use calls __init__ again
                    raise
        return values

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN or name == "_local__values":
            return object.__getattribute__(self, name)
        values = object.__getattribute__(self, "_local__values")()
        if name == "__dict__":
            return values
        try:
            return values[name]
        except KeyError:
            return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__dict__":
            raise AttributeError("a local's __dict__ is read-only")
        self._local__values()[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self._local__values()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getstate__(self) -> Any:  # for copy and pickle
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def __del__(self) -> None:
        try:
            values = _fiberrt.locals_if_any()
            if values is not None:
                values.pop(object.__getattribute__(self, "_local__key"), None)
        except Exception:  # at the end of the interpreter
            pass
