"""A topic as a table: the latest value of each key, kept up to date."""

from __future__ import annotations

import asyncio
import sys

from messaging import client as magnetar


async def main(url: str, key: str | None = None, namespace: str = "public/default") -> dict[object, object]:
    topic = f"persistent://{namespace}/example-prices"
    changed = asyncio.Event()
    async with magnetar.connect(url, key=key) as client, client.producer(topic, schema=magnetar.STRING) as producer:
        await producer.send("10.50", key="apples")
        await producer.send("3.20", key="pears")
        await producer.send("11.00", key="apples")
        async with client.table_view(topic, schema=magnetar.STRING) as prices:
            before = dict(prices)
            prices.listen(lambda name, price: changed.set())
            await producer.send(None, key="pears")  # no value: the key goes
            async with asyncio.timeout(10):
                await changed.wait()
            return {**before, "afterwards": dict(prices)}


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])))
