# SPDX-License-Identifier: MIT OR Apache-2.0
"""Packages written for asyncio, unchanged, on fiberrt.aio's event loop, while another fiber of the thread runs."""

import asyncio
import contextlib
import importlib
import os
import subprocess
import sys

import servers

import fiberrt
from fiberrt import aio


def needs(*names):
    """Imports packages. Skips the test if one is missing."""
    servers.needs(f"the test of {names[0]} on our event loop", *names)
    return [importlib.import_module(name) for name in names]


def run(main, *args):
    """Runs a coroutine on our loop. Another fiber must have had turns meanwhile."""
    turns = []

    def other():
        while True:
            fiberrt.sleep(0.001)
            turns.append(None)

    fiber = fiberrt.spawn(other)
    try:
        with asyncio.Runner(loop_factory=aio.EventLoop) as runner:
            result = runner.run(main(*args))
    finally:
        fiber.cancel()
        fiber.join()
    assert turns
    return result


def test_aiohttp_serves_aiohttp_and_httpx():
    aiohttp, httpx = needs("aiohttp", "httpx")
    from aiohttp import web

    async def echo(request):
        return web.Response(body=await request.read())

    async def from_a_fiber(request):
        return web.Response(text=await aio.run(lambda: aio.await_(asyncio.sleep(0, "from a fiber"))))

    async def sockets(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data + "!")
        return socket

    async def main():
        application = web.Application(client_max_size=1 << 24)
        application.add_routes([web.post("/", echo), web.get("/fiber", from_a_fiber), web.get("/socket", sockets)])
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = "http://127.0.0.1:%d" % runner.addresses[0][1]
        body = os.urandom(3_000_000)
        async with aiohttp.ClientSession() as session:

            async def post(size):
                async with session.post(url, data=body[:size]) as response:
                    return await response.read() == body[:size]

            assert all(await asyncio.gather(*(post(size) for size in [0, 1, 3_000_000, *range(100)])))
            async with session.get(url + "/fiber") as response:
                assert await response.text() == "from a fiber"
            async with session.ws_connect(url + "/socket") as socket:
                await socket.send_str("hello")
                assert (await socket.receive()).data == "hello!"
        async with httpx.AsyncClient(trust_env=False) as client:
            answers = await asyncio.gather(*(client.post(url, content=body[:size]) for size in range(50)))
            assert [answer.content for answer in answers] == [body[:size] for size in range(50)]
        await runner.cleanup()

    run(main)


def test_websockets():
    (websockets,) = needs("websockets")
    importlib.import_module("websockets.asyncio.server")

    async def echo(socket):
        async for message in socket:
            await socket.send(message)

    async def main():
        async with websockets.asyncio.server.serve(echo, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with websockets.connect(f"ws://127.0.0.1:{port}", proxy=None) as socket:
                for message in "text", b"bytes", "x" * 500_000:
                    await socket.send(message)
                    assert await socket.recv() == message

    run(main)


def test_uvicorn_serves_an_application_that_streams(tmp_path):
    needs("uvicorn", "httpx")
    (tmp_path / "application.py").write_text("""
import asyncio
import fiberrt

async def app(scope, receive, send):
    assert scope["type"] == "http"
    assert type(asyncio.get_running_loop()).__module__ == "fiberrt.aio"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for i in range(10):
        await fiberrt.spawn(fiberrt.sleep, 0)
        await send({"type": "http.response.body", "body": b"%d\\n" % i, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
""")
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "--loop", "fiberrt.aio:new_event_loop", "--port", "0", "--lifespan", "off",
         "application:app"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        url = ""
        for line in server.stderr:
            if "running on" in line:
                url = line.split("running on ")[1].split()[0]
                break
        assert url

        async def main():
            import httpx

            async with httpx.AsyncClient(trust_env=False) as client:
                answers = await asyncio.gather(*(client.get(url) for _ in range(20)))
            return {answer.text for answer in answers}

        assert run(main) == {"".join(f"{i}\n" for i in range(10))}
    finally:
        server.terminate()
        server.communicate()
    assert server.returncode in (0, -15)


def test_asyncpg():
    (asyncpg,) = needs("asyncpg")

    async def main(port):
        pool = await asyncpg.create_pool(
            host="127.0.0.1", port=port, user="postgres", database="postgres", min_size=2, max_size=5
        )

        async def query(number):
            async with pool.acquire() as connection:
                return await connection.fetchval("SELECT pg_sleep(0.01) IS NULL OR true, $1::int", number, column=1)

        assert await asyncio.gather(*map(query, range(20))) == list(range(20))
        async with pool.acquire() as connection:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await connection.fetchval("SELECT pg_sleep(60)")
            assert await connection.fetchval("SELECT 1") == 1  # the connection is still in step
        await pool.close()

    with servers.postgres(20) as port:
        run(main, port)


def test_redis():
    (redis,) = needs("redis.asyncio")

    async def main(port):
        async with redis.Redis(port=port) as client:

            async def use(number):
                await client.set(f"aio-{number}", number)
                return int(await client.get(f"aio-{number}"))

            assert await asyncio.gather(*map(use, range(50))) == list(range(50))
            assert await client.blpop(["aio-nothing"], timeout=0.05) is None

    with servers.redis() as port:
        run(main, port)
