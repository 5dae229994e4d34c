"""The list. A scenario is a function of a `Stage`; what it returns is JSON, without what differs from run to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.compat.both_clients.clients import CRYPTO_FAILURES, EARLIEST, SCHEMAS, SILENCE_S, Client, Receiver, Seen, attempt
from tests.compat.scenarios import World

EVENT_MS = 1_600_000_000_123


class Stage:
    """`make` makes a client with a connection of its own."""

    def __init__(self, make: Callable[[], Client], world: World) -> None:
        self._make = make
        self._world = world
        self._clients: list[Client] = []
        self.client = self.another()

    def another(self) -> Client:
        client = self._make()
        self._clients.append(client)
        return client

    def topic(self, suffix: str = "t") -> str:
        return self._world.topic(suffix)

    def partitioned(self, partitions: int) -> str:
        return self._world.partitioned(partitions)

    def all_acknowledged(self, topic: str) -> bool:
        """Whether nothing of the consumers' subscription is left; waits for acknowledgements that are on their way."""
        return self._world.settled(lambda: self._world.backlog(topic), 0, 10) == 0

    def backlog(self, topic: str, name: str, wanted: int) -> int:
        """Of a subscription; waits a little for what is wanted."""
        return int(self._world.settled(lambda: self._world.backlog(topic, name), wanted, 10))

    def close(self) -> None:
        for client in self._clients:
            client.close()


def take(receiver: Receiver, count: int, *, ack: bool = True) -> list[Seen]:
    """The next `count`; fewer if they do not come."""
    seen: list[Seen] = []
    while len(seen) < count and (message := receiver.receive()) is not None:
        if ack:
            receiver.ack(message)
        seen.append(message)
    return seen


def texts(messages: Sequence[Seen]) -> list[str]:
    return [message.text for message in messages]


def nothing_more(receiver: Receiver) -> bool:
    return receiver.receive(SILENCE_S) is None


