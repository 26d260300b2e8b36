"""A client that stops reading is left in time."""

from __future__ import annotations

import asyncio

from aiohttp import web

from gateway.byte_stream import ByteStream, write_in_time
from tests.client import until


async def test_a_client_that_takes_nothing_is_left():
    failures = []

    async def speak(request):
        stream = ByteStream(request, {"Content-Type": "audio/pcm"})
        try:
            while True:
                await write_in_time(request, stream.send(bytes(1 << 20)), 0.2)
        except ConnectionResetError as failure:
            failures.append(failure)
            raise

    app = web.Application()
    app.router.add_get("/", speak)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    _, writer = await asyncio.open_connection(*runner.addresses[0])
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await until(lambda: bool(failures))
    writer.close()
    await runner.cleanup()
