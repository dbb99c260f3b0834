# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lets C extensions wait as fibers do, without changes to them.

    import fiberrt
    import fiberrt.native

    fiberrt.native.adopt("psycopg2")
    # From here on, a query by a fiber lets the other fibers of the thread run.

adopt() takes the names of extension modules, of packages with such modules, and of loaded libraries. In the extension
modules, and in the libraries that these need, such as libpq, it replaces the blocking functions of the C library (read,
poll, connect, sleep, ...). The libraries may have other file names, as in wheels. Other modules are not affected,
unless they use the same library. fiberrt.monkey.patch() adopts the packages in KNOWN.

An adopted call waits as a fiber if

- its caller is a fiber, or the main flow of a thread that has fibers, and
- the C code has released the interpreter's lock (the GIL), as extensions do before calls that may block.

An adopted call blocks the thread as before

- if the C code holds the GIL: report_blocking() names such calls,
- on a thread without fibers, and in a greenlet in a fiber,
- in signal handlers and finalizers that run while fibers are switched, and at the end of the interpreter,
- while there are other interpreters in the process.

A cancel, or the time limit of a scope, ends such a wait, and shuts down the connection on which the fiber waits. Then
the extension raises its own error, such as psycopg2.OperationalError. The next wait in Python raises CancelledError, as
usual. The program must open a new connection.

An exception given to Fiber.throw(), or raised by a signal handler, does not end the wait. In a fiber, the next wait in
Python raises it; in a main flow, the interpreter raises it when the call of the extension has ended.

adopt() does not reach code that waits in the kernel by other functions, such as futexes (grpc), nor threads that an
extension makes (confluent_kafka): these block as before. Two fibers may use one connection at the same time only if the
extension allows that to two threads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import Any

from . import _fiberrt, _later

# The packages that fiberrt.monkey.patch() adopts when the program imports them. After their modules have released the
# GIL, and until they acquire it again, they call nothing that takes long, except waits. So native.cc lets a fiber keep
# the GIL there.
KNOWN = ("MySQLdb", "psycopg", "psycopg2", "pycurl", "pymssql")

# Packages whose extension modules are in other packages.
_PARTS = {"psycopg": ("psycopg_binary", "psycopg_c")}

# Beginnings of the names of libraries that are never adopted with a package: the C and C++ libraries, the interpreter,
# and runtimes of sanitizers.
_SYSTEM = (
    "ld-linux", "ld-musl", "libanl.so", "libasan.", "libc.so", "libclang_rt.", "libdl.so", "libfiberrt", "libgcc_s",
    "liblsan.", "libm.so", "libnss_", "libpthread.so", "libpython", "libresolv.so", "librt.so", "libstdc++",
    "libtsan.", "libubsan.", "libutil.so",
)  # fmt: skip

_paths: dict[str, set[str]] = {}  # for each adopted name: the paths of the adopted files


def _extensions(name: str) -> set[str]:
    """Return the files of the loaded extension modules of a package."""
    heads = (name, *_PARTS.get(name, ()))
    files = set()
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(tuple(head + "." for head in heads)) or module_name in heads:
            file = getattr(module, "__file__", None)
            if isinstance(file, str):
                files.add(os.path.realpath(file))
    return files


def _is_named(path: str, name: str) -> bool:
    """Whether a file is the library of this name: libpq.so is also libpq.so.5 and a wheel's libpq-1a2b3c.so.5."""
    if "/" in name:
        return path == name
    stem, _, version = name.partition(".so")
    file = os.path.basename(path)
    if not file.startswith(stem):
        return False
    rest = file[len(stem) :]
    if rest.startswith("-"):
        rest = rest[1:].lstrip("0123456789abcdef")
    return rest == ".so" + version or rest.startswith(f".so{version}.")


def _files_of(name: str) -> set[str]:
    """Return the paths of the loaded files that belong to a name: extension modules and the libraries they need."""
    loaded = _fiberrt.native_loaded()
    if ".so" in name:
        return {path for path, _, _ in loaded if _is_named(path, name)}
    extensions = _extensions(name)
    by_name = {os.path.basename(path): path for path, _, _ in loaded}
    by_name.update((soname, path) for path, sonames, _ in loaded for soname in sonames)
    needs = {path: names for path, _, names in loaded}
    found = {path for path in needs if os.path.realpath(path) in extensions}
    left = list(found)
    while left:
        for needed in needs[left.pop()]:
            path = by_name.get(needed)
            if path and path not in found and not os.path.basename(path).startswith(_SYSTEM):
                found.add(path)
                left.append(path)
    return found


