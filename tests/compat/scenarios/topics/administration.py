"""What clients notice when somebody administers their topic."""

from __future__ import annotations

import re
from typing import Any

import pulsar

from tests.compat.scenarios.values import attempt, rest, take, texts
from tests.compat.scenarios.world import Outcome, World, topic_path


def unloading_is_not_noticed(w: World) -> Outcome:
    topic = w.topic()
    consumer, producer = w.consumer(topic), w.producer(topic)
    producer.send(b"a")
    first = texts(consumer, 1)
    w.settled(lambda: w.backlog(topic), 0)
    status = w.admin("PUT", f"{topic_path(topic)}/unload").status
    producer.send(b"b")
    return [first, status, texts(consumer, 1)]


def a_topic_in_use_is_not_deleted(w: World) -> Outcome:
    topic = w.topic()
    producer = w.producer(topic)
    status = w.admin("DELETE", topic_path(topic)).status
    producer.close()
    return [status, w.admin("DELETE", topic_path(topic)).status, w.admin("DELETE", topic_path(topic)).status]


def a_topic_with_subscriptions_is_not_deleted(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic).close()
    return [w.admin("DELETE", topic_path(topic)).status, w.admin("DELETE", f"{topic_path(topic)}?force=true").status]


def skipping_some(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic).close()
    w.send(topic, *"abcd")
    status = w.admin("POST", f"{topic_path(topic)}/subscription/s/skip/2").status
    return [status, rest(w.consumer(topic))]


def skipping_all(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, receiver_queue_size=1)
    w.send(topic, *"abcd")
    take(consumer, 1)
    consumer.close()
    status = w.admin("POST", f"{topic_path(topic)}/subscription/s/skip_all").status
    left = w.backlog(topic)
    w.send(topic, "e")
    return [status, left, rest(w.consumer(topic))]


def expiring_what_is_old(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic).close()
    w.send(topic, *"ab")
    return [w.admin("POST", f"{topic_path(topic)}/subscription/s/expireMessages/3600").status, rest(w.consumer(topic))]


def peeking(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic).close()
    w.send(topic, "first", "second")
    answers = [w.admin("GET", f"{topic_path(topic)}/subscription/s/position/{number}") for number in (1, 2, 3)]
    return [[answer.status, answer.body if answer.status == 200 else None] for answer in answers]


def terminating_tells_the_last_id(w: World) -> Outcome:
    topic = w.topic()
    ids = w.send(topic, "a", "b")
    answer = w.admin("POST", f"{topic_path(topic)}/terminate")
    return [answer.status, answer.body.get("entryId"), answer.body.get("ledgerId") == ids[1].ledger_id()]


def a_terminated_topic_can_be_read(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, "a", "b")
    w.admin("POST", f"{topic_path(topic)}/terminate")
    return texts(consumer, 2)


