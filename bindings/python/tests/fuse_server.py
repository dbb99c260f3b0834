# SPDX-License-Identifier: MIT OR Apache-2.0
"""A file system in user space whose answers wait until a test allows them: the FUSE protocol of the kernel, without a
library, because a test must hold back each single answer.

Usage: python fuse_server.py FOLDER: mounts it there, and writes "mounted" or "no: REASON" to standard output. The root
has one file, `file`, with CONTENT. The server writes the name of each request that it holds back, a line each, and
answers it when it has read a line from standard input. It holds back those of HELD; the file cannot be changed.
"""

import ctypes
import errno
import os
import struct
import sys

CONTENT = b"slowly\n"
HELD = {3: "GETATTR", 14: "OPEN", 15: "READ", 25: "FLUSH", 28: "READDIR"}
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, FORGETS = (
    1, 2, 3, 14, 15, 17, 18, 20, 25, 26, 27, 28, 29, 42,
)  # fmt: skip
ROOT, FILE = 1, 2


def attributes(node: int) -> bytes:
    mode, size = (0o40755, 0) if node == ROOT else (0o100644, len(CONTENT))
    return struct.pack("<QQQQQQ10I", node, size, 1, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)


def entry(node: int, at: int, name: bytes, kind: int) -> bytes:
    padded = name + bytes(-len(name) % 8)
    return struct.pack("<QQII", node, at, len(name), kind) + padded


def answer(code: int, node: int, body: bytes) -> "bytes | int":
    """Returns the body of an answer, or an errno."""
    if code == INIT:
        major, minor = struct.unpack_from("<II", body)
        return struct.pack("<IIIIHHIIHHII", 7, min(minor, 31), 65536, 0, 8, 6, 4096, 1, 0, 0, 0, 0) + bytes(24)
    if code == LOOKUP:
        if body.rstrip(b"\0") != b"file":
            return errno.ENOENT
        return struct.pack("<QQQQII", FILE, 0, 3600, 0, 0, 0) + attributes(FILE)
    if code == GETATTR:
        return struct.pack("<QII", 0, 0, 0) + attributes(node)
    if code in (OPEN, OPENDIR):
        return struct.pack("<QII", 1, int(code == OPEN), 0)  # 1: each read asks the server
    if code == READ:
        _, offset, size = struct.unpack_from("<QQI", body)
        return CONTENT[offset : offset + size]
    if code == READDIR:
        return entry(FILE, 1, b"file", 8) if struct.unpack_from("<QQ", body)[1] == 0 else b""
    if code == STATFS:
        return struct.pack("<QQQQQIIII", 1, 0, 0, 1, 0, 4096, 255, 4096, 0) + bytes(24)
    return b"" if code in (RELEASE, RELEASEDIR, FLUSH, FSYNC) else errno.ENOSYS


def main() -> None:
    folder = sys.argv[1]
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        print(f"no: /dev/fuse: {error.strerror}", flush=True)
        return
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"test", folder.encode(), b"fuse.fiberrt_test", 0, options.encode()) != 0:
        print(f"no: mount: {os.strerror(ctypes.get_errno())}", flush=True)
        return
    print("mounted", flush=True)
    holds = True
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError:  # it is unmounted
            return
        length, code, unique, node = struct.unpack_from("<IIQQ", request)
        if code in (FORGET, FORGETS):
            continue
        if holds and code in HELD:
            print(HELD[code], flush=True)
            holds = bool(sys.stdin.readline())  # at the end of the test, answer all
        made = answer(code, node, request[40:length])
        error, data = (made, b"") if isinstance(made, int) else (0, made)
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)
        except OSError:  # the request was interrupted
            pass


if __name__ == "__main__":
    main()
