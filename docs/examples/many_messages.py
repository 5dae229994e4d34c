"""Sending without waiting for each message, with the settings for what is sent."""

from __future__ import annotations

import asyncio
import sys

from messaging import client as magnetar
from messaging.client.tuning import Traffic, advise


async def main(url: str, key: str | None = None, namespace: str = "public/default", count: int = 5000) -> int:
    settings = advise(Traffic(message_bytes=100, messages_per_s=50_000, latency_ms=20)).as_arguments()
    memory_bytes_max = settings.pop("memory_bytes_max")
    async with (
        magnetar.connect(url, key=key, memory_bytes_max=memory_bytes_max) as client,
        client.producer(f"persistent://{namespace}/example-many", **settings) as producer,
    ):
        for number in range(count):
            while True:
                try:
                    producer.send_nowait(b"line %d of a log that is a hundred bytes long or so, like many others" % number)
                    break
                except magnetar.errors.QueueFull:
                    await producer.flush()
        await producer.flush()
        return producer.statistics.stored


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])))