def _adopt_loaded(name: str) -> set[str]:
    """Adopt the loaded files of a name. Return the paths of the files whose calls have been replaced."""
    keeps_gil = _extensions(name) if name in KNOWN else set()
    files = _files_of(name)
    replaced = {path for path in files if _fiberrt.native_adopt(path, os.path.realpath(path) in keeps_gil)}
    if replaced:
        _paths.setdefault(name, set()).update(replaced)
    return replaced


def _follow(name: str) -> None:
    """Adopt a package's extension modules: the imported ones now, and each other one when it is imported."""

    def imported(module: ModuleType) -> None:
        try:
            _adopt_loaded(name)
        except OSError as error:
            import warnings

            warnings.warn(f"{module.__name__} blocks its thread: {error}", RuntimeWarning, stacklevel=2)

    for head in (name, *_PARTS.get(name, ())):
        _later.follow(head, imported)
        if head in sys.modules:
            imported(sys.modules[head])
    if name == "psycopg":
        _later.set_when_imported("psycopg.waiting", _set_psycopg)


def _follow_known() -> None:
    for name in KNOWN:
        _follow(name)


def _set_psycopg(waiting: Any) -> None:
    # While psycopg connects, it waits by a selector of the standard library, and not in libpq.
    from . import _select, selectors

    if getattr(waiting, "select", None) is sys.modules["select"]:
        waiting.select, waiting.selectors, waiting.DefaultSelector = _select, selectors, selectors.DefaultSelector


def adopt(*names: str) -> list[str]:
    """Let the blocking calls of extension modules wait as fibers. Return the paths of the files whose calls changed.

    A name is that of a module or package, or of a loaded library: "libpq.so", for example after ctypes has loaded it.
    adopt() imports a module or package, and adopts the libraries that it needs, too. When the program later imports
    further extension modules of the package, they are adopted then. A library that an extension loads later must be
    adopted by its own name.

    Raises the error of the import; LookupError if no such library is loaded; ValueError if a module or package has no
    loaded extension module in a separate file; OSError if the system does not let the table of a library be changed.
    A second call for the same name has no effect.
    """
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"adopt() takes names, not {name!r}")
        if not name:
            raise ValueError("adopt() takes the name of a module or a library")
        if ".so" not in name:
            import_module(name)
    result: set[str] = set()
    for name in names:
        if not _files_of(name):
            if ".so" in name:
                raise LookupError(f"no library {name!r} is loaded")
            raise ValueError(f"{name!r} has no extension module in a file of its own")
        result |= _adopt_loaded(name)
        if ".so" not in name:
            _follow(name)
    return sorted(result)


def release(*names: str) -> None:
    """Undo adopt() for these names, or for all if there are none. A call in progress continues to wait as a fiber.

    A library that another adopted package needs stays adopted. Raises ValueError if a name is not adopted.
    """
    for name in names:
        if name not in _paths and name not in _later.followed():
            raise ValueError(f"{name!r} is not adopted")
    for name in names or [*_paths, *_later.followed()]:
        for head in (name, *_PARTS.get(name, ())):
            _later.unfollow(head)
        of_others = _union(paths for other, paths in _paths.items() if other != name)
        for path in _paths.pop(name, set()) - of_others:
            _fiberrt.native_release(path)


def _union(sets: Iterable[set[str]]) -> set[str]:
    return set().union(*sets)


def adopted() -> dict[str, list[str]]:
    """Return a dict: for the path of each adopted file, the sorted names of the functions that wait as fibers."""
    result: dict[str, list[str]] = {}
    for path, function in _fiberrt.native_adopted():
        result.setdefault(path, []).append(function)
    return {path: sorted(set(functions)) for path, functions in sorted(result.items())}


def is_adopted(name: str) -> bool:
    """Whether calls of this module, package or library wait as fibers."""
    return bool(_paths.get(name))
