# SPDX-License-Identifier: MIT OR Apache-2.0
"""For tests of fiberrt.aio: runs a coroutine on asyncio's own loop or ours, and a protocol that records its calls."""

import asyncio

import pytest

from fiberrt import aio

LOOPS = [asyncio.SelectorEventLoop, aio.EventLoop]
both = pytest.mark.parametrize("factory", LOOPS)


def run(coroutine, factory=aio.EventLoop):
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(coroutine)


class Recorder(asyncio.Protocol, asyncio.DatagramProtocol):
    """Records the calls of a protocol of streams, pipes or datagrams."""

    def __init__(self):
        self.events = []
        self.more = asyncio.Event()
        self.over = asyncio.get_running_loop().create_future()

    def note(self, *event):
        self.events.append(event if len(event) > 1 else event[0])
        self.more.set()

    async def until(self, count):
        while len(self.events) < count:
            self.more.clear()
            await self.more.wait()
        return self.events

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.note(data)

    def datagram_received(self, data, address):
        self.note(data, address)

    def error_received(self, error):
        self.note(type(error))

    def eof_received(self):
        self.note("eof")

    def pause_writing(self):
        self.note("pause")

    def resume_writing(self):
        self.note("resume")

    def connection_lost(self, error):
        self.note("lost", error if error is None else type(error))
        self.over.set_result(None)
