"""Acknowledgements: what comes again afterwards, and what is left of the backlog."""

from __future__ import annotations

import pulsar

from tests.compat.scenarios.values import attempt, rest, take
from tests.compat.scenarios.world import Outcome, World, topic_path


def _again(w: World, topic: str, kind: str = "Exclusive") -> list[str]:
    return rest(w.consumer(topic, kind=kind))


def one_by_one(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abcd")
    for message in take(consumer, 4)[:2]:
        consumer.acknowledge(message)
    consumer.close()
    return _again(w, topic)


def holes(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abcdef")
    messages = take(consumer, 6)
    for index in (5, 1, 3):
        consumer.acknowledge(messages[index])
    consumer.close()
    return _again(w, topic)


def holes_survive_unloading(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abcdef")
    messages = take(consumer, 6)
    for index in (4, 2):
        consumer.acknowledge(messages[index])
    w.settled(lambda: w.backlog(topic), 4)
    consumer.close()
    w.admin("PUT", f"{topic_path(topic)}/unload")
    return _again(w, topic)


def cumulatively(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abcde")
    consumer.acknowledge_cumulative(take(consumer, 5)[2])
    consumer.close()
    return _again(w, topic)


def cumulatively_over_holes(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abcdef")
    messages = take(consumer, 6)
    consumer.acknowledge(messages[4])
    consumer.acknowledge_cumulative(messages[2])
    consumer.close()
    return _again(w, topic)


def cumulatively_backwards(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abcd")
    messages = take(consumer, 4)
    consumer.acknowledge_cumulative(messages[2])
    consumer.acknowledge_cumulative(messages[0])
    consumer.close()
    return _again(w, topic)


def by_id_alone(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    ids = w.send(topic, *"abc")
    take(consumer, 3)
    consumer.acknowledge(ids[0])
    consumer.acknowledge(ids[2])
    consumer.close()
    return _again(w, topic)


def by_an_id_that_was_written_down(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    ids = w.send(topic, *"abc")
    take(consumer, 3)
    consumer.acknowledge(pulsar.MessageId.deserialize(ids[1].serialize()))
    consumer.close()
    return _again(w, topic)


def twice(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, "a", "b")
    messages = take(consumer, 2)
    results = [attempt(lambda: consumer.acknowledge(messages[0])) for _ in range(2)]
    left = w.settled(lambda: w.backlog(topic), 1)
    consumer.close()
    return [results, left, _again(w, topic)]


def before_it_was_received(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, receiver_queue_size=1)
    ids = w.send(topic, *"abcd")
    consumer.acknowledge(ids[3])
    w.settled(lambda: w.backlog(topic), 3)
    consumer.close()
    return _again(w, topic)


def of_the_last_id(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abc")
    take(consumer, 3)
    consumer.acknowledge_cumulative(consumer.get_last_message_id())
    return w.settled(lambda: w.backlog(topic), 0)


def on_two_subscriptions(w: World) -> Outcome:
    topic = w.topic()
    first, second = w.consumer(topic, "one"), w.consumer(topic, "two")
    w.send(topic, "a", "b")
    for message in take(first, 2):
        first.acknowledge(message)
    w.settled(lambda: w.backlog(topic, "one"), 0)
    return [w.backlog(topic, "one"), w.backlog(topic, "two"), rest(second)]


def the_backlog_counts_down(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abcd")
    backlogs = [w.backlog(topic)]
    for number, message in enumerate(take(consumer, 4), 1):
        consumer.acknowledge(message)
        backlogs.append(w.settled(lambda: w.backlog(topic), 4 - number))
    return backlogs


def the_backlog_counts_messages_of_batches(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send_batch(topic, *"abcd")
    w.send(topic, "e")
    before = w.backlog(topic)
    messages = take(consumer, 5)
    for message in messages[:2]:
        consumer.acknowledge(message)
    consumer.acknowledge(messages[4])
    return [before, w.settled(lambda: w.backlog(topic), 1)]


def of_a_batch_all_at_once(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send_batch(topic, *"abc")
    w.send_batch(topic, *"def")
    messages = take(consumer, 6)
    consumer.acknowledge_cumulative(messages[2])
    consumer.close()
    return _again(w, topic)


def in_the_middle_of_a_batch_cumulatively(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send_batch(topic, *"abc")
    w.send_batch(topic, *"def")
    consumer.acknowledge_cumulative(take(consumer, 6)[4])
    consumer.close()
    return _again(w, topic)


def on_partitions(w: World) -> Outcome:
    topic = w.partitioned(2)
    consumer = w.consumer(topic)
    producer = w.producer(topic, message_router=lambda message, _: int(message.data()) % 2)
    for number in range(6):
        producer.send(str(number).encode())
    for message in take(consumer, 6):
        if int(message.data()) < 3:
            consumer.acknowledge(message)
    consumer.close()
    return sorted(_again(w, topic))


def the_unacknowledged_are_counted(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    w.send(topic, *"abc")
    messages = take(consumer, 3)

    def unacknowledged() -> list[int]:
        stats = w.subscription_stats(topic)
        return [stats["unackedMessages"], stats["consumers"][0]["unackedMessages"]]

    before = unacknowledged()
    consumer.acknowledge(messages[0])
    return [before, w.settled(unacknowledged, [2, 2])]


def closing_sends_what_was_grouped(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *map(str, range(100)))
    for message in take(consumer, 100):
        consumer.acknowledge(message)
    consumer.close()
    return [w.backlog(topic), _again(w, topic)]


def after_the_topic_was_unloaded(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, "a", "b")
    messages = take(consumer, 2)
    w.admin("PUT", f"{topic_path(topic)}/unload")
    again = take(consumer, 2)
    consumer.acknowledge(messages[0])
    consumer.acknowledge(again[1])
    return [[message.data().decode() for message in again], w.settled(lambda: w.backlog(topic), 0)]
