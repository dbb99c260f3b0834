# SPDX-License-Identifier: MIT OR Apache-2.0
"""The calls of the module os on paths and files that fiberrt.monkey replaces.

On a disk, most of these take less time than a switch to a thread, so they run where they are called. On the file system
of another machine or process - NFS, FUSE, … - they take as long as the other side likes, so a thread calls them, while
the fiber waits. A path that the kernel has not cached counts as slow, too, while such a file system is mounted.
"""

from __future__ import annotations

import os
import posix
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from . import _fiberrt
from ._fiberrt import FileCall, is_slow


def _is_slow(arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
    path = arguments[0] if arguments else options.get("path", options.get("fd"))
    return is_slow(path, options.get("dir_fd"))


def _query(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function that changes nothing: a cancel ends the wait at once, and the thread may be left behind."""
    if _is_slow(arguments, options):
        return _fiberrt.offload_detached(function, *arguments, **options)
    return function(*arguments, **options)


def _with_one_path(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function that changes something: it is called even in a cancelled fiber, and completed."""
    if _is_slow(arguments, options):
        return _fiberrt.offload_shielded(function, *arguments, **options)
    return function(*arguments, **options)


def _with_two_paths(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    src, dst = (*arguments[:2], *(options.get(name) for name in ("src", "dst")[len(arguments) :]))
    folder = options.get("dir_fd")  # of symlink()
    if is_slow(src, options.get("src_dir_fd", folder)) or is_slow(dst, options.get("dst_dir_fd", folder)):
        return _fiberrt.offload_shielded(function, *arguments, **options)
    return function(*arguments, **options)


# --- Reading folders


def _elsewhere(function: Callable[..., Any], **options: Any) -> Any:
    return _fiberrt.offload_detached(function, **options) if _fiberrt.may_wait() else function(**options)


class _Entry:
    """An os.DirEntry of a slow file system."""

    __slots__ = ("_entry", "name", "path")

    def __init__(self, entry: os.DirEntry[Any]) -> None:
        self._entry = entry
        self.name = entry.name
        self.path = entry.path

    @property
    def __class__(self) -> type:  # type: ignore[override]  # for isinstance()
        return os.DirEntry

    def __fspath__(self) -> Any:
        return self.path

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'posix.DirEntry' object")

    def __repr__(self) -> str:
        return repr(self._entry)

    def inode(self) -> int:
        return self._entry.inode()

    def is_symlink(self) -> bool:
        return _elsewhere(self._entry.is_symlink)

    def is_junction(self) -> bool:
        return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return _elsewhere(self._entry.is_dir, follow_symlinks=follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return _elsewhere(self._entry.is_file, follow_symlinks=follow_symlinks)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return _elsewhere(self._entry.stat, follow_symlinks=follow_symlinks)


class _Entries:
    """What os.scandir() returns for a slow file system: the entries are read already."""

    def __init__(self, entries: list[_Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[_Entry]:
        return self

    def __next__(self) -> _Entry:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _read_folder(function: Callable[..., Any], *arguments: Any, **options: Any) -> list[_Entry]:
    with function(*arguments, **options) as entries:
        read = []
        for entry in entries:
            with suppress(OSError):  # entry.stat() will raise it
                entry.is_dir(follow_symlinks=False)  # some file systems do not tell without another call
            read.append(_Entry(entry))
        return read


def _scandir(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    path = arguments[0] if arguments else options.get("path")
    if is_slow(path):
        return _Entries(_fiberrt.offload_detached(_read_folder, function, *arguments, **options))
    return function(*arguments, **options)


_SLOWLY: dict[Callable[..., Any], tuple[str, ...]] = {
    _query: ("access", "fstat", "fstatvfs", "getxattr", "listdir", "listxattr", "lstat", "readlink", "stat", "statvfs"),
    _with_one_path: (
        "chmod", "chown", "close", "fchmod", "fchown", "ftruncate", "lchown", "mkdir", "mkfifo", "mknod", "remove", "removexattr",
        "rmdir", "setxattr", "truncate", "unlink", "utime",
    ),
    _with_two_paths: ("link", "rename", "replace", "symlink"),
    _scandir: ("scandir",),
}  # fmt: skip


# --- Calls on descriptors

pread = _fiberrt.os_pread
pwrite = _fiberrt.os_pwrite


def fsync(fd: Any) -> None:
    """os.fsync() that lets other fibers run while it waits."""
    (_fiberrt.fsync if _fiberrt.may_wait() else posix.fsync)(fd)


def fdatasync(fd: Any) -> None:
    """os.fdatasync() that lets other fibers run while it waits."""
    (_fiberrt.fdatasync if _fiberrt.may_wait() else posix.fdatasync)(fd)


def _on_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a thread calls while the fiber waits."""

    def call(*arguments: Any, **options: Any) -> Any:
        if _fiberrt.may_wait():
            return _fiberrt.offload(function, *arguments, **options)
        return function(*arguments, **options)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


_ON_THREAD = "copy_file_range", "posix_fallocate", "preadv", "pwritev", "sync"

NAMES = ["fdatasync", "fsync", "pread", "pwrite"]


def _make() -> None:
    for slowly, names in _SLOWLY.items():
        for name in names:
            globals()[name] = FileCall(getattr(posix, name), slowly)
    for name in _ON_THREAD:
        globals()[name] = _on_thread(getattr(posix, name))
    NAMES.extend(name for names in (*_SLOWLY.values(), _ON_THREAD) for name in names)
    # shutil.rmtree() and others ask what a function supports.
    for name in NAMES:
        for supported in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
            if getattr(posix, name) in supported:
                supported.add(globals()[name])


_make()
