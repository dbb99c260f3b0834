# SPDX-License-Identifier: MIT OR Apache-2.0
"""An echo server as each runtime's users write one; run.py puts the load on it.

Usage: python echo.py RUNTIME; fiberrt, gevent, asyncio, uvloop, fiberrt_asyncio, or one of the last three followed by
_protocol. Prints the port.
"""

import os
import socket
import sys
from contextlib import suppress  # ignore the end of the load: a traceback would count as the server's time


def listener(module=socket):
    server = module.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(128)
    print("port", server.getsockname()[1], flush=True)
    return server


def serve_blocking(module, spawn):
    def echo(connection):
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(ConnectionResetError):
                while data := connection.recv(4096):
                    connection.sendall(data)

    server = listener(module)
    while True:
        spawn(echo, server.accept()[0])


def serve_streams(asyncio):
    async def echo(reader, writer):
        with suppress(ConnectionResetError):
            while data := await reader.read(4096):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def main():
        await (await asyncio.start_server(echo, sock=listener())).serve_forever()

    return main()


def serve_protocol(asyncio):
    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.write = transport.write

        def data_received(self, data):
            self.write(data)

    async def main():
        loop = asyncio.get_running_loop()
        await (await loop.create_server(Echo, sock=listener())).serve_forever()

    return main()


def main(name):
    if name == "fiberrt":
        import fiberrt
        import fiberrt.socket

        serve_blocking(fiberrt.socket, fiberrt.spawn)
    elif name == "gevent":
        import gevent
        import gevent.socket

        serve_blocking(gevent.socket, gevent.spawn)
    else:
        import asyncio

        run = asyncio.run
        if name.startswith("uvloop"):
            import uvloop

            run = uvloop.run
        elif name.startswith("fiberrt"):
            import fiberrt.aio

            run = asyncio.Runner(loop_factory=fiberrt.aio.EventLoop).run
        run((serve_protocol if name.endswith("_protocol") else serve_streams)(asyncio))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except ImportError as error:
        print(error, file=sys.stderr)
        os._exit(3)
