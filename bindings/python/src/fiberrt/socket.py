# SPDX-License-Identifier: MIT OR Apache-2.0
"""The standard library's ``socket``, whose calls let other fibers run while they wait.

``fiberrt.socket.socket`` is a ``socket.socket``, with its methods, timeouts and exceptions. Host names are looked up on
other threads. When a socket is closed, the waits of other fibers on it end with ``OSError`` (``EBADF``).
"""

from __future__ import annotations

import errno
import io
import os
import posix
import select
import socket as _stdlib
import stat
from collections.abc import Callable, Iterable
from operator import index
from socket import *
from typing import Any

import _socket

from . import _fiberrt, _files
from ._rebind import complete, rebind
from ._threads import to_thread

__all__ = [*_stdlib.__all__]

_IN = select.POLLIN
_OUT = select.POLLOUT
_DONTWAIT = _stdlib.MSG_DONTWAIT
_INTERNET = (_stdlib.AF_INET, _stdlib.AF_INET6)
_default: Any = _stdlib._GLOBAL_DEFAULT_TIMEOUT  # type: ignore[attr-defined]
_method = _socket.socket
# The standard library's functions, before the functions below may replace them.
_getaddrinfo = _stdlib.getaddrinfo
_getdefaulttimeout = _stdlib.getdefaulttimeout
_gethostbyaddr = _stdlib.gethostbyaddr
_gethostbyname = _stdlib.gethostbyname
_gethostbyname_ex = _stdlib.gethostbyname_ex
_getnameinfo = _stdlib.getnameinfo


