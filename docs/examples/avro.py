"""A schema gets a field with a default: old readers and new ones read old messages and new ones. Needs fastavro."""

from __future__ import annotations

import asyncio
import dataclasses
import sys

from messaging import client as magnetar


@dataclasses.dataclass
class Order:
    number: int


@dataclasses.dataclass
class PricedOrder:
    number: int
    price: float = 1.0


async def main(url: str, key: str | None = None, namespace: str = "public/default") -> list[object]:
    topic, values = f"persistent://{namespace}/example-avro", []
    async with magnetar.connect(url, key=key) as client:
        async with client.producer(topic, schema=magnetar.Avro(Order)) as producer:
            await producer.send(Order(1))
        async with client.producer(topic, schema=magnetar.Avro(PricedOrder)) as producer:
            await producer.send(PricedOrder(2, 9.5))
        for model in (Order, PricedOrder):
            async with client.reader(topic, magnetar.EARLIEST, schema=magnetar.Avro(model)) as reader:
                values += [(await reader.read(timeout_s=10)).value for _ in range(2)]
    return values


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])))
