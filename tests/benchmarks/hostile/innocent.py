"""An innocent tenant: pings and publishes, and measures what it gets: a process of its own in the benchmark `neighbours`.

    python -m tests.benchmarks.hostile.innocent HOST PORT SECONDS TOKEN

One connection pings every 5 ms, another publishes 1 KiB at 500 a second, a third as fast as a window of 100 lets it. Prints one
JSON object: latencies in ms, receipts a second, and what was never answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections import deque
from collections.abc import Callable

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

PING_EVERY_S = 0.005
PUBLISH_EVERY_S = 0.002
WINDOW = 100
PAYLOAD = bytes(1024)
GRACE_S = 5.0  # for what is still on its way at the end


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.sent: deque[float] = deque()  # when what is not answered yet was sent
        self.took_ms: list[float] = []
        self.sequence = 0
        self.answered = asyncio.Event()  # everything that was sent

    @classmethod
    async def open(cls, host: str, port: int, token: str, topic: str = "") -> Client:
        client = cls(*await asyncio.open_connection(host, port, limit=1 << 20))
        body = pb.Connect(client_version="innocent", protocol_version=20, auth_method_name="token", auth_data=token.encode())
        client.writer.write(frames.command(pb.Command.CONNECT, connect=body))
        await client.answer()
        if topic:
            client.writer.write(frames.command(pb.Command.PRODUCER, producer=pb.Producer(topic=topic, producer_id=1, request_id=1)))
            assert (await client.answer()).type == pb.Command.PRODUCER_SUCCESS
        return client

    async def answer(self) -> pb.Command:
        total = int.from_bytes(await self.reader.readexactly(4), "big")
        return frames.decode(await self.reader.readexactly(total))

    def ping(self) -> None:
        self.answered.clear()
        self.sent.append(time.perf_counter())
        self.writer.write(frames.PING)

    def publish(self) -> None:
        metadata = pb.Metadata(producer_name="innocent", sequence_id=self.sequence, publish_time=1)
        self.answered.clear()
        self.sent.append(time.perf_counter())
        self.writer.write(frames.build_send(1, self.sequence, metadata, PAYLOAD))
        self.sequence += 1

    async def receive(self) -> None:
        while True:
            kind = (await self.answer()).type
            if kind in (pb.Command.PONG, pb.Command.SEND_RECEIPT):
                self.took_ms.append((time.perf_counter() - self.sent.popleft()) * 1000)
                if not self.sent:
                    self.answered.set()
            elif kind == pb.Command.PING:
                self.writer.write(frames.PONG)


async def _at_rate(act: Callable[[], None], every_s: float, until: float) -> None:
    """Open loop: a late answer does not keep the next question from being asked."""
    next_at = time.perf_counter()
    while next_at < until:
        act()
        next_at += every_s
        await asyncio.sleep(max(0.0, next_at - time.perf_counter()))


async def _full_speed(client: Client, until: float) -> None:
    while time.perf_counter() < until:
        while len(client.sent) < WINDOW:
            client.publish()
        await asyncio.sleep(0.0005)


def _latencies(took_ms: list[float]) -> dict[str, float]:
    ordered = sorted(took_ms)
    if not ordered:
        return {}
    return {
        "p50_ms": ordered[len(ordered) // 2],
        "p99_9_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.999))],
        "max_ms": ordered[-1],
    }


async def measure(host: str, port: int, seconds: float, token: str) -> dict[str, object]:
    pinger = await Client.open(host, port, token)
    steady = await Client.open(host, port, token, "persistent://innocent/shop/steady")
    fast = await Client.open(host, port, token, "persistent://innocent/shop/fast")
    clients = (pinger, steady, fast)
    receiving = [asyncio.ensure_future(client.receive()) for client in clients]
    start = time.perf_counter()
    until = start + seconds
    await asyncio.gather(
        _at_rate(pinger.ping, PING_EVERY_S, until),
        _at_rate(steady.publish, PUBLISH_EVERY_S, until),
        _full_speed(fast, until),
    )
    receipts_per_s = len(fast.took_ms) / (time.perf_counter() - start)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*(client.answered.wait() for client in clients)), GRACE_S)
    for task in receiving:
        task.cancel()
    return {
        "ping": _latencies(pinger.took_ms),
        "publish": _latencies(steady.took_ms),
        "receipts_per_s": receipts_per_s,
        "unanswered": sum(len(client.sent) for client in clients),
    }


if __name__ == "__main__":
    json.dump(asyncio.run(measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])), sys.stdout)
