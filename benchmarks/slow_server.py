"""A proxy before a server on this machine, which sends every request later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK = 1 << 16


@contextmanager
def slow_server(port: int, delay: float) -> Iterator[int]:
    """Yield the port of a proxy; what a client sends at once arrives ``delay`` seconds later.

    Args:
        port: Port of the server on 127.0.0.1.
        delay: Seconds. Small requests without a body are sent at once.
    """
    loop = asyncio.new_event_loop()

    async def forward(source: asyncio.StreamReader, to: asyncio.StreamWriter, wait: float) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                await asyncio.sleep(wait)
                to.write(data)
                await to.drain()
        to.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(forward(reader, requests, delay), forward(answers, writer, 0))

    server = loop.run_until_complete(asyncio.start_server(connected, "127.0.0.1", 0, backlog=256))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
