"""Features of consumers and readers."""

from __future__ import annotations

import re
import threading
import time
from datetime import timedelta
from typing import Any

import pulsar

from tests.compat.clients.python.base import PLAN, SUBSCRIBE, feature, receive, rest, same, send, topic, unload

EARLIEST = pulsar.InitialPosition.Earliest
TYPES = pulsar.ConsumerType


@feature()
def exclusive_subscription(client: Any) -> None:
    client.subscribe(topic("excl"), "s")
    try:
        client.subscribe(topic("excl"), "s")
        raise AssertionError("two exclusive consumers")
    except pulsar.ConsumerBusy:
        pass


@feature()
def shared_subscription(client: Any) -> None:
    consumers = [client.subscribe(topic("shared"), "s", TYPES.Shared, receiver_queue_size=3) for _ in range(2)]
    send(client, "shared", *"abcdef")
    payloads: list[str] = []
    for consumer in consumers:
        payloads += rest(consumer)
    same(sorted(payloads), list("abcdef"))


@feature()
def failover_subscription(client: Any) -> None:
    name = f"{PLAN['single']}-partition-0"
    first = client.subscribe(name, "failover", TYPES.Failover, consumer_name="a")
    second = client.subscribe(name, "failover", TYPES.Failover, consumer_name="b")
    producer = client.create_producer(name)
    producer.send(b"x")
    same(receive(first, 1), ["x"])
    first.close()
    producer.send(b"y")
    same(receive(second, 1)[-1:], ["y"])


@feature()
def key_shared_subscription(client: Any) -> None:
    consumer = client.subscribe(topic("keyed"), "s", TYPES.KeyShared)
    producer = client.create_producer(topic("keyed"))
    for key in "ab":
        producer.send(key.encode(), partition_key=key)
    same(receive(consumer, 2), ["a", "b"])


@feature("key_shared_policy" in SUBSCRIBE)
def sticky_key_ranges(client: Any) -> None:
    policy = pulsar.ConsumerKeySharedPolicy(key_shared_mode=pulsar.KeySharedMode.Sticky, sticky_ranges=[(0, 65535)])
    consumer = client.subscribe(topic("sticky"), "s", TYPES.KeyShared, key_shared_policy=policy)
    client.create_producer(topic("sticky")).send(b"x", partition_key="k")
    same(receive(consumer, 1), ["x"])


@feature()
def initial_position(client: Any) -> None:
    send(client, "early", "a")
    same(receive(client.subscribe(topic("early"), "s", initial_position=EARLIEST), 1), ["a"])


@feature()
def several_topics(client: Any) -> None:
    consumer = client.subscribe([topic("several-1"), topic("several-2")], "s")
    send(client, "several-1", "a")
    send(client, "several-2", "b")
    same(sorted(receive(consumer, 2)), ["a", "b"])


@feature()
def topics_by_pattern(client: Any) -> None:
    send(client, "pattern-1", "early")
    consumer = client.subscribe(re.compile(topic("pattern-.*")), "s", initial_position=EARLIEST, pattern_auto_discovery_period=1)
    same(receive(consumer, 1), ["early"])


@feature()
def cumulative_acknowledgement(client: Any) -> None:
    consumer = client.subscribe(topic("cumulative"), "s")
    send(client, "cumulative", *"abc")
    messages = [consumer.receive(8000) for _ in range(3)]
    consumer.acknowledge_cumulative(messages[1])
    consumer.close()
    same(receive(client.subscribe(topic("cumulative"), "s"), 1), ["c"])


@feature("batch_index_ack_enabled" in SUBSCRIBE)
def batch_index_acknowledgement(client: Any) -> None:
    consumer = client.subscribe(topic("index"), "s", batch_index_ack_enabled=True)
    producer = client.create_producer(
        topic("index"), batching_enabled=True, batching_max_messages=3, batching_max_publish_delay_ms=2000
    )
    for text in "abc":
        producer.send_async(text.encode(), lambda *_: None)
    producer.flush()
    messages = [consumer.receive(8000) for _ in range(3)]
    consumer.acknowledge(messages[1])
    consumer.close()
    same(receive(client.subscribe(topic("index"), "s", batch_index_ack_enabled=True), 2), ["a", "c"])


