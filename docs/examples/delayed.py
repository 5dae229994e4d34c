"""A message that comes later than one that was sent after it. Delays need a shared subscription."""

from __future__ import annotations

import asyncio
import sys

from messaging import client as magnetar


async def main(url: str, key: str | None = None, namespace: str = "public/default") -> list[str]:
    topic = f"persistent://{namespace}/example-delayed"
    async with (
        magnetar.connect(url, key=key) as client,
        client.consumer(topic, "reminders", kind="shared") as consumer,
        client.producer(topic) as producer,
    ):
        await producer.send(b"later", deliver_after_s=1.5)
        await producer.send(b"now")
        received = []
        for _ in range(2):
            message = await consumer.receive(timeout_s=10)
            received.append(message.payload.decode())
            await consumer.ack(message)
        return received


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])))
