# SPDX-License-Identifier: MIT OR Apache-2.0
"""The transport of fiberrt.aio for datagrams. Most tests run on asyncio's own loop, too, with the same results."""

import asyncio
import gc
import os
import socket
import sys
import weakref

import pytest
from recording import LOOPS, Recorder, both, run

from fiberrt import aio


async def endpoint(**where):
    return await asyncio.get_running_loop().create_datagram_endpoint(Recorder, **where)


@both
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_datagrams(factory, family, host):
    async def main():
        server, received = await endpoint(local_addr=(host, 0), family=family)
        here = server.get_extra_info("sockname")
        client, answers = await endpoint(remote_addr=here[:2], family=family)
        assert client.get_extra_info("peername") == here and isinstance(server.get_extra_info("socket").fileno(), int)
        for data in b"bytes", bytearray(b"an array"), memoryview(b"a view"):
            client.sendto(data)
        (_, there), *_ = await received.until(3)
        assert received.events == [(data, there) for data in (b"bytes", b"an array", b"a view")]
        client.sendto(b"with the address", here if len(here) == 2 else None)
        await received.until(4)
        server.sendto(b"answer", there)
        server.sendto(b"by name", ("localhost" if family == socket.AF_INET else "ip6-localhost", there[1]))
        assert (await answers.until(1))[0] == (b"answer", here)
        for wrong in "text", None, 5:
            with pytest.raises(TypeError):
                client.sendto(wrong)
        with pytest.raises(ValueError, match="Invalid address"):
            client.sendto(b"x", ("127.0.0.2", 1))
        assert not client.is_closing() and client.get_write_buffer_size() == 0
        for transport, protocol in (client, answers), (server, received):
            transport.close()
            transport.close()
            assert transport.is_closing()
            if transport is client:
                transport.sendto(b"lost")
            await protocol.over
            assert protocol.events[-1] == ("lost", None)
        assert "closed" in repr(client) or factory is not aio.EventLoop

    run(main(), factory)


