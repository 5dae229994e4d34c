"""Subscriptions: what they are called, who may join, where they begin, and what is left when nobody is connected."""

from __future__ import annotations

import pulsar

from tests.compat.scenarios.values import attempt, rest, take, take_without_queue, texts
from tests.compat.scenarios.world import Outcome, World, topic_path

_EARLIEST = pulsar.InitialPosition.Earliest
_KINDS = ("Exclusive", "Shared", "Failover", "KeyShared")


def exclusive_takes_one_consumer(w: World) -> Outcome:
    topic = w.topic()
    first = w.consumer(topic)
    busy = [attempt(lambda: w.consumer(topic)), attempt(lambda: w.consumer(topic, client=w.new_client()))]
    first.close()
    return [busy, attempt(lambda: w.consumer(topic))]


def _joined_by(w: World, kind: str) -> Outcome:
    topic = w.topic()
    w.consumer(topic, kind=kind)
    return {other: attempt(w.consumer, topic, kind=other, client=w.new_client()) for other in _KINDS}


def who_may_join_exclusive(w: World) -> Outcome:
    return _joined_by(w, "Exclusive")


def who_may_join_shared(w: World) -> Outcome:
    return _joined_by(w, "Shared")


def who_may_join_failover(w: World) -> Outcome:
    return _joined_by(w, "Failover")


def who_may_join_key_shared(w: World) -> Outcome:
    return _joined_by(w, "KeyShared")


def without_consumers_the_type_is_free(w: World) -> Outcome:
    topic = w.topic()
    outcomes = []
    for kind in (*_KINDS, "Exclusive"):
        client = w.new_client()
        outcomes.append(attempt(w.consumer, topic, kind=kind, client=client))
        client.close()
    return outcomes


def an_empty_name(w: World) -> Outcome:
    client = w.new_client(operation_timeout_seconds=2)
    return attempt(lambda: w.consumer(w.topic(), name="", client=client))


def reserved_names(w: World) -> Outcome:
    client = w.new_client(operation_timeout_seconds=5)
    return [
        attempt(lambda name=name: w.consumer(w.topic(), name=name, client=client)) for name in ("pulsar.dedup", "pulsar.repl.x")
    ]


def a_name_with_odd_characters(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, name="a/b c%ü")
    w.send(topic, "x")
    return [consumer.subscription_name(), texts(consumer, 1)]


def latest_is_the_default(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "before")
    consumer = w.consumer(topic)
    w.send(topic, "after")
    return rest(consumer)


def earliest_begins_at_the_start(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a", "b")
    return rest(w.consumer(topic, initial_position=_EARLIEST))


def a_position_counts_only_for_a_new_subscription(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic).close()
    w.send(topic, "a", "b")
    consumer = w.consumer(topic)
    texts(consumer, 1)
    consumer.close()
    return rest(w.consumer(topic, initial_position=_EARLIEST))


def it_waits_without_consumers(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic).close()
    w.send(topic, "a", "b")
    return [w.backlog(topic), rest(w.consumer(topic))]


def two_each_get_everything(w: World) -> Outcome:
    topic = w.topic()
    first, second = w.consumer(topic, "one"), w.consumer(topic, "two")
    w.send(topic, "a", "b", "c")
    return [rest(first), rest(second)]


def unsubscribing_forgets(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, "a")
    consumer.unsubscribe()
    listed = w.admin("GET", f"{topic_path(topic)}/subscriptions").body
    return [listed, rest(w.consumer(topic)), attempt(consumer.unsubscribe)]


def unsubscribing_while_others_are_connected(w: World) -> Outcome:
    topic = w.topic()
    first = w.consumer(topic, kind="Shared")
    w.consumer(topic, kind="Shared", client=w.new_client())
    return [attempt(first.unsubscribe), w.admin("GET", f"{topic_path(topic)}/subscriptions").body]


def unsubscribing_on_failover(w: World) -> Outcome:
    topic = w.topic()
    active = w.consumer(topic, kind="Failover", consumer_name="a")
    waiting = w.consumer(topic, kind="Failover", consumer_name="b", client=w.new_client())
    return [attempt(waiting.unsubscribe), attempt(active.unsubscribe)]


def consumers_know_their_names(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, "sub", consumer_name="me")
    return [consumer.consumer_name(), consumer.subscription_name(), w.plain(consumer.topic()), consumer.is_connected()]


def two_consumers_may_have_one_name(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic, kind="Shared", consumer_name="twin")
    return attempt(lambda: w.consumer(topic, kind="Shared", consumer_name="twin", client=w.new_client()))


def a_closed_consumer(w: World) -> Outcome:
    consumer = w.consumer(w.topic())
    consumer.close()
    return [
        attempt(lambda: consumer.receive(100)),
        attempt(lambda: consumer.seek(pulsar.MessageId.earliest)),
        consumer.is_connected(),
    ]


def the_properties_of_a_consumer(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic, properties={"team": "blue"})
    return w.subscription_stats(topic)["consumers"][0]["metadata"]


def no_receiver_queue(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, receiver_queue_size=0)
    w.send(topic, "a", "b", "c")
    return take_without_queue(consumer, 3)


def a_small_receiver_queue(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, receiver_queue_size=2)
    w.send(topic, *map(str, range(10)))
    return rest(consumer)


def a_listener(w: World) -> Outcome:
    topic = w.topic()
    payloads: list[str] = []

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        payloads.append(message.data().decode())
        consumer.acknowledge(message)

    consumer = w.consumer(topic, message_listener=listen)
    w.send(topic, "a", "b")
    w.settled(lambda: len(payloads), 2)
    return [payloads, attempt(lambda: consumer.receive(10)), w.settled(lambda: w.backlog(topic), 0)]


def many_at_once(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(3, -1, 500))
    w.send(topic, "a", "b", "c", "d")
    return [[message.data().decode() for message in consumer.batch_receive()] for _ in range(2)]


def consumers_make_topics(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic)
    return w.admin("GET", f"{topic_path(topic)}/subscriptions").body


def one_made_over_the_admin_api(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a", "b")
    made = [w.admin("PUT", f"{topic_path(topic)}/subscription/{name}", body).status for name, body in _made()]
    again = w.admin("PUT", f"{topic_path(topic)}/subscription/first").status
    w.send(topic, "c")
    return [made, again, rest(w.consumer(topic, "first")), rest(w.consumer(topic, "last"))]


def _made() -> list[tuple[str, object]]:
    ends = {"partitionIndex": -1}
    return [
        ("first", {"ledgerId": -1, "entryId": -1, **ends}),
        ("last", {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1, **ends}),
    ]


def one_deleted_over_the_admin_api(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    path = f"{topic_path(topic)}/subscription/s"
    busy = w.admin("DELETE", path).status
    consumer.close()
    return [busy, w.admin("DELETE", path).status, w.admin("DELETE", path).status]


def one_deleted_by_force(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    status = w.admin("DELETE", f"{topic_path(topic)}/subscription/s?force=true").status
    w.send(topic, "a")
    return [status, take(consumer, 0)]


def all_of_a_partitioned_topic(w: World) -> Outcome:
    topic = w.partitioned(3)
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    for number in range(9):
        producer.send(str(number).encode())
    return sorted(texts(consumer, 9))
