# SPDX-License-Identifier: MIT OR Apache-2.0
"""Replaces the locks, conditions, events, semaphores and queues that a program has made while it was imported, before
the simulation: in modules, classes, objects, lists, defaults of functions and closures. Also the classes themselves,
where a default or an attribute holds one."""

from __future__ import annotations

import _queue
import _thread
import gc
import sys
import threading
from types import CellType, FunctionType, ModuleType
from typing import Any

from .. import _condition, _fiberrt
from . import _locks

_kept: list[Any] = []  # what has been replaced; a cache may still have a borrowed reference
_LOCKS = (_thread.LockType, _thread.RLock, _fiberrt.Lock, _fiberrt.RLock, _queue.SimpleQueue)


def _of_library(kind: type) -> str:
    """Return the name of one of threading's own classes; nothing for other classes. patch() has replaced them."""
    names = ("Condition", "Event", "Semaphore", "BoundedSemaphore")
    return kind.__qualname__ if kind.__module__ == "threading" and kind.__qualname__ in names else ""


def _new(old: Any, locks: dict[int, Any]) -> Any:
    """Return a new object in place of one that nothing holds or waits for; otherwise None."""
    kind = type(old)
    name = _of_library(kind)
    if kind in (_thread.LockType, _fiberrt.Lock):
        return None if old.locked() else _locks.Lock()
    if kind in (_thread.RLock, _fiberrt.RLock):
        return None if "count=0" not in repr(old) else _locks.RLock()
    if name == "Condition":
        if old._waiters:
            return None
        lock = locks.get(id(old._lock), (None, old._lock))[1]
        return _locks.Condition(lock)
    if name == "Event":
        event = _locks.Event()
        if old.is_set():
            event.set()
        return event
    if name == "Semaphore":
        return _locks.Semaphore(old._value)
    if name == "BoundedSemaphore":
        bounded = _locks.BoundedSemaphore(old._initial_value)
        for _ in range(old._initial_value - old._value):
            bounded.acquire(False)
        return bounded
    if kind is _queue.SimpleQueue:
        return None if not old.empty() else _locks.SimpleQueue()
    return None


def replace_existing() -> None:
    """Replace them in the objects that the garbage collector knows."""
    found = [thing for thing in gc.get_objects() if type(thing) in _LOCKS or _of_library(type(thing))]
    found.sort(key=lambda thing: _of_library(type(thing)) == "Condition")  # these get the new locks
    new: dict[int, tuple[Any, Any]] = {}
    for old in found:
        by = _new(old, new)
        if by is not None:
            new[id(old)] = old, by
    _replace(new, {id(found), *map(id, found)})
    kinds = {}
    for name, by in (*_locks.REPLACED.items(), ("SimpleQueue", _locks.SimpleQueue)):
        for module in (threading, _queue, _fiberrt, _condition):
            old = getattr(module, name, None)
            if old is not None and old is not by:
                kinds[id(old)] = old, by
    _replace(kinds, {id(threading.__dict__), id(_thread.__dict__), id(_queue.__dict__), *map(id, found)}, cells=False)


def _replace(new: dict[int, tuple[Any, Any]], own: set[int], cells: bool = True) -> None:
    """Replace the first of each pair by the second, except in objects of these ids."""
    olds = [old for old, _ in new.values()]
    own |= {id(olds), id(_kept), id(new), *map(id, new.values())}
    own |= {id(module.__dict__) for name, module in sys.modules.items() if _is_left_alone(name, module)}
    types = _types_by_dict()
    own_classes = {id(value) for value in vars(_locks).values()}  # which have those of fiberrt as attributes
    own |= {number for number, kind in types.items() if id(kind) in own_classes}
    _kept.extend(olds)
    for holder in gc.get_referrers(*olds):
        if id(holder) not in own and (cells or not isinstance(holder, CellType)):
            _replace_in(holder, types, new)


def _is_left_alone(name: str, module: object) -> bool:
    return isinstance(module, ModuleType) and name.split(".")[0] in ("fiberrt", "importlib", "_frozen_importlib")


def _types_by_dict() -> dict[int, type]:
    """Return the classes by the ids of the dicts of their attributes, which the garbage collector finds. isinstance()
    would ask proxies for their __class__."""
    kinds = [kind for kind in gc.get_objects() if issubclass(type(kind), type)]
    return {id(gc.get_referents(type.__dict__["__dict__"].__get__(kind))[0]): kind for kind in kinds}


def _replace_in(holder: Any, types: dict[int, type], new: dict[int, tuple[Any, Any]]) -> None:
    if type(holder) is dict:
        for key, value in list(holder.items()):
            if id(value) not in new:
                continue
            if id(holder) in types:  # the interpreter has caches of a class's attributes
                type.__setattr__(types[id(holder)], key, new[id(value)][1])
            else:
                holder[key] = new[id(value)][1]
    elif type(holder) is list:
        holder[:] = [new[id(value)][1] if id(value) in new else value for value in holder]
    elif type(holder) is tuple:
        for function in gc.get_referrers(holder):
            if isinstance(function, FunctionType) and function.__defaults__ is holder:
                function.__defaults__ = tuple(new[id(value)][1] if id(value) in new else value for value in holder)
    elif isinstance(holder, CellType):
        holder.cell_contents = new[id(holder.cell_contents)][1]
    elif not isinstance(holder, (threading.Thread, type, ModuleType)) and type(holder).__module__ != "fiberrt":
        _replace_in_object(holder, new)


def _replace_in_object(holder: Any, new: dict[int, tuple[Any, Any]]) -> None:
    names = list(getattr(holder, "__dict__", ()))
    for kind in type(holder).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    for name in names:
        value = getattr(holder, name, None)
        if id(value) in new:
            object.__setattr__(holder, name, new[id(value)][1])