@both
def test_many_datagrams_in_one_turn(factory):
    async def main():
        server, received = await endpoint(local_addr=("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for i in range(100):
                sender.sendto(b"%d" % i, server.get_extra_info("sockname"))
        assert [data for data, _ in await received.until(100)] == [b"%d" % i for i in range(100)]
        server.abort()
        await received.over

    run(main(), factory)


@both
def test_a_protocol_may_close_the_transport_at_a_datagram(factory):
    async def main():
        class Closing(Recorder):
            def datagram_received(self, data, address):
                self.note(data)
                getattr(self.transport, end)()

        for end in "close", "abort":
            transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(
                Closing, local_addr=("127.0.0.1", 0)
            )
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for _ in range(5):
                    sender.sendto(b"x", transport.get_extra_info("sockname"))
            await protocol.over
            assert protocol.events == [b"x", ("lost", None)]

    run(main(), factory)


@both
def test_a_refused_datagram_is_an_error_of_the_protocol(factory):
    async def main():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
            gone.bind(("127.0.0.1", 0))
            address = gone.getsockname()
        transport, protocol = await endpoint(remote_addr=address)
        transport.sendto(b"x")
        assert await protocol.until(1) == [ConnectionRefusedError]
        transport.sendto(b"y" * 70_000)  # larger than a datagram may be
        assert (await protocol.until(2))[1] is OSError
        transport.abort()
        await protocol.over

    run(main(), factory)


@both
def test_datagrams_wait_for_room(factory, tmp_path):
    async def main():
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            server.bind(str(tmp_path / "socket"))
            server.setblocking(False)
            transport, protocol = await endpoint(remote_addr=str(tmp_path / "socket"), family=socket.AF_UNIX)
            transport.set_write_buffer_limits(high=10_000, low=100)
            sent = 0
            while "pause" not in protocol.events:
                transport.sendto(b"%d" % sent + b"." * 1000)
                sent += 1
            assert transport.get_write_buffer_size() > 10_000
            transport.close()
            received = [await loop.sock_recv(server, 2000) for _ in range(sent)]
            assert [int(data.strip(b".")) for data in received] == list(range(sent))
            await protocol.over
            assert protocol.events == ["pause", "resume", ("lost", None)]

            transport, protocol = await endpoint(remote_addr=str(tmp_path / "socket"), family=socket.AF_UNIX)
            while not transport.get_write_buffer_size():
                transport.sendto(b"x" * 1000)
            transport.abort()
            await protocol.over
            assert transport.get_write_buffer_size() == 0 or factory is not aio.EventLoop

    run(main(), factory)


@both
def test_unix_datagrams_have_the_names_of_their_sockets(factory, tmp_path):
    async def main():
        server, received = await endpoint(local_addr=str(tmp_path / "server"), family=socket.AF_UNIX)
        named, answers = await endpoint(local_addr=str(tmp_path / "named"), family=socket.AF_UNIX)
        named.sendto(b"named", str(tmp_path / "server"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unnamed:
            unnamed.sendto(b"unnamed", str(tmp_path / "server"))
        assert await received.until(2) == [(b"named", str(tmp_path / "named")), (b"unnamed", None)]
        server.sendto(b"answer", str(tmp_path / "named"))
        assert await answers.until(1) == [(b"answer", str(tmp_path / "server"))]
        server.sendto(b"x", str(tmp_path / "missing"))
        assert (await received.until(3))[2] is FileNotFoundError
        server.abort()
        named.abort()
        await received.over
        await answers.over

    run(main(), factory)


def test_a_pair_of_datagram_sockets_needs_no_address():
    async def main():
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        (one, _), (other, received) = [await endpoint(sock=end) for end in ends]
        one.sendto(b"to the peer")
        assert (await received.until(1))[0][0] == b"to the peer"
        one.abort()
        other.abort()

    run(main())


@both
def test_a_socket_of_a_rare_family(factory):
    async def main():
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM)
        sock.bind((0, 0))
        sock.setblocking(False)
        transport, protocol = await endpoint(sock=sock)
        transport.sendto(b"\x20\0\0\0\x12\0\1\3\1\0\0\0\0\0\0\0" + bytes(16), (0, 0))  # list the interfaces
        (data, address), *_ = await protocol.until(1)
        assert len(data) > 100 and address == (0, 0)
        transport.abort()
        await protocol.over

    run(main(), factory)


@both
def test_abstract_unix_names(factory):
    async def main():
        loop = asyncio.get_running_loop()
        ends = []
        for _ in range(2):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sock.bind("")  # the kernel chooses a name
            ends.append(await loop.create_datagram_endpoint(Recorder, sock=sock))
        (one, _), (other, received) = ends
        names = [transport.get_extra_info("sockname") for transport, _ in ends]
        assert all(isinstance(name, bytes) and name[0] == 0 for name in names)
        one.sendto(b"data", names[1])
        assert await received.until(1) == [(b"data", names[0])]
        other.sendto(b"answer", received.events[0][1])
        assert await ends[0][1].until(1) == [(b"answer", names[1])]
        one.abort()
        other.abort()

    run(main(), factory)


@both
def test_empty_datagrams(factory):
    async def main():
        server, received = await endpoint(local_addr=("127.0.0.1", 0))
        client, _ = await endpoint(local_addr=("127.0.0.1", 0))
        here, there = server.get_extra_info("sockname"), client.get_extra_info("sockname")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("127.0.0.1", 0))
            sender.sendto(b"", here)
            assert await received.until(1) == [(b"", sender.getsockname())]
        client.sendto(b"", here)
        client.sendto(b"end", here)
        await received.until(2)
        while received.events[-1] != (b"end", there):
            await received.until(len(received.events) + 1)
        return len(received.events)

    assert run(main(), factory) == (3 if sys.version_info >= (3, 13) else 2)


def test_the_flow_and_scope_of_an_ipv6_address():
    class Errors(Recorder):
        def error_received(self, error):
            self.note(error.errno)

    async def main():
        loop = asyncio.get_running_loop()
        failures = []
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        server, received = await endpoint(local_addr=("::1", 0), family=socket.AF_INET6)
        client, errors = await loop.create_datagram_endpoint(Errors, local_addr=("::1", 0), family=socket.AF_INET6)
        host, port, *_ = server.get_extra_info("sockname")
        scope = socket.if_nametoindex("lo")
        right = [(host, port, 0), (host, port, 5), (host, port, 0, 0), (host, port, 0, scope), (host, port, 0, 1 << 40)]
        for number, address in enumerate(right, 1):
            client.sendto(b"%d" % number, address)
            assert (await received.until(number))[-1][0] == b"%d" % number
        for other_scope in 0, scope, 1 << 30:  # the result depends on the scope, and on the machine's interfaces
            client.sendto(b"x", ("fe80::1", port, 0, other_scope))
            errors.note("sent")
        for wrong in (host, port, 1 << 20), (host, port, -1, 0), (host, port, 0, 0, 0), (host,):
            transport, protocol = await endpoint(local_addr=("::1", 0), family=socket.AF_INET6)
            transport.sendto(b"x", wrong)
            await protocol.over
            assert len(failures) == 1
            errors.note(type(failures.pop()))
        client.abort()
        server.abort()
        return list(errors.events)

    plain, ours = [run(main(), factory) for factory in LOOPS]
    assert plain == ours and plain[-4:] == [OverflowError, OverflowError, TypeError, TypeError]


@both
@pytest.mark.parametrize("host", ["127.0.0.1\0", "\0", "127.0.0.1\0x"])
def test_a_host_with_a_nul_is_refused(factory, host):
    async def main():
        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
        transport, protocol = await endpoint(local_addr=("127.0.0.1", 0))
        transport.sendto(b"x", (host, transport.get_extra_info("sockname")[1]))
        await protocol.over
        assert [type(failure) for failure in failures] == [TypeError]

    run(main(), factory)


@both
def test_an_address_that_is_none_closes_the_transport(factory):
    async def main():
        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        transport, protocol = await endpoint(local_addr=("127.0.0.1", 0))
        transport.sendto(b"x", ("127.0.0.1", "no port"))
        await protocol.over
        assert isinstance(failures[0]["exception"], TypeError) and failures[0]["transport"] is transport
        assert protocol.events == [("lost", TypeError)]

    run(main(), factory)


@both
def test_an_exception_at_a_datagram_is_reported_and_the_transport_lives(factory):
    async def main():
        class Failing(Recorder):
            def datagram_received(self, data, address):
                self.note(data)
                raise ValueError(data)

        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
        transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(
            Failing, local_addr=("127.0.0.1", 0)
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for data in b"1", b"2":
                sender.sendto(data, transport.get_extra_info("sockname"))
        assert await protocol.until(2) == [b"1", b"2"]
        await asyncio.sleep(0)
        assert [error.args for error in failures] == [(b"1",), (b"2",)]
        transport.abort()
        await protocol.over

    run(main(), factory)


def test_a_descriptor_that_the_program_closes_reports_nothing_more():
    async def main():
        other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        clock, ticks = await endpoint(local_addr=("127.0.0.1", 0))
        transport, protocol = await endpoint(local_addr=("127.0.0.1", 0))
        other.sendto(b"x", transport.get_extra_info("sockname"))
        await protocol.until(1)
        descriptor = transport.get_extra_info("socket").fileno()
        other.sendto(b"y", transport.get_extra_info("sockname"))
        os.close(descriptor)
        for count in range(1, 11):  # in which the loop looks for events
            other.sendto(b"tick", clock.get_extra_info("sockname"))
            await ticks.until(count)
        os.dup2(other.fileno(), descriptor)
        other.close()
        assert len(protocol.events) <= 3
        clock.abort()
        transport.abort()
        await protocol.over

    run(main())


def test_an_unclosed_datagram_transport_is_reported():
    async def main():
        transport, _ = await endpoint(local_addr=("127.0.0.1", 0))
        return weakref.ref(transport)

    loop = aio.EventLoop()
    with pytest.warns(ResourceWarning, match="unclosed transport"):
        ref = loop.run_until_complete(main())
        loop.close()
        gc.collect()
    assert ref() is None
