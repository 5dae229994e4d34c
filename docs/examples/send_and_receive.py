"""A message, its acknowledgement, and that it does not come again."""

from __future__ import annotations

import asyncio
import sys

from messaging import client as magnetar


async def main(url: str, key: str | None = None, namespace: str = "public/default") -> list[str]:
    topic, received = f"persistent://{namespace}/example-hello", []
    async with magnetar.connect(url, key=key) as client:
        async with client.consumer(topic, "greeter") as consumer, client.producer(topic) as producer:
            message_id = await producer.send(b"hello", properties={"language": "en"})
            message = await consumer.receive(timeout_s=10)
            assert message.id == message_id
            received.append(f"{message.payload.decode()} ({message.properties['language']})")
            await consumer.ack(message)
        async with client.consumer(topic, "greeter") as consumer:
            try:
                received.append(str(await consumer.receive(timeout_s=0.2)))
            except magnetar.errors.ReceiveTimedOut:
                received.append("nothing is left")
    return received


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])))
