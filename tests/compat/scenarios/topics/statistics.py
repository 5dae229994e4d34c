"""Statistics: what the admin API tells of a topic while clients use it."""

from __future__ import annotations

from typing import Any

import pulsar

from tests.compat.scenarios.values import take, texts
from tests.compat.scenarios.world import Outcome, World, send_together, topic_path


def _of(stats: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: stats.get(name) for name in names}


def of_a_producer(w: World) -> Outcome:
    topic = w.topic()
    w.producer(topic, producer_name="p", properties={"team": "blue"}).send(b"x")
    stats = w.stats(topic)
    return _of(stats["publishers"][0], "producerName", "accessMode", "metadata")


def of_counters(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, "a", "b")
    w.send_batch(topic, "c", "d", "e")
    texts(consumer, 5)
    w.settled(lambda: w.backlog(topic), 0)
    stats = w.stats(topic)
    return [
        stats["msgInCounter"],
        stats["msgOutCounter"],
        stats["bytesInCounter"] > 0,
        stats["subscriptions"]["s"]["msgOutCounter"],
    ]


def of_a_subscription(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", receiver_queue_size=10, consumer_name="me", properties={"k": "v"})
    w.send(topic, *"abc")
    messages = take(consumer, 3)
    consumer.acknowledge(messages[0])
    w.settled(lambda: w.backlog(topic), 2)
    stats = w.subscription_stats(topic)
    return [
        _of(stats, "type", "msgBacklog", "unackedMessages", "isDurable", "blockedSubscriptionOnUnackedMsgs", "isReplicated"),
        _of(
            stats["consumers"][0], "consumerName", "unackedMessages", "availablePermits", "metadata", "blockedConsumerOnUnackedMsgs"
        ),
    ]


def of_a_subscription_without_consumers(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic, kind="Shared").close()
    w.send(topic, "a")
    return _of(w.subscription_stats(topic), "type", "msgBacklog", "consumers", "unackedMessages", "activeConsumerName")


def of_failover(w: World) -> Outcome:
    topic = f"{w.partitioned(1)}-partition-0"
    for name in "ab":
        w.consumer(topic, kind="Failover", consumer_name=name, client=w.new_client())
    stats = w.subscription_stats(topic)
    return [stats["activeConsumerName"], stats["type"], sorted(consumer["consumerName"] for consumer in stats["consumers"])]


def of_key_shared(w: World) -> Outcome:
    topic = w.topic()
    policy = pulsar.ConsumerKeySharedPolicy(key_shared_mode=pulsar.KeySharedMode.Sticky, sticky_ranges=[(0, 65_535)])
    w.consumer(topic, kind="KeyShared", key_shared_policy=policy)
    stats = w.subscription_stats(topic)
    return _of(stats, "type", "keySharedMode", "allowOutOfOrderDelivery")


def of_a_reader(w: World) -> Outcome:
    topic = w.topic()
    w.reader(topic)
    stats = next(iter(w.stats(topic)["subscriptions"].values()))
    return _of(stats, "type", "isDurable", "msgBacklog")


def permits_go_down_and_up(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, receiver_queue_size=10)

    def permits() -> int:
        return int(w.subscription_stats(topic)["consumers"][0]["availablePermits"])

    counts = [w.settled(permits, 10)]
    w.send(topic, *map(str, range(4)))
    counts.append(w.settled(permits, 6))
    take(consumer, 4)
    w.send(topic, "x")
    take(consumer, 1)
    counts.append(w.settled(permits, 10))
    return counts


def permits_and_batches(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic, receiver_queue_size=10)
    w.send_batch(topic, *"abcd")
    return w.settled(lambda: w.subscription_stats(topic)["consumers"][0]["availablePermits"], 6)


def of_redeliveries(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100)
    w.send(topic, "a")
    consumer.negative_acknowledge(take(consumer, 1)[0])
    take(consumer, 1)
    return _of(w.subscription_stats(topic), "msgBacklog", "unackedMessages")


def of_partitions_together(w: World) -> Outcome:
    topic = w.partitioned(2)
    w.consumer(topic)
    producer = w.producer(topic)
    for number in range(4):
        producer.send(str(number).encode())
    stats = w.admin("GET", f"{topic_path(topic)}/partitioned-stats?perPartition=true").body
    return [
        stats["msgInCounter"],
        stats["subscriptions"]["s"]["msgBacklog"],
        len(stats["partitions"]),
        stats["metadata"]["partitions"],
    ]


def internal_ones(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic)
    w.send(topic, "a")
    w.send_batch(topic, "b", "c")
    stats = w.admin("GET", f"{topic_path(topic)}/internalStats").body
    return [stats["entriesAddedCounter"], stats["numberOfEntries"], list(stats["cursors"]), stats["state"]]


def nothing_is_left_when_all_are_gone(w: World) -> Outcome:
    topic = w.topic()
    client = w.new_client()
    w.consumer(topic, client=client)
    producer = w.producer(topic, client=client)
    send_together(producer, "a")
    client.close()

    def look() -> list[Any]:
        stats = w.stats(topic)
        return [stats["publishers"], stats["subscriptions"]["s"]["consumers"], stats["subscriptions"]["s"]["msgBacklog"]]

    return w.settled(look, [[], [], 1])
