"""Readers: where they begin, what they say is there, and what they leave behind."""

from __future__ import annotations

import pulsar

from tests.compat.scenarios.values import attempt, rest, shapes, take, take_without_queue, texts
from tests.compat.scenarios.world import Outcome, World, topic_path

_EARLIEST, _LATEST = pulsar.MessageId.earliest, pulsar.MessageId.latest


def from_the_start(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, *"abc")
    return rest(w.reader(topic))


def from_the_end(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a")
    reader = w.reader(topic, _LATEST)
    available = reader.has_message_available()
    w.send(topic, "b")
    return [available, rest(reader)]


def from_the_end_inclusive(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a", "b")
    reader = w.reader(topic, _LATEST, start_message_id_inclusive=True)
    return [reader.has_message_available(), rest(reader)]


def from_the_end_inclusive_in_a_batch(w: World) -> Outcome:
    topic = w.topic()
    w.send_batch(topic, *"abc")
    reader = w.reader(topic, _LATEST, start_message_id_inclusive=True)
    return [reader.has_message_available(), rest(reader)]


def after_a_message(w: World) -> Outcome:
    topic = w.topic()
    ids = w.send(topic, *"abcd")
    return rest(w.reader(topic, ids[1]))


def from_a_message_inclusive(w: World) -> Outcome:
    topic = w.topic()
    ids = w.send(topic, *"abcd")
    return rest(w.reader(topic, ids[1], start_message_id_inclusive=True))


def after_a_message_of_a_batch(w: World) -> Outcome:
    topic = w.topic()
    ids = w.send_batch(topic, *"abcd")
    return rest(w.reader(topic, ids[1]))


def from_a_message_of_a_batch_inclusive(w: World) -> Outcome:
    topic = w.topic()
    ids = w.send_batch(topic, *"abcd")
    return rest(w.reader(topic, ids[2], start_message_id_inclusive=True))


def after_the_last_message(w: World) -> Outcome:
    topic = w.topic()
    ids = w.send(topic, "a", "b")
    reader = w.reader(topic, ids[1])
    available = reader.has_message_available()
    w.send(topic, "c")
    return [available, reader.has_message_available(), rest(reader)]


def an_empty_topic(w: World) -> Outcome:
    reader = w.reader(w.topic())
    return [reader.has_message_available(), attempt(lambda: reader.read_next(200))]


def what_is_available(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, *"abc")
    reader = w.reader(topic)
    payloads = []
    while reader.has_message_available():
        payloads += texts(reader, 1)
    w.send(topic, "d")
    return [payloads, reader.has_message_available(), texts(reader, 1), reader.has_message_available()]


def what_is_available_in_batches(w: World) -> Outcome:
    topic = w.topic()
    w.send_batch(topic, *"abc")
    w.send_batch(topic, *"de")
    reader = w.reader(topic)
    payloads = []
    while reader.has_message_available():
        payloads += texts(reader, 1)
    return payloads


def they_leave_no_subscription(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a")
    reader = w.reader(topic)
    texts(reader, 1)
    during = len(w.admin("GET", f"{topic_path(topic)}/subscriptions").body)
    reader.close()
    return [during, w.settled(lambda: w.admin("GET", f"{topic_path(topic)}/subscriptions").body, [])]


def their_names(w: World) -> Outcome:
    topic = w.topic()
    w.reader(topic, reader_name="me", subscription_role_prefix="role")
    subscriptions = w.stats(topic)["subscriptions"]
    return sorted(
        [name.startswith("role-"), subscription["isDurable"], subscription["type"], subscription["consumers"][0]["consumerName"]]
        for name, subscription in subscriptions.items()
    )


def two_do_not_know_each_other(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, *"abc")
    first, second = w.reader(topic), w.reader(topic)
    return [texts(first, 3), texts(second, 3)]


def beside_a_subscription(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, "a", "b")
    texts(w.reader(topic), 2)
    return [w.backlog(topic), rest(consumer)]


def seek_to_the_start(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, *"abc")
    reader = w.reader(topic)
    texts(reader, 3)
    reader.seek(_EARLIEST)
    return rest(reader)


def seek_to_the_end(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, *"abc")
    reader = w.reader(topic)
    texts(reader, 1)
    reader.seek(_LATEST)
    available = reader.has_message_available()
    w.send(topic, "d")
    return [available, rest(reader)]


def seek_to_a_message(w: World) -> Outcome:
    topic = w.topic()
    ids = w.send(topic, *"abcd")
    reader = w.reader(topic)
    reader.seek(ids[1])
    return rest(reader)


def seek_to_a_message_inclusive(w: World) -> Outcome:
    topic = w.topic()
    ids = w.send(topic, *"abcd")
    reader = w.reader(topic, start_message_id_inclusive=True)
    reader.seek(ids[1])
    return rest(reader)


def seek_to_the_beginning_of_time(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, *"ab")
    reader = w.reader(topic)
    texts(reader, 2)
    reader.seek(1)
    return rest(reader)


def no_receiver_queue(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, *"ab")
    reader = w.reader(topic, receiver_queue_size=0)
    return [take_without_queue(reader, 2), attempt(reader.has_message_available)]


def a_partition(w: World) -> Outcome:
    topic = w.partitioned(2)
    producer = w.producer(topic, message_router=lambda message, _: int(message.data()) % 2)
    for number in range(4):
        producer.send(str(number).encode())
    return rest(w.reader(f"{topic}-partition-1"))


def a_partitioned_topic(w: World) -> Outcome:
    topic = w.partitioned(2)
    producer = w.producer(topic)
    for number in range(4):
        producer.send(str(number).encode())
    reader = w.reader(topic)
    payloads = []
    while reader.has_message_available():
        payloads += texts(reader, 1)
    return sorted(payloads)


def the_ids_of_what_is_read(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a")
    w.send_batch(topic, *"bc")
    return shapes(message.message_id() for message in take(w.reader(topic), 3))


def a_terminated_topic(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a")
    w.admin("POST", f"{topic_path(topic)}/terminate")
    reader = w.reader(topic)
    return [texts(reader, 1), reader.has_message_available()]


def they_go_on_after_unloading(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a", "b")
    reader = w.reader(topic)
    first = texts(reader, 1)
    w.admin("PUT", f"{topic_path(topic)}/unload")
    w.send(topic, "c")
    return [first, rest(reader, 1500)]


def the_past_before_the_first_message(w: World) -> Outcome:
    topic = w.topic()
    ids = w.send(topic, "a", "b")
    before = pulsar.MessageId(-1, ids[0].ledger_id() - 1, 0, -1)
    return rest(w.reader(topic, before))


def a_position_that_is_still_to_come(w: World) -> Outcome:
    topic = w.topic()
    ids = w.send(topic, "a", "b")
    reader = w.reader(topic, pulsar.MessageId(-1, ids[0].ledger_id() + 1000, 0, -1))
    w.send(topic, "c")
    return rest(reader)
