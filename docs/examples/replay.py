"""Reading a topic again: from a message, and from a time. A reader leaves no subscription behind."""

from __future__ import annotations

import asyncio
import sys

from messaging import client as magnetar


async def main(url: str, key: str | None = None, namespace: str = "public/default") -> list[list[str]]:
    topic, runs = f"persistent://{namespace}/example-replay", []
    async with magnetar.connect(url, key=key) as client, client.producer(topic, batching=False) as producer:
        ids = [await producer.send(b"%d" % number) for number in range(4)]

        async def rest(reader: magnetar.Reader) -> list[str]:
            payloads = []
            while await reader.has_message():
                payloads.append((await reader.read()).payload.decode())
            return payloads

        async with client.reader(topic, ids[1]) as reader:
            runs.append(await rest(reader))
            await reader.seek(magnetar.EARLIEST)
            runs.append(await rest(reader))
            await reader.seek(0)  # the first that was published since 1970
            runs.append(await rest(reader))
    return runs


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])))
