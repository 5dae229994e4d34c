"""A publisher and a consumer of Pulsar's WebSocket API, which connect again when their WebSocket ends. The publisher sends what had
no answer once more, so that such a message may be there twice; what is told of acknowledgements is nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import deque
from contextlib import suppress

import websockets

from tests.compat.receipts import Deliveries, Receipts, Sent

AGAIN_S = 0.5
ANSWER_S = 15.0  # after that the WebSocket is given up; a browser would wait for ever where a machine is gone
# From the beginning: the publisher may come first.
OPTIONS = "subscriptionType=Failover&subscriptionInitialPosition=Earliest"
_GONE = (OSError, websockets.WebSocketException, TimeoutError)


def _path(topic: str) -> str:
    return topic.replace("://", "/")


async def _pause(ended: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), seconds)


class WebsocketPublisher(Receipts):
    """One message at a time."""

    def __init__(self, url: str, token: str, topic: str, pause_s: float) -> None:
        super().__init__(topic)
        self._pause_s = pause_s
        self._name = topic.rpartition("/")[2]
        self._loop = asyncio.get_running_loop()
        self._url = f"{url}/ws/v2/producer/{_path(topic)}"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._closing = asyncio.Event()
        self.task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        waiting = deque([0])
        while not self._closing.is_set():
            try:
                async with websockets.connect(self._url, additional_headers=self._headers, open_timeout=ANSWER_S) as connection:
                    while not self._closing.is_set():
                        await self._publish(connection, waiting[0])
                        waiting[0] += 1
                        await _pause(self._closing, self._pause_s)
            except _GONE:
                await _pause(self._closing, AGAIN_S)

    async def _publish(self, connection: websockets.ClientConnection, number: int) -> None:
        sent = Sent(f"{self._name}-k{number % 5}", number)
        published_s = time.monotonic()
        body = {"payload": base64.b64encode(sent.payload).decode(), "key": sent.key, "context": str(number)}
        await connection.send(json.dumps(body))
        answer = json.loads(await asyncio.wait_for(connection.recv(), ANSWER_S))
        if answer.get("result") != "ok":
            raise TimeoutError(answer)  # a broker that is not there; it is sent again
        assert answer["context"] == str(number), answer
        self.receipt(sent, published_s)

    def close(self) -> None:
        """From another thread."""
        self._loop.call_soon_threadsafe(self._closing.set)
        asyncio.run_coroutine_threadsafe(asyncio.wait([self.task]), self._loop).result(60)


class WebsocketConsumer(Deliveries):
    """Of one topic, with a subscription of type Failover."""

    def __init__(self, url: str, token: str, topic: str) -> None:
        super().__init__(topic, "websocket")
        self._url = f"{url}/ws/v2/consumer/{_path(topic)}/{self.subscription}?{OPTIONS}"
        self._headers = {"Authorization": f"Bearer {token}"}
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                async with websockets.connect(self._url, additional_headers=self._headers, open_timeout=ANSWER_S) as connection:
                    while True:
                        message = json.loads(await connection.recv())
                        self.came(message["messageId"], base64.b64decode(message["payload"]))
                        await connection.send(json.dumps({"messageId": message["messageId"]}))
            except _GONE:
                await _pause(asyncio.Event(), AGAIN_S)
