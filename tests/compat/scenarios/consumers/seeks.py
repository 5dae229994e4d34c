"""Seek: where reading goes on, and that nothing of before comes after it."""

from __future__ import annotations

import pulsar

from tests.compat.scenarios.values import attempt, received, rest, take, texts
from tests.compat.scenarios.world import Outcome, World, topic_path

_EARLIEST, _LATEST = pulsar.MessageId.earliest, pulsar.MessageId.latest


def to_the_start(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abc")
    texts(consumer, 3)
    consumer.seek(_EARLIEST)
    return rest(consumer)


def to_the_end(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abc")
    consumer.seek(_LATEST)
    left = w.backlog(topic)
    w.send(topic, "d")
    return [left, rest(consumer)]


def to_a_message(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    ids = w.send(topic, *"abcd")
    texts(consumer, 4)
    consumer.seek(ids[1])
    return rest(consumer)


def to_a_message_inclusive(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, start_message_id_inclusive=True)
    ids = w.send(topic, *"abcd")
    texts(consumer, 4)
    consumer.seek(ids[1])
    return rest(consumer)


def forward_over_what_was_not_read(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, receiver_queue_size=1, start_message_id_inclusive=True)
    ids = w.send(topic, *"abcdef")
    texts(consumer, 1)
    consumer.seek(ids[4])
    return [rest(consumer), w.settled(lambda: w.backlog(topic), 0)]


def into_a_batch(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    ids = w.send_batch(topic, *"abcd")
    texts(consumer, 4)
    consumer.seek(ids[1])
    return rest(consumer)


def into_a_batch_inclusive(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, start_message_id_inclusive=True)
    ids = w.send_batch(topic, *"abcd")
    texts(consumer, 4)
    consumer.seek(ids[2])
    return rest(consumer)


def into_a_batch_with_index_acknowledgements(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, start_message_id_inclusive=True, batch_index_ack_enabled=True)
    ids = w.send_batch(topic, *"abcd")
    texts(consumer, 4)
    consumer.seek(ids[2])
    return rest(consumer)


def to_a_time(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"ab")
    stamps = [message.publish_timestamp() for message in take(consumer, 2)]
    w.settled(lambda: None, 0, 0.02)
    w.send(topic, *"cd")
    stamps += [message.publish_timestamp() for message in take(consumer, 2)]
    consumer.seek(stamps[2])
    return rest(consumer)


def to_the_beginning_of_time(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"ab")
    texts(consumer, 2)
    consumer.seek(1)
    return rest(consumer)


def to_a_time_to_come(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"ab")
    consumer.seek(4_000_000_000_000)
    w.send(topic, "c")
    return rest(consumer)


def again_and_again(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abc")
    payloads = []
    for _ in range(3):
        consumer.seek(_EARLIEST)
        payloads.append(texts(consumer, 2))
    return payloads


def nothing_of_before_comes_after_it(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    ids = w.send(topic, *map(str, range(50)))
    texts(consumer, 5)
    consumer.seek(ids[39])
    return rest(consumer)


def with_unacknowledged_messages(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    w.send(topic, *"abc")
    take(consumer, 3)
    consumer.seek(_EARLIEST)
    return received(take(consumer, 3, acknowledge=True))


def redelivery_counts_begin_anew(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100)
    w.send(topic, "a")
    consumer.negative_acknowledge(take(consumer, 1)[0])
    before = received(take(consumer, 1))
    consumer.seek(_EARLIEST)
    return [before, received(take(consumer, 1))]


def past_holes(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abcd")
    messages = take(consumer, 4)
    consumer.acknowledge(messages[2])
    w.settled(lambda: w.backlog(topic), 3)
    consumer.seek(_EARLIEST)
    return rest(consumer)


def with_two_consumers_on_shared(w: World) -> Outcome:
    topic = w.topic()
    first = w.consumer(topic, kind="Shared", client=w.new_client())
    second = w.consumer(topic, kind="Shared", client=w.new_client())
    w.send(topic, *map(str, range(8)))
    rest(first)
    rest(second)
    result = attempt(lambda: first.seek(_EARLIEST))
    return [result, sorted(rest(first, 700) + rest(second, 700))]


def by_the_waiting_one_on_failover(w: World) -> Outcome:
    topic = f"{w.partitioned(1)}-partition-0"
    active = w.consumer(topic, kind="Failover", consumer_name="a", client=w.new_client())
    waiting = w.consumer(topic, kind="Failover", consumer_name="b", client=w.new_client())
    w.send(topic, "a", "b")
    texts(active, 2)
    return [attempt(lambda: waiting.seek(_EARLIEST)), sorted(rest(active, 1500) + rest(waiting, 100))]


def on_key_shared(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="KeyShared")
    producer = w.producer(topic)
    for key in "abc":
        producer.send(key.encode(), partition_key=key)
    texts(consumer, 3)
    consumer.seek(_EARLIEST)
    return rest(consumer)


def of_a_partitioned_topic_by_time(w: World) -> Outcome:
    topic = w.partitioned(2)
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    for number in range(4):
        producer.send(str(number).encode())
    texts(consumer, 4)
    return [attempt(lambda: consumer.seek(1)), sorted(rest(consumer, 700))]


def of_a_partitioned_topic_to_the_start(w: World) -> Outcome:
    topic = w.partitioned(2)
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    for number in range(4):
        producer.send(str(number).encode())
    texts(consumer, 4)
    return [attempt(lambda: consumer.seek(_EARLIEST)), sorted(rest(consumer, 700))]


def over_the_admin_api(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abc")
    texts(consumer, 3)
    w.settled(lambda: w.backlog(topic), 0)
    consumer.close()
    statuses = [w.admin("POST", f"{topic_path(topic)}/subscription/s/resetcursor/{stamp}").status for stamp in (1,)]
    return [statuses, w.backlog(topic), rest(w.consumer(topic))]


def over_the_admin_api_to_a_message(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    ids = w.send(topic, *"abcd")
    texts(consumer, 4)
    body = {"ledgerId": ids[1].ledger_id(), "entryId": ids[1].entry_id(), "partitionIndex": -1}
    path = f"{topic_path(topic)}/subscription/s/resetcursor"
    statuses = [w.admin("POST", path, body).status, w.admin("POST", path, {**body, "isExcluded": True}).status]
    # Where the client came back between the two, it was given them after the first as well.
    return [statuses, rest(consumer, 700)[-3:]]


def to_where_it_is_already(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"ab")
    consumer.seek(_EARLIEST)
    return rest(consumer)


def acknowledging_what_came_before(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"ab")
    messages = take(consumer, 2)
    consumer.seek(_EARLIEST)
    take(consumer, 2)
    consumer.acknowledge(messages[0])
    consumer.close()
    return rest(w.consumer(topic))
