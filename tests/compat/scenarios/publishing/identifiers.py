"""Message ids: their shape, their order, and the id of the last message."""

from __future__ import annotations

from itertools import pairwise

import pulsar

from tests.compat.scenarios.values import shapes, take
from tests.compat.scenarios.world import Outcome, World, topic_path


def of_single_messages(w: World) -> Outcome:
    return shapes(w.send(w.topic(), "a", "b", "c"))


def of_a_batch(w: World) -> Outcome:
    return shapes(w.send_batch(w.topic(), "a", "b", "c"))


def of_a_batch_of_one(w: World) -> Outcome:
    return shapes(w.send_batch(w.topic(), "a"))


def of_batches_and_single_messages(w: World) -> Outcome:
    topic = w.topic()
    return shapes([*w.send(topic, "a"), *w.send_batch(topic, "b", "c"), *w.send(topic, "d")])


def of_received_messages(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, "a")
    w.send_batch(topic, "b", "c")
    return shapes(message.message_id() for message in take(consumer, 3))


def receipts_and_messages_agree(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    sent = [*w.send(topic, "a"), *w.send_batch(topic, "b", "c")]
    return [str(message_id) for message_id in sent] == [str(message.message_id()) for message in take(consumer, 3)]


def of_partitions(w: World) -> Outcome:
    topic = w.partitioned(2)
    consumer = w.consumer(topic)
    producer = w.producer(topic, message_router=lambda message, count: 1)
    sent = shapes([producer.send(b"x"), producer.send(b"y")])
    return [sent, shapes(message.message_id() for message in take(consumer, 2))]


def of_one_partition_used_directly(w: World) -> Outcome:
    topic = f"{w.partitioned(2)}-partition-1"
    consumer = w.consumer(topic)
    return [shapes(w.send(topic, "x")), shapes(message.message_id() for message in take(consumer, 1))]


def they_are_ordered(w: World) -> Outcome:
    topic = w.topic()
    ids = [*w.send(topic, "a", "b"), *w.send_batch(topic, "c", "d")]
    return [earlier < later for earlier, later in pairwise(ids)]


def they_survive_being_written_down(w: World) -> Outcome:
    topic = w.topic()
    identifier = w.send_batch(topic, "a", "b", "c")[1]
    again = pulsar.MessageId.deserialize(identifier.serialize())
    return [again == identifier, shapes([again])]


def the_last_of_an_empty_topic(w: World) -> Outcome:
    return shapes([w.consumer(w.topic()).get_last_message_id()])


def the_last_of_single_messages(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, "a", "b")
    return shapes([consumer.get_last_message_id()])


def the_last_of_a_batch(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send_batch(topic, "a", "b", "c")
    return shapes([consumer.get_last_message_id()])


def the_last_when_all_is_acknowledged(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, "a", "b")
    take(consumer, 2, acknowledge=True)
    w.settled(lambda: w.backlog(topic), 0)
    return shapes([consumer.get_last_message_id()])


def the_last_over_the_admin_api(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a")
    single = w.admin("GET", f"{topic_path(topic)}/lastMessageId").body
    w.send_batch(topic, "b", "c")
    batch = w.admin("GET", f"{topic_path(topic)}/lastMessageId").body
    return [[answer.get(name) for name in ("entryId", "partitionIndex", "batchIndex")] for answer in (single, batch)]


def the_last_after_the_topic_was_unloaded(w: World) -> Outcome:
    topic = w.topic()
    sent = w.send(topic, "a", "b")
    w.admin("PUT", f"{topic_path(topic)}/unload")
    last = w.consumer(topic).get_last_message_id()
    return [shapes([last]), (last.ledger_id(), last.entry_id()) == (sent[1].ledger_id(), sent[1].entry_id())]


def a_new_ledger_after_unloading(w: World) -> Outcome:
    topic = w.topic()
    producer = w.producer(topic)
    ids = [producer.send(b"a"), producer.send(b"b")]
    w.admin("PUT", f"{topic_path(topic)}/unload")
    ids.append(producer.send(b"c"))
    return [shapes(ids), ids[2].ledger_id() > ids[1].ledger_id()]
