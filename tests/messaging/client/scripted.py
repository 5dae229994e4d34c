"""A transport without sockets: the test is the broker, sees every frame and says when a connection breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from messaging.client.client import Client, connect
from messaging.client.connection import Timing
from messaging.client.failures import ChannelClosed
from messaging.client.transport import Channel
from tests.support.waiting import eventually


class ScriptedChannel:
    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self.url = url
        self.headers = dict(headers)
        self.sent: list[dict[str, Any]] = []
        self.frames: asyncio.Queue[str | Exception] = asyncio.Queue()
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.closed = False

    async def send(self, text: str) -> None:
        await self.may_send.wait()
        self.sent.append(json.loads(text))

    async def recv(self) -> str:
        frame = await self.frames.get()
        if isinstance(frame, Exception):
            raise frame
        return frame

    async def close(self) -> None:
        self.closed = True

    # For tests

    def give(self, **frame: Any) -> None:
        self.frames.put_nowait(json.dumps(frame))

    def receipt(self, context: str, message_id: str | None = None) -> None:
        self.give(result="ok", messageId=message_id or f"id-{context}", context=context)

    def lose(self, code: int = 1006, reason: str = "") -> None:
        self.frames.put_nowait(ChannelClosed(code, reason))

    @property
    def contexts(self) -> list[str]:
        return [frame["context"] for frame in self.sent]


class ScriptedBroker:
    """`script` holds what happens to connection attempts: an exception, or None to accept. When it is empty, all are accepted."""

    def __init__(self) -> None:
        self.script: list[Exception | None] = []
        self.channels: list[ScriptedChannel] = []
        self.attempts = 0
        self.sleeps: list[float] = []
        self.now_s = 1000.0
        self.held = False  # reconnecting waits until it is False

    async def __call__(self, url: str, headers: Mapping[str, str]) -> Channel:
        self.attempts += 1
        outcome = self.script.pop(0) if self.script else None
        if outcome is not None:
            raise outcome
        self.channels.append(ScriptedChannel(url, headers))
        return self.channels[-1]

    async def sleep(self, delay_s: float) -> None:
        self.sleeps.append(delay_s)
        self.now_s += delay_s
        await eventually(lambda: not self.held)

    def client(self, key: Any = None, **options: Any) -> Client:
        timing = Timing(lambda: self.now_s, self.sleep, lambda: 0.0)
        return connect(
            "ws://broker.example:8081" if key is None else "wss://broker.example:8081",
            key,
            connector=self,
            timing=timing,
            **options,
        )

    async def channel(self, index: int) -> ScriptedChannel:
        await eventually(lambda: len(self.channels) > index)
        return self.channels[index]