@feature()
def negative_acknowledgement(client: Any) -> None:
    consumer = client.subscribe(topic("nack"), "s", TYPES.Shared, negative_ack_redelivery_delay_ms=100)
    send(client, "nack", "a")
    consumer.negative_acknowledge(consumer.receive(8000))
    same(consumer.receive(8000).redelivery_count(), 1)


@feature("dead_letter_policy" in SUBSCRIBE)
def dead_letters(client: Any) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(1, initial_subscription_name="care")
    consumer = client.subscribe(topic("dead"), "s", TYPES.Shared, dead_letter_policy=policy, negative_ack_redelivery_delay_ms=100)
    send(client, "dead", "a")
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(8000))
    rest(consumer)
    same(receive(client.subscribe(topic("dead-s-DLQ"), "care", initial_position=EARLIEST), 1), ["a"])


@feature()
def delayed_delivery(client: Any) -> None:
    consumer = client.subscribe(topic("delayed"), "s", TYPES.Shared)
    producer = client.create_producer(topic("delayed"))
    producer.send(b"late", deliver_after=timedelta(seconds=2))
    producer.send(b"now")
    same(receive(consumer, 2), ["now", "late"])


@feature()
def delayed_through_a_restart(client: Any) -> None:
    consumer = client.subscribe(topic("restart"), "s", TYPES.KeyShared)
    producer, at_ms = client.create_producer(topic("restart")), int(time.time() * 1000) + 3000
    producer.send(b"much later", partition_key="k", deliver_at=at_ms + 3_600_000)
    producer.send(b"late", partition_key="k", deliver_at=at_ms)
    unload("restart")
    producer.send(b"now", partition_key="k")
    came_ms: dict[str, float] = {}
    for _ in range(2):
        [text] = receive(consumer, 1)
        came_ms[text] = time.time() * 1000
    same(sorted(came_ms), ["late", "now"])
    assert came_ms["late"] >= at_ms - 1000, "it came early"
    same(rest(consumer), [])


@feature()
def readers(client: Any) -> None:
    send(client, "reader", "a", "b")
    reader = client.create_reader(topic("reader"), pulsar.MessageId.earliest)
    payloads: list[str] = []
    while reader.has_message_available():
        payloads.append(reader.read_next(8000).data().decode())
    same(payloads, ["a", "b"])


@feature()
def seek_to_a_message(client: Any) -> None:
    consumer = client.subscribe(topic("seek"), "s")
    ids = send(client, "seek", *"abc")
    receive(consumer, 3)
    consumer.seek(ids[0])
    same(receive(consumer, 2), ["b", "c"])


@feature()
def seek_to_a_time(client: Any) -> None:
    consumer = client.subscribe(topic("time"), "s")
    send(client, "time", "a")
    receive(consumer, 1)
    consumer.seek(1)
    same(receive(consumer, 1), ["a"])


@feature(hasattr(pulsar.Consumer, "get_last_message_id"))
def last_message_id(client: Any) -> None:
    consumer = client.subscribe(topic("last"), "s")
    ids = send(client, "last", "a", "b")
    same(consumer.get_last_message_id().entry_id(), ids[-1].entry_id())


@feature()
def listeners(client: Any) -> None:
    came = threading.Event()
    client.subscribe(topic("listen"), "s", message_listener=lambda consumer, message: came.set())
    send(client, "listen", "a")
    same(came.wait(8), True)


@feature("batch_receive_policy" in SUBSCRIBE)
def receiving_many_at_once(client: Any) -> None:
    policy = pulsar.ConsumerBatchReceivePolicy(2, -1, 2000)
    consumer = client.subscribe(topic("many"), "s", batch_receive_policy=policy)
    send(client, "many", "a", "b")
    same([message.data() for message in consumer.batch_receive()], [b"a", b"b"])


@feature(hasattr(pulsar.Client, "create_table_view"))
def table_views(client: Any) -> None:
    producer = client.create_producer(topic("table"))
    for value in (b"1", b"2"):
        producer.send(value, partition_key="k")
    same(client.create_table_view(topic("table")).get("k"), b"2")


@feature()
def unsubscribe(client: Any) -> None:
    client.subscribe(topic("unsub"), "s").unsubscribe()
    send(client, "unsub", "a")
    same(rest(client.subscribe(topic("unsub"), "s")), [])
