"""Non-persistent topics: what is delivered, what is dropped, and what has no meaning on them."""

from __future__ import annotations

import pulsar

from tests.compat.scenarios.values import attempt, in_turns, received, rest, shapes, take, texts
from tests.compat.scenarios.world import Outcome, World, send_together, topic_path


def _partitioned(w: World, partitions: int, suffix: str = "parts") -> str:
    topic = w.unstored_topic(suffix)
    assert w.admin("PUT", f"{topic_path(topic)}/partitions", partitions).status == 204
    return topic


def _delivered(w: World, kind: str) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic, kind=kind)
    producer = w.producer(topic)
    for text in "abc":
        producer.send(text.encode(), partition_key=text, properties={"k": text}, event_timestamp=1_000)
    return [
        [
            message.data().decode(),
            message.partition_key(),
            message.properties(),
            message.event_timestamp(),
            w.plain(message.topic_name()),
        ]
        for message in take(consumer, 3, acknowledge=True)
    ]


def on_exclusive(w: World) -> Outcome:
    return _delivered(w, "Exclusive")


def on_shared(w: World) -> Outcome:
    return _delivered(w, "Shared")


def on_failover(w: World) -> Outcome:
    return _delivered(w, "Failover")


def on_key_shared(w: World) -> Outcome:
    return _delivered(w, "KeyShared")