def a_subscription_on_a_terminated_topic(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a")
    w.admin("POST", f"{topic_path(topic)}/terminate")
    consumer = w.consumer(topic, initial_position=pulsar.InitialPosition.Earliest)
    return texts(consumer, 1)


def truncating(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic).close()
    w.send(topic, *"abc")
    return [w.admin("DELETE", f"{topic_path(topic)}/truncate").status, rest(w.consumer(topic))]


def topics_are_listed(w: World) -> Outcome:
    prefix = w.namespace()
    for name in ("b", "a"):
        w.send(f"{prefix}{name}", "x")
    namespace = prefix.split("://")[1].rstrip("/")
    listed = w.admin("GET", f"persistent/{namespace}").body
    return sorted(name.rpartition("/")[2] for name in listed)


def more_partitions(w: World) -> Outcome:
    topic = w.partitioned(2)
    statuses = [w.admin("POST", f"{topic_path(topic)}/partitions", count).status for count in (3, 2)]
    return [
        statuses,
        len(w.new_client().get_topic_partitions(topic)),
        w.admin("GET", f"{topic_path(topic)}/partitions").body["partitions"],
    ]


def a_partitioned_topic_twice(w: World) -> Outcome:
    topic = w.partitioned(2)
    return w.admin("PUT", f"{topic_path(topic)}/partitions", 2).status


def deleting_a_partitioned_topic(w: World) -> Outcome:
    topic = w.partitioned(2)
    w.send(topic, "x")
    statuses = [w.admin("DELETE", f"{topic_path(topic)}/partitions").status for _ in range(2)]
    return [statuses, len(w.new_client().get_topic_partitions(topic))]


def deleting_a_partitioned_topic_with_subscriptions(w: World) -> Outcome:
    topic = w.partitioned(2)
    consumer = w.consumer(topic)
    used = w.admin("DELETE", f"{topic_path(topic)}/partitions").status
    consumer.close()
    return [used, w.admin("DELETE", f"{topic_path(topic)}/partitions").status]


def deleting_the_partitions_of_a_plain_topic(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "x")
    return w.admin("DELETE", f"{topic_path(topic)}/partitions").status


def a_namespace_with_topics_is_not_deleted(w: World) -> Outcome:
    prefix = w.namespace()
    w.send(f"{prefix}t", "x")
    namespace = prefix.split("://")[1].rstrip("/")
    return [w.admin("DELETE", f"namespaces/{namespace}").status, attempt(w.producer, f"{prefix}t")]


def properties_of_a_plain_topic(w: World) -> Outcome:
    path = topic_path(w.topic())
    statuses: list[Any] = [w.admin("PUT", path, {"a": "1"}).status]
    for method, query, body in (
        ("PUT", "", {"b": "2"}),
        ("PUT", "", {"b": "3", "c": "4"}),
        ("DELETE", "?key=a", None),
        ("DELETE", "?key=absent", None),
        ("DELETE", "", None),
        ("PUT", "", {}),
    ):
        statuses.append([w.admin(method, f"{path}/properties{query}", body).status, w.admin("GET", f"{path}/properties").body])
    return [*statuses, w.admin("GET", f"{topic_path(w.topic('absent'))}/properties").status]


def properties_of_a_partitioned_topic(w: World) -> Outcome:
    path = topic_path(w.partitioned(2))
    changed = [
        w.admin("PUT", f"{path}/properties", {"k": "v", "l": "w"}).status,
        w.admin("DELETE", f"{path}/properties?key=l").status,
        w.admin("PUT", f"{path}-partition-0/properties", {"x": "y"}).status,
    ]
    read = [w.admin("GET", f"{path}{part}/properties").body for part in ("", "-partition-0", "-partition-1")]
    return [changed, read, w.admin("GET", f"{path}/partitions").body]


def properties_survive_unloading(w: World) -> Outcome:
    topic = w.topic()
    w.admin("PUT", topic_path(topic), {"a": "1"})
    w.admin("PUT", f"{topic_path(topic)}/properties", {"b": "2"})
    w.send(topic, "x")
    w.admin("PUT", f"{topic_path(topic)}/unload")
    w.send(topic, "y")
    return w.admin("GET", f"{topic_path(topic)}/properties").body


def partitions_that_are_missing(w: World) -> Outcome:
    topic, plain = w.partitioned(3), w.topic("plain")
    w.send(plain, "x")
    prefix = topic.rpartition("/")[0].split("://")[1]
    deleted = w.admin("DELETE", f"{topic_path(topic)}-partition-1").status

    def listed() -> list[str]:
        return sorted(name.rpartition("-")[2] for name in w.admin("GET", f"persistent/{prefix}").body if name.startswith(topic))

    before = listed()
    made = [w.admin("POST", f"{topic_path(name)}/createMissedPartitions").status for name in (topic, plain)]
    return [deleted, before, made, listed()]


def terminating_a_partitioned_topic(w: World) -> Outcome:
    topic, plain = w.partitioned(2), w.topic("plain")
    w.send(topic, *"abcd")
    w.send(plain, "x")
    path = topic_path(topic)
    wrong = [w.admin("POST", f"{path}/terminate").status, w.admin("POST", f"{topic_path(plain)}/terminate/partitions").status]
    answer = w.admin("POST", f"{path}/terminate/partitions")
    last = {
        index: [message_id["entryId"], message_id["partitionIndex"], message_id["batchIndex"]]
        for index, message_id in answer.body.items()
    }
    return [wrong, answer.status, last, attempt(w.new_client(operation_timeout_seconds=3).create_producer, topic)]


def terminating_twice(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a")
    answers = [w.admin("POST", f"{topic_path(topic)}/terminate") for _ in range(2)]
    return [[answer.status, answer.body["entryId"]] for answer in answers]


def system_topics_are_not_listed(w: World) -> Outcome:
    prefix = w.namespace()
    path = f"persistent/{prefix.split('://')[1].rstrip('/')}"
    for name in ("t", "__transaction_buffer_snapshot", "__other"):
        w.send(f"{prefix}{name}", name)
    listed = [w.admin("GET", f"{path}{query}").body for query in ("", "?includeSystemTopic=true", "?includeSystemTopic=false")]
    shown = [{name.rpartition("/")[2] for name in names} for names in listed]
    return [sorted(names - {"__change_events"}) for names in shown]  # which Pulsar makes in every namespace


def system_topics_match_no_pattern(w: World) -> Outcome:
    prefix = w.namespace()
    for name in ("t", "__transaction_buffer_snapshot", "__other"):
        w.send(f"{prefix}{name}", name)
    consumer = w.client.subscribe(re.compile(f"{prefix}.*"), "s", initial_position=pulsar.InitialPosition.Earliest)
    return sorted(texts(consumer, 2) + rest(consumer))


def names_that_belong_to_the_broker(w: World) -> Outcome:
    prefix = w.namespace()
    made = [
        w.admin("PUT", f"{topic_path(prefix)}{name}").status
        for name in ("__change_events", "t__transaction_pending_ack", "__transaction_pending_ack_", "__transaction_log_0")
    ]
    return [made, attempt(w.new_client(operation_timeout_seconds=3).create_producer, f"{prefix}t__transaction_pending_ack")]