def shape(ids: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Entries counted from the first, and indexes in batches."""
    return [(entry - ids[0][1], index) for _, entry, index in ids]


# --- sending -----------------------------------------------------------------------------------------------------------------


def a_message_with_all_that_it_may_have(stage: Stage) -> Any:
    topic = stage.topic()
    consumer, producer = stage.client.consumer(topic), stage.client.producer(topic)
    sent = producer.send("größe", key="schlüssel", properties={"a": "1", "ü": ""}, event_time_ms=EVENT_MS)
    [seen] = take(consumer, 1)
    return [seen.id == sent, seen.text, seen.key, sorted(seen.properties.items()), seen.event_time_ms, seen.redeliveries]


def a_message_with_nothing(stage: Stage) -> Any:
    topic = stage.topic()
    consumer, producer = stage.client.consumer(topic), stage.client.producer(topic)
    producer.send("")
    [seen] = take(consumer, 1)
    return [seen.text, seen.key, seen.properties, seen.event_time_ms, seen.id[2]]


def ids_of_single_messages(stage: Stage) -> Any:
    topic = stage.topic()
    consumer, producer = stage.client.consumer(topic), stage.client.producer(topic)
    ids = [producer.send(f"{number}") for number in range(5)]
    seen = take(consumer, 5)
    return [shape(ids), texts(seen), [message.id for message in seen] == ids]


def ids_of_batches(stage: Stage) -> Any:
    topic = stage.topic()
    consumer, producer = stage.client.consumer(topic), stage.client.producer(topic, batch=3)
    ids = producer.send_batch([f"{number}" for number in range(6)])
    seen = take(consumer, 6)
    return [shape(ids), texts(seen), [message.id for message in seen] == ids]


def every_compression(stage: Stage) -> Any:
    outcome = {}
    for compression in ("none", "lz4", "zlib", "zstd", "snappy"):
        topic = stage.topic(compression)
        consumer = stage.client.consumer(topic)
        single, batching = (
            stage.client.producer(topic, compression=compression),
            stage.client.producer(topic, compression=compression, batch=2),
        )
        single.send("a" * 1_000)
        batching.send_batch(["b" * 1_000, "c" * 1_000])
        outcome[compression] = [(message.text[:1], len(message.text)) for message in take(consumer, 3)]
    return outcome


def every_schema(stage: Stage) -> Any:
    outcome = {}
    for schema in SCHEMAS:
        topic = stage.topic(schema)
        producer = stage.client.producer(topic, schema=schema)
        consumer = stage.client.consumer(topic, schema=schema, initial="earliest")
        producer.send("größe")
        producer.close()
        stage.client.producer(topic, schema=schema, batch=2).send_batch(["a", ""])
        outcome[schema] = texts(take(consumer, 3))
    other = stage.topic("other")
    stage.client.producer(other, schema="json")
    outcome["refused"] = [
        attempt(stage.another().producer, other, schema="string"),
        attempt(stage.another().consumer, other, schema="avro"),
    ]
    return outcome


def chunks(stage: Stage) -> Any:
    topic = stage.topic()
    consumer, producer = stage.client.consumer(topic), stage.client.producer(topic, chunking=True)
    large = "0123456789" * 1_200_000
    producer.send(large, key="k", properties={"a": "1"})
    producer.send("small")
    seen = take(consumer, 2)
    return [[message.text == large, message.text[:5], message.key, message.properties] for message in seen]


def too_large(stage: Stage) -> Any:
    producer = stage.client.producer(stage.topic())
    return [attempt(producer.send, "x" * (6 << 20)), attempt(producer.send, "x")]


def an_exclusive_producer(stage: Stage) -> Any:
    topic = stage.topic()
    first = stage.client.producer(topic, access="exclusive")
    outcome = [attempt(stage.another().producer, topic, access=access) for access in ("shared", "exclusive")]
    first.close()
    return [*outcome, attempt(stage.another().producer, topic)]


def keys_over_partitions(stage: Stage) -> Any:
    """In which one is the client's choice: Apache's in Python has no hash that others have."""
    topic = stage.partitioned(3)
    producer = stage.client.producer(topic)
    keys = ["a", "b", "customer-7", "größe", "0", "1", "2", "3"]
    for number in range(3):
        for key in keys:
            producer.send(f"{number}", key=key)
    partitions = [stage.client.reader(f"{topic}-partition-{index}") for index in range(3)]
    outcome: dict[str, list[str]] = {}
    places = set()
    for index, reader in enumerate(partitions):
        while (message := reader.receive(4 * SILENCE_S)) is not None:
            outcome.setdefault(message.key, []).append(message.text)
            places.add((message.key, index))
    return [sorted(outcome.items()), len(places) == len(keys)]


# --- encryption --------------------------------------------------------------------------------------------------------------


def encrypted_messages(stage: Stage) -> Any:
    """Alone, in batches, compressed before, in chunks and with a schema."""
    outcome: dict[str, Any] = {}
    for compression in ("none", "zstd"):
        topic = stage.topic(compression)
        consumer = stage.client.consumer(topic, decryption="reader")
        single = stage.client.producer(topic, encryption="reader", compression=compression)
        single.send("größe", key="k", properties={"a": "1"})
        batching = stage.client.producer(topic, encryption="reader", compression=compression, batch=2)
        batching.send_batch(["b" * 1_000, ""])
        outcome[compression] = [(seen.text[:9], len(seen.text), seen.key, seen.properties) for seen in take(consumer, 3)]
        outcome[f"read {compression}"] = len(take(stage.client.reader(topic, decryption="reader"), 3, ack=False))
    topic, large = stage.topic("chunks"), "0123456789" * 600_000
    consumer = stage.client.consumer(topic, decryption="reader")
    stage.client.producer(topic, encryption="reader", chunking=True).send(large)
    outcome["chunks"] = [seen.text == large for seen in take(consumer, 1)]
    topic = stage.topic("schema")
    consumer = stage.client.consumer(topic, decryption="reader", schema="avro")
    stage.client.producer(topic, encryption="reader", schema="avro", batch=2).send_batch(["a", "b"])
    outcome["schema"] = texts(take(consumer, 2))
    return outcome


def encrypted_messages_for_somebody_else(stage: Stage) -> Any:
    """Without a key, and with one that does not fit. What is not encrypted is read all the same."""
    topic = stage.topic()
    for keys in ({}, {"decryption": "stranger"}):
        for failure in CRYPTO_FAILURES:
            stage.client.consumer(topic, f"{len(keys)}-{failure}", **keys).close()
    stage.client.producer(topic, encryption="reader").send("secret", key="k")
    stage.client.producer(topic).send("open")
    outcome: dict[str, Any] = {}
    for keys in ({}, {"decryption": "stranger"}):
        for failure in CRYPTO_FAILURES:
            name = f"{len(keys)}-{failure}"
            consumer = stage.another().consumer(topic, name, crypto_failure=failure, **keys)
            seen = take(consumer, 2 if failure == "consume" else 1)
            outcome[name] = [
                [(message.text in ("secret", "open"), message.key) for message in seen],
                nothing_more(consumer),
                stage.backlog(topic, name, int(failure == "fail")),
            ]
    batches = stage.topic("batch")
    consumer = stage.client.consumer(batches, crypto_failure="consume")
    stage.client.producer(batches, encryption="reader", batch=2, compression="lz4").send_batch(["a", "b"])
    outcome["batch"] = [len(take(consumer, 1)), nothing_more(consumer), stage.backlog(batches, "s", 0)]
    return outcome


def a_key_that_comes_later(stage: Stage) -> Any:
    topic = stage.topic()
    without = stage.client.consumer(topic)
    stage.client.producer(topic, encryption="reader").send("secret")
    outcome = [nothing_more(without)]
    without.close()
    return [*outcome, texts(take(stage.client.consumer(topic, decryption="reader"), 1))]


# --- receiving ---------------------------------------------------------------------------------------------------------------


def where_a_subscription_begins(stage: Stage) -> Any:
    topic = stage.topic()
    producer = stage.client.producer(topic)
    producer.send("before")
    latest, earliest = (
        stage.client.consumer(topic, "latest", initial="latest"),
        stage.client.consumer(topic, "earliest", initial="earliest"),
    )
    producer.send("after")
    return [texts(take(latest, 1)), texts(take(earliest, 2)), nothing_more(latest)]


def one_exclusive_consumer(stage: Stage) -> Any:
    topic = stage.topic()
    consumer = stage.client.consumer(topic)
    outcome = [attempt(stage.another().consumer, topic, "s", kind) for kind in ("exclusive", "shared", "failover")]
    consumer.close()
    return [*outcome, attempt(stage.another().consumer, topic)]


def what_was_not_acknowledged_comes_again(stage: Stage) -> Any:
    topic = stage.topic()
    consumer, producer = stage.client.consumer(topic, kind="shared"), stage.client.producer(topic)
    for number in range(4):
        producer.send(f"{number}")
    seen = take(consumer, 4, ack=False)
    consumer.ack(seen[1])
    consumer.ack(seen[2])
    consumer.close()
    again = stage.client.consumer(topic, kind="shared")
    return [sorted((message.text, message.redeliveries) for message in take(again, 2)), nothing_more(again)]


def part_of_a_batch_is_acknowledged(stage: Stage) -> Any:
    topic = stage.topic()
    consumer, producer = stage.client.consumer(topic, kind="shared"), stage.client.producer(topic, batch=4)
    producer.send_batch(["0", "1", "2", "3"])
    seen = take(consumer, 4, ack=False)
    consumer.ack(seen[0])
    consumer.ack(seen[2])
    consumer.close()
    again = stage.client.consumer(topic, kind="shared")
    return [texts(take(again, 2)), nothing_more(again)]


def cumulative_acknowledgements(stage: Stage) -> Any:
    topic = stage.topic()
    consumer, producer = stage.client.consumer(topic), stage.client.producer(topic)
    for number in range(5):
        producer.send(f"{number}")
    seen = take(consumer, 4, ack=False)
    consumer.ack_cumulative(seen[2])
    consumer.close()
    again = stage.client.consumer(topic)
    return [texts(take(again, 2)), nothing_more(again)]


def negative_acknowledgements(stage: Stage) -> Any:
    topic = stage.topic()
    consumer, producer = stage.client.consumer(topic, kind="shared", nack_delay_s=0.1), stage.client.producer(topic)
    producer.send("a")
    producer.send("b")
    first, second = take(consumer, 2, ack=False)
    consumer.ack(second)
    counts = [first.redeliveries]
    for _ in range(2):
        consumer.nack(first)
        [first] = take(consumer, 1, ack=False)
        counts.append(first.redeliveries)
    return [first.text, counts]


def dead_letters(stage: Stage) -> Any:
    topic = stage.topic()
    consumer = stage.client.consumer(topic, kind="shared", nack_delay_s=0.1, dead_after=2)
    producer = stage.client.producer(topic)
    producer.send("poison", key="k", properties={"a": "1"})
    counts = []
    for _ in range(3):
        [seen] = take(consumer, 1, ack=False)
        counts.append(seen.redeliveries)
        consumer.nack(seen)
    letters = stage.another().consumer(f"{topic}-s-DLQ", "kept", "shared", initial="earliest")
    [letter] = take(letters, 1)
    # Apache's client (3.13) crashes when it closes before the receipt of a dead letter has come.
    assert stage.all_acknowledged(topic)
    return [counts, letter.text, letter.key, letter.properties["a"], letter.properties["REAL_TOPIC"] == topic]


def shared_consumers_divide(stage: Stage) -> Any:
    topic = stage.topic()
    consumers = [client.consumer(topic, kind="shared") for client in (stage.client, stage.another())]
    producer = stage.client.producer(topic)
    for number in range(10):
        producer.send(f"{number}")
    parts: list[list[str]] = [[], []]
    for part, consumer in zip(parts, consumers, strict=True):
        while (message := consumer.receive(4 * SILENCE_S)) is not None:
            consumer.ack(message)
            part.append(message.text)
    return [sorted(parts[0] + parts[1]), all(parts)]


def keys_stay_with_their_consumer(stage: Stage) -> Any:
    topic = stage.topic()
    consumers = [client.consumer(topic, kind="key_shared") for client in (stage.client, stage.another())]
    producer = stage.client.producer(topic)
    for number in range(20):
        producer.send(f"{number}", key=f"k{number % 5}")
    seen: list[list[Seen]] = [[], []]
    for index, consumer in enumerate(consumers):
        while (message := consumer.receive(4 * SILENCE_S)) is not None:
            consumer.ack(message)
            seen[index].append(message)
    keys = [{message.key for message in messages} for messages in seen]
    in_order = all(
        [message.text for message in messages if message.key == key] == [f"{number}" for number in range(int(key[1]), 20, 5)]
        for messages, whose in zip(seen, keys, strict=True)
        for key in whose
    )
    return [sum(map(len, seen)), not keys[0] & keys[1], in_order]


def failover_takes_over(stage: Stage) -> Any:
    topic = stage.topic()
    first = stage.client.consumer(topic, kind="failover")
    producer = stage.client.producer(topic)
    producer.send("0")
    before = texts(take(first, 1))
    first.close()
    second = stage.another().consumer(topic, kind="failover")
    producer.send("1")
    return [before, texts(take(second, 1)), nothing_more(second)]


# --- positions ---------------------------------------------------------------------------------------------------------------


def seeking(stage: Stage) -> Any:
    topic = stage.topic()
    consumer, producer = stage.client.consumer(topic), stage.client.producer(topic)
    for number in range(5):
        producer.send(f"{number}")
    seen = take(consumer, 5)
    outcome = []
    for target in (seen[2], EARLIEST, 1):
        consumer.seek(target)
        outcome.append(texts(take(consumer, 2, ack=False)))
    return outcome


def seeking_into_a_batch(stage: Stage) -> Any:
    topic = stage.topic()
    consumer, producer = stage.client.consumer(topic), stage.client.producer(topic, batch=4)
    producer.send_batch(["0", "1", "2", "3"])
    stage.client.producer(topic).send("4")
    seen = take(consumer, 5)
    outcome = []
    for target in (seen[1], seen[3]):
        consumer.seek(target)
        outcome.append(texts(take(consumer, 1, ack=False)))
    return outcome


def readers(stage: Stage) -> Any:
    topic = stage.topic()
    producer = stage.client.producer(topic)
    for number in range(4):
        producer.send(f"{number}")
    seen = take(stage.client.reader(topic), 4, ack=False)
    after = stage.client.reader(topic, seen[1])
    at = stage.client.reader(topic, seen[1], inclusive=True)
    return [texts(seen), texts(take(after, 2, ack=False)), texts(take(at, 3, ack=False)), nothing_more(at)]


def a_reader_within_a_batch(stage: Stage) -> Any:
    topic = stage.topic()
    stage.client.producer(topic, batch=4).send_batch(["0", "1", "2", "3"])
    seen = take(stage.client.reader(topic), 4, ack=False)
    after = stage.client.reader(topic, seen[1])
    return [texts(take(after, 2, ack=False)), nothing_more(after)]


SCENARIOS: dict[str, Callable[[Stage], Any]] = {
    scenario.__name__: scenario
    for scenario in (
        a_message_with_all_that_it_may_have,
        a_message_with_nothing,
        ids_of_single_messages,
        ids_of_batches,
        every_compression,
        every_schema,
        chunks,
        too_large,
        an_exclusive_producer,
        keys_over_partitions,
        encrypted_messages,
        encrypted_messages_for_somebody_else,
        a_key_that_comes_later,
        where_a_subscription_begins,
        one_exclusive_consumer,
        what_was_not_acknowledged_comes_again,
        part_of_a_batch_is_acknowledged,
        cumulative_acknowledgements,
        negative_acknowledgements,
        dead_letters,
        shared_consumers_divide,
        keys_stay_with_their_consumer,
        failover_takes_over,
        seeking,
        seeking_into_a_batch,
        readers,
        a_reader_within_a_batch,
    )
}
