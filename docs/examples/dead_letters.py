"""What cannot be handled is tried three times, and then goes to a dead letter topic."""

from __future__ import annotations

import asyncio
import sys

from messaging import client as magnetar


async def main(url: str, key: str | None = None, namespace: str = "public/default") -> tuple[int, str]:
    topic = f"persistent://{namespace}/example-failing"
    policy = magnetar.DeadLetterPolicy(max_redeliveries=2, initial_subscription="inspect")
    tries = 0
    async with (
        magnetar.connect(url, key=key) as client,
        client.producer(topic) as producer,
        client.consumer(topic, "work", kind="shared", nack_delay_s=0.01, dead_letters=policy) as consumer,
        client.consumer(f"{topic}-work-DLQ", "inspect", initial="earliest") as inspector,
    ):
        await producer.send(b"poison")
        while tries < 3:
            message = await consumer.receive(timeout_s=10)
            tries += 1
            await consumer.nack(message)
        dead = await inspector.receive(timeout_s=10)
        await inspector.ack(dead)
        return tries, f"{dead.payload.decode()} of {dead.properties['REAL_TOPIC'].rpartition('/')[2]}"


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])))