def ids(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    sent = [producer.send(text.encode()) for text in "abc"]
    return [shapes(sent), shapes(message.message_id() for message in take(consumer, 3))]


def ids_in_a_batch(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic)
    producer = w.batching(topic, 3)
    sent = send_together(producer, *"abc")
    return [shapes(sent), shapes(message.message_id() for message in take(consumer, 3))]


def ids_on_partitions(w: World) -> Outcome:
    topic = _partitioned(w, 2)
    consumer = w.consumer(topic)
    producer = w.producer(topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    sent = [producer.send(text.encode()) for text in "ab"]
    return [sorted(shapes(sent)), sorted(shapes(message.message_id() for message in take(consumer, 2)))]


def what_nobody_listens_to_is_gone(w: World) -> Outcome:
    topic = w.unstored_topic()
    producer = w.producer(topic)
    producer.send(b"before")
    consumer = w.consumer(topic, initial_position=pulsar.InitialPosition.Earliest)
    producer.send(b"after")
    return rest(consumer)


def what_comes_while_a_consumer_is_away_is_gone(w: World) -> Outcome:
    topic = w.unstored_topic()
    producer = w.producer(topic)
    w.consumer(topic).close()
    producer.send(b"away")
    consumer = w.consumer(topic)
    producer.send(b"back")
    return rest(consumer)


def a_full_consumer_gets_no_more(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic, receiver_queue_size=3)
    producer = w.producer(topic)
    for number in range(10):
        producer.send(str(number).encode())
    first = rest(consumer)
    producer.send(b"later")
    return [first, rest(consumer)]


def each_subscription_drops_for_itself(w: World) -> Outcome:
    topic = w.unstored_topic()
    few, many = w.consumer(topic, "few", receiver_queue_size=2), w.consumer(topic, "many", client=w.new_client())
    producer = w.producer(topic)
    for number in range(6):
        producer.send(str(number).encode())
    return [rest(few), rest(many)]


def shared_consumers_take_turns(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumers = {f"c{n}": w.consumer(topic, kind="Shared", consumer_name=f"c{n}", client=w.new_client()) for n in range(3)}
    producer = w.producer(topic)
    for number in range(12):
        producer.send(str(number).encode())
    return in_turns(consumers, 12)


def shared_goes_on_with_those_that_take_more(w: World) -> Outcome:
    topic = w.unstored_topic()
    few = w.consumer(topic, kind="Shared", receiver_queue_size=1, client=w.new_client())
    many = w.consumer(topic, kind="Shared", client=w.new_client())
    producer = w.producer(topic)
    for number in range(8):
        producer.send(str(number).encode())
    return [rest(few), rest(many)]


def keys_belong_to_consumers(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumers = {f"c{n}": w.consumer(topic, kind="KeyShared", consumer_name=f"c{n}", client=w.new_client()) for n in range(3)}
    producer = w.producer(topic)
    for number in range(24):
        producer.send(f"key-{number}".encode(), partition_key=f"key-{number}")
    return {name: sorted(payloads) for name, payloads in in_turns(consumers, 24).items()}


def keys_of_a_full_consumer_are_dropped(w: World) -> Outcome:
    topic = w.unstored_topic()
    few = w.consumer(topic, kind="KeyShared", consumer_name="c0", client=w.new_client(), receiver_queue_size=2)
    many = w.consumer(topic, kind="KeyShared", consumer_name="c1", client=w.new_client())
    producer = w.producer(topic)
    for number in range(24):
        producer.send(f"key-{number}".encode(), partition_key=f"key-{number}")
    return [rest(few), rest(many)]


def failover_sends_to_one(w: World) -> Outcome:
    topic = f"{_partitioned(w, 1)}-partition-0"
    consumers = {name: w.consumer(topic, kind="Failover", consumer_name=name, client=w.new_client()) for name in "ba"}
    producer = w.producer(topic)
    for text in "xyz":
        producer.send(text.encode())
    by_consumer = in_turns(consumers, 3)
    consumers["a"].close()
    producer.send(b"next")
    return [by_consumer, rest(consumers["b"])]


def exclusive_is_for_one(w: World) -> Outcome:
    topic = w.unstored_topic()
    w.consumer(topic)
    return [attempt(w.consumer, topic, client=w.new_client()), attempt(w.consumer, topic, kind="Shared", client=w.new_client())]


def delivery_times_mean_nothing(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic, kind="Shared")
    w.producer(topic).send(b"x", deliver_at=4_000_000_000_000)
    return texts(consumer, 1)


def negative_acknowledgements_bring_nothing_back(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100)
    producer = w.producer(topic)
    producer.send(b"a")
    consumer.negative_acknowledge(take(consumer, 1)[0])
    producer.send(b"b")
    return [*received(take(consumer, 1)), rest(consumer, 600)]


def asking_for_redelivery_brings_nothing_back(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic)
    w.producer(topic).send(b"a")
    first = texts(consumer, 1, acknowledge=False)
    consumer.redeliver_unacknowledged_messages()
    return [first, rest(consumer)]


def cumulative_acknowledgements(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    producer.send(b"a")
    ended = attempt(consumer.acknowledge_cumulative, take(consumer, 1)[0])
    producer.send(b"b")
    return [ended, texts(consumer, 1)]


def a_reader_gets_what_comes(w: World) -> Outcome:
    topic = w.unstored_topic()
    producer = w.producer(topic)
    producer.send(b"before")
    reader = w.reader(topic)
    producer.send(b"after")
    return rest(reader)


def the_last_message_id(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic)
    w.producer(topic).send(b"a")
    return attempt(consumer.get_last_message_id)


def unsubscribing(w: World) -> Outcome:
    topic = w.unstored_topic()
    w.producer(topic)
    consumer = w.consumer(topic)
    before = w.admin("GET", f"{topic_path(topic)}/subscriptions").body
    return [before, attempt(consumer.unsubscribe), w.admin("GET", f"{topic_path(topic)}/subscriptions").body]


def a_subscription_ends_with_its_last_consumer(w: World) -> Outcome:
    topic = w.unstored_topic()
    w.producer(topic)
    consumers = [w.consumer(topic, kind="Shared", client=w.new_client()) for _ in range(2)]
    subscriptions = []
    for consumer in consumers:
        consumer.close()
        subscriptions.append(w.admin("GET", f"{topic_path(topic)}/subscriptions").body)
    return subscriptions


def exclusive_producers(w: World) -> Outcome:
    topic = w.unstored_topic()
    mode = pulsar.ProducerAccessMode
    first = w.producer(topic, access_mode=mode.Exclusive)
    busy = [
        attempt(w.producer, topic, access_mode=access_mode, client=w.new_client()) for access_mode in (mode.Exclusive, mode.Shared)
    ]
    first.close()
    return [*busy, attempt(w.producer, topic, client=w.new_client())]


def a_message_is_not_deduplicated(w: World) -> Outcome:
    prefix = w.namespace(deduplication=True).replace("persistent://", "non-persistent://")
    consumer = w.consumer(f"{prefix}t")
    producer = w.producer(f"{prefix}t", producer_name="p")
    for text in "ab":
        producer.send(text.encode(), sequence_id=5)
    return texts(consumer, 2)


def schemas_are_checked(w: World) -> Outcome:
    topic = w.unstored_topic()

    class Number(pulsar.schema.Record):  # type: ignore[misc]
        value = pulsar.schema.Integer()

    class Text(pulsar.schema.Record):  # type: ignore[misc]
        value = pulsar.schema.String()

    made = attempt(w.producer, topic, schema=pulsar.schema.AvroSchema(Number))
    return [made, attempt(w.producer, topic, schema=pulsar.schema.AvroSchema(Text), client=w.new_client())]


def a_schema_is_shared_with_the_persistent_topic(w: World) -> Outcome:
    topic = w.unstored_topic()
    first = w.producer(topic, schema=pulsar.schema.StringSchema())
    first.send("x")
    answer = w.admin("GET", f"schemas/{topic_path(topic).partition('/')[2]}/schema")
    return [answer.status, answer.body.get("type")]


def a_burst_of_one_producer_is_delivered(w: World) -> Outcome:
    """Pulsar limits what is pending on a connection, and nothing is."""
    topic = w.unstored_topic()
    consumer = w.consumer(topic, receiver_queue_size=20_000)
    producer = w.producer(topic, max_pending_messages=20_000, block_if_queue_full=True)
    sent: list[tuple[int, int]] = []
    for number in range(5_000):
        producer.send_async(str(number).encode(), lambda _, sent_as: sent.append((sent_as.ledger_id(), sent_as.entry_id())))
    producer.flush()
    return [sorted(set(sent)), len(sent), len(rest(consumer))]


def a_dispatch_rate(w: World) -> Outcome:
    """Whether all of a burst is delivered, or a few of it."""
    topic = f"non-{w.namespace(dispatchRate={'dispatchThrottlingRateInMsg': 10, 'ratePeriodInSecond': 1})}t"
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    for number in range(50):
        producer.send_async(str(number).encode(), None)
    producer.flush()
    count = len(rest(consumer))
    return "all" if count == 50 else "a few" if 0 < count < 40 else count
