"""Two consumers share a subscription. Messages of a key go to one of them, in their order."""

from __future__ import annotations

import asyncio
import sys

from messaging import client as magnetar


async def main(url: str, key: str | None = None, namespace: str = "public/default") -> dict[str, list[int]]:
    topic = f"persistent://{namespace}/example-keys"
    orders: dict[str, list[int]] = {}
    handled = 0
    done = asyncio.Event()

    async def handle(message: magnetar.Message) -> None:
        nonlocal handled
        orders.setdefault(str(message.key), []).append(int(message.payload))
        handled += 1
        if handled == 40:
            done.set()

    async with magnetar.connect(url, key=key) as client, client.producer(topic, batch_by_key=True) as producer:
        consumers = [await client.subscribe(topic, "workers", kind="key_shared") for _ in range(2)]
        working = [asyncio.create_task(consumer.run(handle)) for consumer in consumers]
        await asyncio.gather(*(producer.send(b"%d" % number, key=f"customer-{number % 4}") for number in range(40)))
        async with asyncio.timeout(20):
            await done.wait()
        await asyncio.gather(*(consumer.close() for consumer in consumers))
        await asyncio.gather(*working)
    return orders


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])))
