"""A client that says exactly when it publishes: to a broker that stands still, which must not acknowledge it when it wakes, because
others have its topics by then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tests.support.clients.raw_client import Closed, RawClient, send_frame

T = TypeVar("T")
GONE_S = 30.0


class Witness:
    """Connected to the broker at `url`, with a producer of a topic that it serves. Blocks."""

    def __init__(self, url: str, token: str, topic: str) -> None:
        self.topic = topic
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = self._run(self._open(url, token))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _open(self, url: str, token: str) -> RawClient:
        parts = urlsplit(url)
        client = RawClient(*await asyncio.open_connection(parts.hostname, parts.port))
        await client.connect(token)
        await client.producer(self.topic, producer_name="witness")
        client.write(send_frame(0, b"witness:0", key="witness"))
        await client.expect("SEND_RECEIPT")  # else it would prove nothing that none comes later
        return client

    def publish(self) -> None:
        """The broker stands still."""
        self._loop.call_soon_threadsafe(self._client.write, send_frame(1, b"witness:1", key="witness"))

    def check(self) -> None:
        """It runs again. Raises `AssertionError` if it acknowledges what was published meanwhile."""
        heard = self._run(self._hear())
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        assert "SEND_RECEIPT" not in heard, f"a broker that stood still acknowledged on {self.topic} when it woke: {heard}"

    async def _hear(self) -> list[str]:
        heard: list[str] = []
        try:
            while True:
                heard.append((await self._client.next(GONE_S)).name)
        except (Closed, AssertionError):
            return heard
