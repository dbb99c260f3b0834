# SPDX-License-Identifier: MIT OR Apache-2.0
"""Copies functions of the standard library so that they use the names of a module of this package."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def complete(names: dict[str, Any], of: ModuleType) -> None:
    """Add the names of a module that `names` lacks, also those that it does not export: its functions use them."""
    for name, value in vars(of).items():
        names.setdefault(name, value)


def rebind(function: F, names: dict[str, Any]) -> F:
    """Return a copy of the function with other global names."""
    code: Any = function
    made = FunctionType(code.__code__, names, code.__name__, code.__defaults__, code.__closure__)
    made.__kwdefaults__ = code.__kwdefaults__
    made.__annotations__ = code.__annotations__
    made.__doc__ = code.__doc__
    made.__qualname__ = code.__qualname__
    made.__module__ = names["__name__"]
    return made  # type: ignore[return-value]
