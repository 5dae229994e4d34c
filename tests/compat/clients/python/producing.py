"""Features of producers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulsar

from tests.compat.clients.python.base import PLAN, PRODUCE, feature, receive, same, send, topic


@feature()
def produce_and_consume(client: Any) -> None:
    consumer = client.subscribe(topic("plain"), "s")
    send(client, "plain", "a", "b")
    same(receive(consumer, 2), ["a", "b"])


@feature()
def keys_and_properties(client: Any) -> None:
    consumer = client.subscribe(topic("props"), "s")
    client.create_producer(topic("props")).send(b"x", properties={"ü": "1"}, partition_key="k", event_timestamp=5)
    message = consumer.receive(8000)
    same([message.properties(), message.partition_key(), message.event_timestamp()], [{"ü": "1"}, "k", 5])


@feature()
def batches(client: Any) -> None:
    consumer = client.subscribe(topic("batches"), "s")
    producer = client.create_producer(topic("batches"), batching_enabled=True, batching_max_publish_delay_ms=50)
    for number in range(10):
        producer.send_async(str(number).encode(), lambda *_: None)
    producer.flush()
    same(receive(consumer, 10), [str(number) for number in range(10)])


@feature()
def compression(client: Any) -> None:
    consumer = client.subscribe(topic("compression"), "s")
    for name in ("LZ4", "ZLib", "ZSTD", "SNAPPY"):
        send(client, "compression", name * 50, compression_type=getattr(pulsar.CompressionType, name))
        same(receive(consumer, 1), [name * 50])


@feature("chunking_enabled" in PRODUCE)
def chunks(client: Any) -> None:
    consumer = client.subscribe(topic("chunks"), "s")
    send(client, "chunks", "x" * 6_000_000, chunking_enabled=True)
    same([len(text) for text in receive(consumer, 1)], [6_000_000])


@feature("crypto_key_reader" in PRODUCE)
def encryption(client: Any) -> None:
    keys = pulsar.CryptoKeyReader(PLAN["public_key"], PLAN["private_key"])
    consumer = client.subscribe(topic("secret"), "s", crypto_key_reader=keys)
    send(client, "secret", "x", encryption_key="key", crypto_key_reader=keys)
    same(receive(consumer, 1), ["x"])


@feature(hasattr(pulsar.Message, "has_null_value"))
def null_values(client: Any) -> None:
    consumer = client.subscribe(topic("null"), "s")
    client.create_producer(topic("null")).send(None, partition_key="k")
    same(consumer.receive(8000).has_null_value(), True)


@feature()
def deduplication(client: Any) -> None:
    name = f"{PLAN['deduplicated']}t"
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name, producer_name="p")
    for number in (1, 2, 2, 3):
        producer.send(str(number).encode(), sequence_id=number)
    same(receive(consumer, 3), ["1", "2", "3"])


@feature("access_mode" in PRODUCE)
def exclusive_producer(client: Any) -> None:
    modes = pulsar.ProducerAccessMode
    client.create_producer(topic("mode"), access_mode=modes.Exclusive)
    try:
        client.create_producer(topic("mode"), access_mode=modes.Exclusive)
        raise AssertionError("two exclusive producers")
    except pulsar.ProducerFenced:
        pass


@feature("access_mode" in PRODUCE)
def fencing_producer(client: Any) -> None:
    modes = pulsar.ProducerAccessMode
    client.create_producer(topic("fence"), access_mode=modes.Exclusive)
    client.create_producer(topic("fence"), access_mode=modes.ExclusiveWithFencing).send(b"x")


@feature("access_mode" in PRODUCE)
def waiting_producer(client: Any) -> None:
    modes = pulsar.ProducerAccessMode
    first = client.create_producer(topic("wait"), access_mode=modes.Exclusive)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(client.create_producer, topic("wait"), access_mode=modes.WaitForExclusive)
        first.close()
        second.result(8).send(b"x")


@feature()
def partitioned_topics(client: Any) -> None:
    consumer = client.subscribe(PLAN["partitioned"], "s")
    producer = client.create_producer(PLAN["partitioned"])
    for number in range(6):
        producer.send(str(number).encode())
    same(sorted(receive(consumer, 6)), [str(number) for number in range(6)])
