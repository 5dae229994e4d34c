"""A TCP connection that can be cut without anybody being told, as when a cable is pulled, where no network namespace may be made.

    with CuttableProxy("127.0.0.1", 5432) as proxy:
        ...                         # connect to 127.0.0.1, proxy.port
        proxy.cut()                 # nothing passes; connections stay, and new ones are not answered
        proxy.cut(answers=True)     # what is sent does not arrive; what the server says does
        proxy.drop()                # connections end, as when a system gives up what nobody confirmed
        proxy.heal()                # everything passes again, and what was sent meanwhile on connections that are left

It works in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Self

READ_BYTES = 1 << 16


class CuttableProxy:
    """To `host`, `port`. It listens on a free port of this machine."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self._target = host, port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._passing = set[asyncio.Task[None]]()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self, *, requests: bool = False, answers: bool = False) -> None:
        """`requests`: what is sent to the server still arrives; `answers`: what it sends does."""
        for gate, passes in ((self._requests, requests), (self._answers, answers)):
            self._loop.call_soon_threadsafe(gate.set if passes else gate.clear)

    def heal(self) -> None:
        self.cut(requests=True, answers=True)

    def drop(self) -> None:
        self._loop.call_soon_threadsafe(lambda: [passing.cancel() for passing in self._passing])

    async def _open(self) -> None:
        self._requests, self._answers = asyncio.Event(), asyncio.Event()
        for gate in (self._requests, self._answers):
            gate.set()
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        for passing in self._passing:
            passing.cancel()
        if self._passing:
            await asyncio.wait(self._passing)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        writers = [writer]
        try:
            for gate in (self._requests, self._answers):
                await gate.wait()
            served, server = await asyncio.open_connection(*self._target)
            writers.append(server)
            await asyncio.gather(_pump(reader, server, self._requests), _pump(served, writer, self._answers))
        except (asyncio.CancelledError, OSError):
            pass  # one of the two is gone, or the test is over
        finally:
            for each in writers:
                each.close()
            self._passing.discard(task)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
    """Until one side closes, which the other side learns once it is not cut off."""
    while data := await reader.read(READ_BYTES):
        await gate.wait()
        writer.write(data)
        await writer.drain()
    await gate.wait()
    writer.close()
