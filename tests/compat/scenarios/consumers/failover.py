"""Failover subscriptions: one consumer works, the next one takes over where it stood."""

from __future__ import annotations

import pulsar

from tests.compat.scenarios.values import in_turns, received, rest, take, texts
from tests.compat.scenarios.world import Outcome, World


def _join(w: World, topic: str, name: str) -> pulsar.Consumer:
    return w.consumer(topic, kind="Failover", consumer_name=name, client=w.new_client())


def _all(w: World, topic: str, names: str) -> dict[str, pulsar.Consumer]:
    return {name: _join(w, topic, name) for name in names}


def _pair(w: World, topic: str) -> tuple[pulsar.Consumer, pulsar.Consumer]:
    """Two consumers: the one that works, and the one that waits."""
    consumers = _all(w, topic, "ab")
    w.send(topic, "probe")
    working = next(name for name, payloads in in_turns(consumers, 1).items() if payloads)
    return consumers.pop(working), next(iter(consumers.values()))


def one_gets_everything(w: World) -> Outcome:
    topic = w.topic()
    consumers = _all(w, topic, "ab")
    w.send(topic, *map(str, range(6)))
    return sorted(in_turns(consumers, 6).values())


def who_works(w: World) -> Outcome:
    """On a topic without partitions its name and theirs decide."""
    topic = w.fixed_topic()
    consumers = _all(w, topic, "ab")
    w.send(topic, *map(str, range(4)))
    return in_turns(consumers, 4)


def who_works_when_they_come_in_another_order(w: World) -> Outcome:
    topic = w.fixed_topic()
    consumers = _all(w, topic, "dbca")
    w.send(topic, *map(str, range(4)))
    return in_turns(consumers, 4)


def who_takes_over(w: World) -> Outcome:
    topic = w.fixed_topic()
    consumers = _all(w, topic, "cadb")
    active = []
    while len(consumers) > 1:
        w.send(topic, "x")
        working = next(name for name, texts in in_turns(consumers, 1).items() if texts)
        active.append(working)
        consumers.pop(working).close()
    return active


def unacknowledged_messages_come_again_after_the_change(w: World) -> Outcome:
    topic = w.topic()
    working, waiting = _pair(w, topic)
    w.send(topic, *"abcd")
    messages = take(working, 3)
    working.acknowledge(messages[0])
    working.close()
    return [received(messages), received(take(waiting, 3, acknowledge=True)), rest(waiting)]


def holes_stay_holes_after_the_change(w: World) -> Outcome:
    topic = w.topic()
    working, waiting = _pair(w, topic)
    w.send(topic, *"abcd")
    messages = take(working, 4)
    working.acknowledge(messages[1])
    working.acknowledge(messages[3])
    w.settled(lambda: w.backlog(topic), 2)
    working.close()
    return texts(waiting, 2)


def the_waiting_one_may_leave(w: World) -> Outcome:
    topic = w.topic()
    working, waiting = _pair(w, topic)
    waiting.close()
    w.send(topic, "x", "y")
    return texts(working, 2)


def cumulative_acknowledgements(w: World) -> Outcome:
    topic = w.topic()
    working, waiting = _pair(w, topic)
    w.send(topic, *"abcd")
    working.acknowledge_cumulative(take(working, 3)[2])
    working.close()
    return texts(waiting, 1)


def partitions_among_two(w: World) -> Outcome:
    return _partitions(w, 4, "ab")


def partitions_among_three(w: World) -> Outcome:
    return _partitions(w, 5, "cab")


def more_consumers_than_partitions(w: World) -> Outcome:
    return _partitions(w, 2, "abcd")


def _partitions(w: World, count: int, names: str) -> Outcome:
    """Who works on which partition."""
    topic = w.partitioned(count)
    consumers = _all(w, topic, names)
    producer = w.producer(topic, message_router=lambda message, _: int(message.data()))

    def who() -> dict[str, list[str]]:
        for number in range(count):
            producer.send(str(number).encode())
        by_consumer = in_turns(consumers, count)
        return {name: sorted(texts) for name, texts in sorted(by_consumer.items())}

    return w.settled(who, who())


def partitions_when_one_leaves(w: World) -> Outcome:
    topic = w.partitioned(4)
    consumers = _all(w, topic, "abc")
    consumers.pop("b").close()
    producer = w.producer(topic, message_router=lambda message, _: int(message.data()))
    for number in range(4):
        producer.send(str(number).encode())
    return {name: sorted(texts) for name, texts in in_turns(consumers, 4).items()}


def redelivery_is_not_counted(w: World) -> Outcome:
    topic = w.topic()
    consumer = _join(w, topic, "a")
    w.send(topic, "a", "b")
    first = received(take(consumer, 2))
    consumer.redeliver_unacknowledged_messages()
    return [first, received(take(consumer, 2))]
