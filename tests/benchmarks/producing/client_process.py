"""One producer or consumer in a process of its own, so that what it costs is all that the process costs.

``python -m tests.benchmarks.producing.client_process JSON``: an `Order`; prints a `Done`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Client = Literal["ours", "stock"]
OURS: Client = "ours"
STOCK: Client = "stock"
TICK_S = 0.005  # at a rate: how often what is due is sent
TURN = 200  # without one: messages between two turns of the loop
WARM_UP_S = 0.5


class Order(msgspec.Struct):
    """`rate` 0: as fast as it goes. `options`: of the client's producer, in its own words."""

    client: Client
    url: str
    topic: str
    seconds: float
    rate: int = 0
    size: int = 200
    consume: int = 0
    options: Mapping[str, Any] = {}


class Done(msgspec.Struct):
    """`messages` were stored (or received) in `elapsed_s`; `cpu_s` is of the process in that time. `resident_bytes_max`: of all."""

    messages: int
    elapsed_s: float
    cpu_s: float
    resident_bytes_max: int = 0

    @property
    def per_s(self) -> float:
        return self.messages / self.elapsed_s

    @property
    def cpu_us(self) -> float:
        """Of a message."""
        return self.cpu_s / max(1, self.messages) * 1e6


def payload(number: int, size: int) -> bytes:
    """As a service logs it: most of it is the same in each message, and some is not."""
    text = f'{{"order":{number},"customer":"customer-{number * 7919 % 10_007}","amount":{number * 31 % 997}.{number % 100:02d},'
    text += f'"currency":"EUR","state":"accepted","trace":"{number * 2654435761 % (1 << 32):08x}","note":"'
    return (text + "x" * max(0, size - len(text) - 2) + '"}').encode()


async def _produce_ours(order: Order) -> Done:
    from messaging import client as magnetar
    from messaging.client.errors import QueueFull

    stored = 0
    room = asyncio.Event()

    def settled(future: asyncio.Future[Any]) -> None:
        nonlocal stored
        stored += not future.cancelled() and future.exception() is None
        room.set()

    client = magnetar.connect(order.url)
    producer = await client.create_producer(order.topic, **order.options)
    payloads = [payload(number, order.size) for number in range(2000)]
    sent = 0
    begin = time.perf_counter() + WARM_UP_S
    cpu_s, stored_before, end = 0.0, -1, begin + order.seconds
    while (now := time.perf_counter()) < end:
        if stored_before < 0 and now >= begin:
            begin, cpu_s, stored_before = now, time.process_time(), stored
        due = TURN if not order.rate else int((now - begin + WARM_UP_S) * order.rate) - sent
        try:
            for _ in range(due):
                producer.send_nowait(payloads[sent % 2000]).add_done_callback(settled)
                sent += 1
        except QueueFull:
            room.clear()
            await room.wait()
            continue
        await asyncio.sleep(TICK_S if order.rate else 0)
    done = Done(stored - stored_before, time.perf_counter() - begin, time.process_time() - cpu_s)
    await producer.abort()
    await client.close()
    return done


def _produce_stock(order: Order) -> Done:
    import pulsar

    stored = 0

    def settled(result: Any, message_id: Any) -> None:
        nonlocal stored
        stored += result == pulsar.Result.Ok

    client = _stock(order.url)
    producer = client.create_producer(order.topic, block_if_queue_full=True, **_stock_options(order.options))
    payloads = [payload(number, order.size) for number in range(2000)]
    sent = 0
    begin = time.perf_counter() + WARM_UP_S
    end = begin + order.seconds
    state = {"cpu_s": 0.0, "stored": -1, "begin": begin}

    def mark() -> None:
        state.update(cpu_s=time.process_time(), stored=stored, begin=time.perf_counter())

    result: list[Done] = []

    def finish() -> None:
        # Also where the producer waits for a partition that takes nothing, as long as it waits.
        elapsed_s = time.perf_counter() - state["begin"]
        result.append(Done(stored - int(state["stored"]), elapsed_s, time.process_time() - state["cpu_s"]))

    timers = [threading.Timer(WARM_UP_S, mark), threading.Timer(WARM_UP_S + order.seconds, finish)]
    for timer in timers:
        timer.start()

    def produce() -> None:
        nonlocal sent
        while (now := time.perf_counter()) < end:
            due = TURN if not order.rate else int((now - begin + WARM_UP_S) * order.rate) - sent
            for _ in range(due):
                producer.send_async(payloads[sent % 2000], settled)
                sent += 1
            if order.rate:
                time.sleep(TICK_S)

    threading.Thread(target=produce, daemon=True).start()
    timers[1].join()
    return result[0]


def _stock(url: str) -> Any:
    import pulsar

    return pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"))


def _stock_options(options: Mapping[str, Any]) -> dict[str, Any]:
    import pulsar

    codecs = {"zstd": pulsar.CompressionType.ZSTD, "lz4": pulsar.CompressionType.LZ4}
    given = dict(options)
    if "compression_type" in given:
        given["compression_type"] = codecs[given["compression_type"]]
    return given


async def _consume_ours(order: Order) -> Done:
    from messaging import client as magnetar

    async with (
        magnetar.connect(order.url) as client,
        client.consumer(order.topic, "ours", kind="shared", initial="earliest") as consumer,
    ):
        await consumer.ack(await consumer.receive())
        start, cpu_s = time.perf_counter(), time.process_time()
        for _ in range(order.consume - 1):
            await consumer.ack(await consumer.receive())
        return Done(order.consume - 1, time.perf_counter() - start, time.process_time() - cpu_s)


def _consume_stock(order: Order) -> Done:
    import pulsar

    kinds = {"consumer_type": pulsar.ConsumerType.Shared, "initial_position": pulsar.InitialPosition.Earliest}
    consumer = _stock(order.url).subscribe(order.topic, "stock", **kinds)
    consumer.acknowledge(consumer.receive())
    start, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(order.consume - 1):
        consumer.acknowledge(consumer.receive())
    return Done(order.consume - 1, time.perf_counter() - start, time.process_time() - cpu_s)


def carry_out(order: Order) -> Done:
    if order.client == STOCK:
        return _consume_stock(order) if order.consume else _produce_stock(order)
    return asyncio.run(_consume_ours(order) if order.consume else _produce_ours(order))


def main(text: str) -> None:
    import os

    from tests.benchmarks import processes

    done = carry_out(msgspec.json.decode(text, type=Order))
    done.resident_bytes_max = processes.cost(os.getpid()).resident_bytes_max
    sys.stdout.write(msgspec.json.encode(done).decode() + "\n")
    sys.stdout.flush()
    os._exit(0)  # a stock client that waits for a partition would not end by itself


if __name__ == "__main__":
    main(sys.argv[1])
