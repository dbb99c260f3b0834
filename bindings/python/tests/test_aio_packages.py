# SPDX-License-Identifier: MIT OR Apache-2.0
"""Packages written for asyncio, unchanged, on fiberrt.aio's event loop, while another fiber of the thread runs."""

import asyncio
import contextlib
import importlib
import os
import socket
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


@contextlib.contextmanager
def uvicorn(folder, **environment):
    """Serves application:app in a folder with uvicorn on our loop. Yields the URL."""
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "--loop", "fiberrt.aio:new_event_loop", "--port", "0", "--lifespan", "off",
         "application:app"],
        cwd=folder, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    try:
        url = ""
        for line in server.stderr:
            if "running on" in line:
                url = line.split("running on ")[1].split()[0]
                break
        assert url
        yield url
    finally:
        server.terminate()
        server.communicate()
    assert server.returncode in (0, -15)


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
    with uvicorn(tmp_path) as url:

        async def main():
            import httpx

            async with httpx.AsyncClient(trust_env=False) as client:
                answers = await asyncio.gather(*(client.get(url) for _ in range(20)))
            return {answer.text for answer in answers}

        assert run(main) == {"".join(f"{i}\n" for i in range(10))}


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


def test_trio_as_a_guest_of_the_loop():
    (trio,) = needs("trio")

    async def of_trio():
        with trio.move_on_after(0.001) as scope:
            await trio.sleep_forever()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0.001)
        return scope.cancelled_caught

    async def main():
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        trio.lowlevel.start_guest_run(
            of_trio, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=over.set_result
        )
        return (await over).unwrap()

    assert run(main) is True


def test_anyio():
    (anyio,) = needs("anyio")

    async def main():
        async with anyio.create_task_group() as group:
            port = await group.start(serve)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(b"hello")
                answer = await stream.receive()
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(lambda: 5) == 5
        return answer, type(asyncio.get_running_loop())

    async def serve(*, task_status):
        async def echo(stream):
            async with stream:
                await stream.send(await stream.receive())

        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        task_status.started(listener.extra(anyio.abc.SocketAttribute.local_port))
        await listener.serve(echo)

    options = {"loop_factory": aio.EventLoop}
    assert anyio.run(main, backend="asyncio", backend_options=options) == (b"hello", aio.EventLoop)


def test_hypercorn():
    hypercorn, httpx, websockets, *_ = needs("hypercorn", "httpx", "websockets", "h2", "hypercorn.asyncio")

    async def echo(scope, receive, send):
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (event := await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": event["text"] + "!"})
            return
        assert scope["type"] == "http"  # it has no lifespan
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event["body"], event["more_body"]
        await fiberrt.spawn(fiberrt.sleep, 0.001)
        version = scope["http_version"].encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"version", version)]})
        await send({"type": "http.response.body", "body": body})

    async def main():
        listener = socket.create_server(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % listener.getsockname()[1]
        config = hypercorn.Config()
        config.bind = [f"fd://{listener.detach()}"]
        stop = asyncio.Event()
        serving = asyncio.create_task(hypercorn.asyncio.serve(echo, config, shutdown_trigger=stop.wait))
        contents = [os.urandom(size) for size in range(0, 300_000, 15_000)]
        for version in "1.1", "2":
            kind = {"http1": version == "1.1", "http2": version == "2"}
            async with httpx.AsyncClient(trust_env=False, timeout=60, base_url=f"http://{address}", **kind) as client:
                answers = await asyncio.gather(*(client.post("/", content=content) for content in contents))
            assert [answer.content for answer in answers] == contents
            assert {answer.headers["version"] for answer in answers} == {version}
        async with websockets.connect(f"ws://{address}", proxy=None) as client:
            await client.send("hello")
            assert await client.recv() == "hello!"
        stop.set()
        await serving

    run(main)


def test_fastapi_on_uvicorn(tmp_path):
    needs("fastapi", "uvicorn", "httpx", "asyncpg")
    (tmp_path / "application.py").write_text("""
import asyncio, os
import asyncpg
import fastapi
from fastapi.responses import StreamingResponse
import fiberrt.aio

app = fastapi.FastAPI()

@app.get("/hello/{name}")
async def hello(name: str):
    return {"hello": await fiberrt.aio.run(lambda: name)}

@app.get("/plain")
def plain():
    return "from a thread"

@app.get("/database/{number}")
async def database(number: int):
    connection = await asyncpg.connect(
        host="127.0.0.1", port=os.environ["DATABASE_PORT"], user="postgres", database="postgres"
    )
    try:
        return await connection.fetchval("SELECT $1::int + count(*) FROM pg_sleep(0.01)", number)
    finally:
        await connection.close()

@app.post("/upload")
async def upload(file: fastapi.UploadFile):
    return len(await file.read())

@app.get("/stream")
async def stream():
    async def parts():
        for i in range(5):
            await asyncio.sleep(0)
            yield f"{i}\\n"
    return StreamingResponse(parts())
""")
    with servers.postgres(20) as port, uvicorn(tmp_path, DATABASE_PORT=str(port)) as url:

        async def main():
            import httpx

            async with httpx.AsyncClient(trust_env=False, base_url=url, timeout=60) as client:
                rows = await asyncio.gather(*(client.get(f"/database/{number}") for number in range(10)))
                assert [row.json() for row in rows] == list(range(1, 11))
                answers = [
                    (await client.get("/hello/x")).json(), (await client.get("/plain")).json(),
                    (await client.post("/upload", files={"file": b"x" * 2_000_000})).json(), (await client.get("/stream")).text,
                ]  # fmt: skip
            return answers

        assert run(main) == [{"hello": "x"}, "from a thread", 2_000_000, "0\n1\n2\n3\n4\n"]