class socket(_stdlib.socket):  # type: ignore[no-redef]
    """A socket whose calls let other fibers run while they wait."""

    __slots__ = ()

    def accept(self) -> tuple[socket, Any]:
        """Wait for a connection; return its socket and the address of the peer."""
        fd, address = self._accept()  # type: ignore[attr-defined]
        try:
            accepted = socket(self.family, self.type, self.proto, fileno=fd)
        except BaseException:
            _fiberrt.close(fd)
            raise
        if _getdefaulttimeout() is None and self.gettimeout():
            accepted.setblocking(True)
        return accepted, address

    def connect(self, address: Any, /) -> None:
        """Connect to an address, and wait for the connection. A host's name is looked up on another thread."""
        error = self._connect(_numeric(self, address))  # type: ignore[attr-defined]
        if error:
            raise OSError(error, os.strerror(error))

    def connect_ex(self, address: Any, /) -> int:
        """Like connect(), but return the errno, or 0. A wrong address still raises an exception."""
        try:
            error: int = self._connect(_numeric(self, address))  # type: ignore[attr-defined]
            return error
        except TimeoutError:
            return errno.EAGAIN

    def bind(self, address: Any, /) -> None:
        """Bind the socket to an address. A host's name is looked up on another thread."""
        super().bind(_numeric(self, address))

    def recvfrom(self, bufsize: int, flags: int = 0, /) -> tuple[bytes, Any]:
        """Wait for data; return up to bufsize bytes and the sender's address."""
        return self._wait_in(flags, _method.recvfrom, bufsize, flags | _DONTWAIT)  # type: ignore[no-any-return]

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        """Wait for data and put it into the buffer; return the number of bytes and the sender's address."""
        return self._wait_in(  # type: ignore[no-any-return]
            flags, _method.recvfrom_into, buffer, nbytes, flags | _DONTWAIT
        )

    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0, /) -> tuple[bytes, list[Any], int, Any]:
        """Wait for a message; return (data, ancillary data, flags, address)."""
        return self._wait_in(  # type: ignore[no-any-return]
            flags, _method.recvmsg, bufsize, ancbufsize, flags | _DONTWAIT
        )

    def recvmsg_into(
        self, buffers: Iterable[Any], ancbufsize: int = 0, flags: int = 0, /
    ) -> tuple[int, list[Any], int, Any]:
        """Like recvmsg(), but receive into buffers; return (number of bytes, ancillary data, flags, address)."""
        buffers = tuple(buffers)
        return self._wait_in(  # type: ignore[no-any-return]
            flags, _method.recvmsg_into, buffers, ancbufsize, flags | _DONTWAIT
        )

    def sendto(self, data: Any, *flags_and_address: Any) -> int:
        """sendto(data, [flags,] address): send data to an address; wait until there is room for it."""
        if len(flags_and_address) == 1:
            flags, address = 0, flags_and_address[0]
        elif len(flags_and_address) == 2:
            flags, address = flags_and_address
        else:
            raise TypeError(f"sendto() takes 2 or 3 arguments ({1 + len(flags_and_address)} given)")
        address = _numeric(self, address)
        return self._wait_out(flags, _method.sendto, data, flags | _DONTWAIT, address)

    def sendmsg(
        self, buffers: Iterable[Any], ancdata: Iterable[Any] = (), flags: int = 0, address: Any = None, /
    ) -> int:
        """Send buffers and ancillary data; wait until some data has been sent, and return the number of bytes."""
        buffers, ancdata = tuple(buffers), tuple(ancdata)
        if address is not None:
            address = _numeric(self, address)
        return self._wait_out(flags, _method.sendmsg, buffers, ancdata, flags | _DONTWAIT, address)

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send a file from an offset up to its end, or count bytes of it; return the number of bytes sent. The file's
        position is then after these bytes. The timeout applies to each part that is sent."""
        self._check_sendfile_params(file, offset, count)  # type: ignore[attr-defined]
        if self.gettimeout() == 0:
            raise ValueError("non-blocking sockets are not supported")
        try:
            source = file.fileno()
            if not stat.S_ISREG(os.fstat(source).st_mode):
                raise OSError
        except (AttributeError, OSError):  # also io.UnsupportedOperation
            return self._sendfile_use_send(file, offset, count)  # type: ignore[attr-defined, no-any-return]
        sent = 0
        try:
            while count is None or sent < count:
                most = 1 << 20 if count is None else min(count - sent, 1 << 20)
                try:
                    some = self._attempt(_OUT, _sendfile, source, offset + sent, most)  # type: ignore[attr-defined]
                except OSError as error:
                    if sent or error.errno not in (errno.EINVAL, errno.ENOSYS):
                        raise
                    return self._sendfile_use_send(file, offset, count)  # type: ignore[attr-defined, no-any-return]
                if not some:
                    break
                sent += some
            return sent
        finally:
            if sent and hasattr(file, "seek"):
                file.seek(offset + sent)

    def _wait_in(self, flags: int, method: Callable[..., Any], *args: Any) -> Any:
        events = 0 if flags & _DONTWAIT and self.gettimeout() is None else _IN
        return self._attempt(events, method, *args)  # type: ignore[attr-defined]

    def _wait_out(self, flags: int, method: Callable[..., Any], *args: Any) -> int:
        events = 0 if flags & _DONTWAIT and self.gettimeout() is None else _OUT
        sent: int = self._attempt(events, method, *args)  # type: ignore[attr-defined]
        return sent


_fiberrt.socket_methods(socket, _socket.socket)
SocketType: Any = _socket.SocketType  # type: ignore[no-redef]


def _sendfile(to: Any, source: int, offset: int, count: int) -> int:
    """os.sendfile() that does not wait."""
    fd = to.fileno()
    blocking = os.get_blocking(fd)
    if blocking:
        os.set_blocking(fd, False)
    try:
        return posix.sendfile(fd, source, offset, count)  # never switches, as other fibers may use the socket
    finally:
        if blocking:
            os.set_blocking(fd, True)


def _numeric(of: _stdlib.socket, address: Any) -> Any:
    """Return the address with the host's name replaced by its number. An invalid address stays as it is: a later call
    refuses it."""
    if of.family not in _INTERNET or not isinstance(address, tuple) or len(address) < 2:
        return address
    host = address[0]
    if not isinstance(host, (str, bytes, bytearray)) or not host or host in ("<broadcast>", b"<broadcast>"):
        return address
    if isinstance(host, str):
        try:
            _stdlib.inet_pton(of.family, host)
            return address
        except (OSError, ValueError):
            pass
    elif isinstance(host, bytearray):
        host = bytes(host)
    return (getaddrinfo(host, None, of.family)[0][4][0], *address[1:])


def getaddrinfo(  # type: ignore[no-redef]
    host: bytes | str | None,
    port: bytes | str | int | None,
    family: int = 0,
    type: int = 0,
    proto: int = 0,
    flags: int = 0,
) -> list[Any]:
    """socket.getaddrinfo() on another thread, unless the host and the port are numeric."""
    if port is None or isinstance(port, int):
        try:
            return _getaddrinfo(host, port, family, type, proto, flags | _stdlib.AI_NUMERICHOST)
        except _stdlib.gaierror as error:
            if error.errno != _stdlib.EAI_NONAME or flags & _stdlib.AI_NUMERICHOST:
                raise
    return to_thread(_getaddrinfo, host, port, family, type, proto, flags)


def getnameinfo(sockaddr: Any, flags: int, /) -> tuple[str, str]:  # type: ignore[no-redef]
    """socket.getnameinfo() on another thread, unless the flags ask for numbers only."""
    numeric = _stdlib.NI_NUMERICHOST | _stdlib.NI_NUMERICSERV
    if isinstance(flags, int) and flags & numeric == numeric:
        return _getnameinfo(sockaddr, flags)
    return to_thread(_getnameinfo, sockaddr, flags)


def gethostbyname(hostname: str, /) -> str:  # type: ignore[no-redef]
    """socket.gethostbyname() on another thread."""
    return to_thread(_gethostbyname, hostname)


def gethostbyname_ex(hostname: str, /) -> tuple[str, list[str], list[str]]:  # type: ignore[no-redef]
    """socket.gethostbyname_ex() on another thread."""
    return to_thread(_gethostbyname_ex, hostname)


def gethostbyaddr(ip_address: str, /) -> tuple[str, list[str], list[str]]:  # type: ignore[no-redef]
    """socket.gethostbyaddr() on another thread."""
    return to_thread(_gethostbyaddr, ip_address)


def create_connection(  # type: ignore[no-redef]
    address: tuple[str | None, int],
    timeout: float | None = _default,
    source_address: tuple[bytearray | bytes | str, int] | None = None,
    *,
    all_errors: bool = False,
) -> socket:
    """Make a TCP connection to (host, port), to the first of the host's addresses that accepts it.

    The timeout applies to each address, and then to the socket. OSError: the error of the last address; with
    all_errors, an ExceptionGroup of all errors.
    """
    host, port = address
    errors: list[OSError] = []
    for family, kind, protocol, _, numeric in getaddrinfo(host, port, 0, _stdlib.SOCK_STREAM):
        connection = None
        try:
            connection = socket(family, kind, protocol)
            if timeout is not _default:
                connection.settimeout(timeout)
            if source_address:
                connection.bind(source_address)
            connection.connect(numeric)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if not isinstance(error, OSError):
                raise
            errors.append(error)
        else:
            errors.clear()
            return connection
    if not errors:
        raise OSError("getaddrinfo returns an empty list")
    try:
        if all_errors:
            raise ExceptionGroup("create_connection failed", errors)
        raise errors[-1]
    finally:
        errors.clear()  # the errors refer to this frame


class _Io:
    BufferedReader = _files.BufferedReader
    BufferedRWPair = _files.BufferedRWPair
    BufferedWriter = _files.BufferedWriter
    DEFAULT_BUFFER_SIZE = io.DEFAULT_BUFFER_SIZE
    TextIOWrapper = _files.TextIOWrapper
    text_encoding = staticmethod(io.text_encoding)


def close(fd: Any, /) -> None:  # type: ignore[no-redef]
    """Close a socket's descriptor. Operations of other fibers on it first end with EBADF."""
    number = index(fd)
    if -(1 << 31) <= number < 0:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    _fiberrt.close(number)


complete(globals(), _stdlib)
# Its buffered files are those of _files, which several fibers may use.
socket.makefile = rebind(_stdlib.socket.makefile, {**globals(), "io": _Io})  # type: ignore[method-assign]
create_server = rebind(_stdlib.create_server, globals())
fromfd = rebind(_stdlib.fromfd, globals())
getfqdn = rebind(_stdlib.getfqdn, globals())
socketpair = rebind(_stdlib.socketpair, globals())
