"""Topic compaction: what readers, consumers and table views are sent of a topic that was compacted on demand."""

from __future__ import annotations

from collections.abc import Sequence

import pulsar

from tests.compat.scenarios.values import attempt, shapes, take, text, texts
from tests.compat.scenarios.world import Outcome, World, topic_path

_EARLIEST, _LATEST = pulsar.MessageId.earliest, pulsar.MessageId.latest


def _put(w: World, topic: str, *pairs: tuple[str | None, str], batched: bool = False) -> list[pulsar.MessageId]:
    """The ids of key and value pairs, in one batch or each by itself."""
    producer = w.batching(topic, len(pairs)) if batched else w.producer(topic)
    ids: list[pulsar.MessageId] = []
    for key, value in pairs:
        producer.send_async(value.encode(), lambda result, identifier: ids.append(identifier), partition_key=key)
    producer.flush()
    producer.close()
    return ids


def _reader(w: World, topic: str, start: pulsar.MessageId = _EARLIEST, **options: object) -> pulsar.Reader:
    return w.reader(topic, start, is_read_compacted=True, **options)


def _available(reader: pulsar.Reader) -> list[str]:
    """All that it says is there."""
    payloads = []
    while reader.has_message_available():
        payloads += texts(reader, 1)
    return payloads


def _which(messages: Sequence[pulsar.Message], ids: list[pulsar.MessageId]) -> list[int]:
    return [ids.index(message.message_id()) for message in messages]


def the_last_values(w: World) -> Outcome:
    topic = w.topic()
    ids = _put(w, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"), ("c", "c1"), ("b", "b2"))
    done = w.compact(topic)
    messages = take(_reader(w, topic), 3)
    return [done, [text(message) for message in messages], _which(messages, ids)]


def of_batches(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"), batched=True)
    _put(w, topic, ("c", "c1"), ("b", "b2"), batched=True)
    w.compact(topic)
    return _available(_reader(w, topic))


def the_ids_of_batches(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"), batched=True)
    _put(w, topic, ("a", "a3"), ("a", "a4"), batched=True)
    w.compact(topic)
    reader = _reader(w, topic)
    messages = []
    while reader.has_message_available():
        messages += take(reader, 1)
    return [[text(message) for message in messages], shapes(message.message_id() for message in messages)]


def a_batch_of_which_nothing_is_left(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "a1"), ("b", "b1"), batched=True)
    _put(w, topic, ("a", "a2"), ("b", "b2"), batched=True)
    w.compact(topic)
    return _available(_reader(w, topic))


def a_tombstone_in_a_batch(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "a1"), ("b", "b1"), ("a", ""), batched=True)
    w.compact(topic)
    reader = _reader(w, topic)
    pairs = []
    while reader.has_message_available():
        pairs += [[message.partition_key(), text(message)] for message in take(reader, 1)]
    return pairs


def everything_is_removed(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "a1"), ("a", ""), batched=True)
    w.compact(topic)
    reader = _reader(w, topic)
    return _available(reader)


def messages_without_a_key(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, (None, "x"), ("a", "a1"), (None, "y"))
    w.compact(topic)
    return _available(_reader(w, topic))


def what_follows_is_all_sent(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "a1"), ("a", "a2"))
    w.compact(topic)
    _put(w, topic, ("a", "a3"), ("a", "a4"), (None, "x"))
    return _available(_reader(w, topic))


def a_second_compaction(w: World) -> Outcome:
    topic = w.topic()
    ids = _put(w, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"))
    w.compact(topic)
    ids += _put(w, topic, ("b", "b2"), ("c", "c1"))
    reader = _reader(w, topic)
    before = texts(reader, 4)
    w.compact(topic)
    messages = take(_reader(w, topic), 3)
    return [before, [text(message) for message in messages], _which(messages, ids)]


def a_plain_reader(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "a1"), ("a", "a2"))
    w.compact(topic)
    return _available(w.reader(topic))


def a_reader_from_a_message_that_is_gone(w: World) -> Outcome:
    topic = w.topic()
    ids = _put(w, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"), ("c", "c1"))
    w.compact(topic)
    return [_available(_reader(w, topic, ids[0])), _available(_reader(w, topic, ids[2])), _available(_reader(w, topic, ids[3]))]


def a_reader_from_a_message_inclusive(w: World) -> Outcome:
    topic = w.topic()
    ids = _put(w, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"), ("c", "c1"))
    w.compact(topic)
    return [_available(_reader(w, topic, ids[at], start_message_id_inclusive=True)) for at in (0, 2, 3)]


def a_reader_from_the_end(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "a1"), ("a", "a2"))
    w.compact(topic)
    reader = _reader(w, topic, _LATEST)
    available = reader.has_message_available()
    _put(w, topic, ("a", "a3"))
    return [available, texts(reader, 1)]


def seek_to_the_start(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"))
    w.compact(topic)
    reader = _reader(w, topic)
    first = texts(reader, 2)
    reader.seek(_EARLIEST)
    return [first, _available(reader)]


def a_consumer(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, is_read_compacted=True, initial_position=pulsar.InitialPosition.Earliest)
    _put(w, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"))
    consumer.close()
    w.compact(topic)
    consumer = w.consumer(topic, is_read_compacted=True)
    payloads = texts(consumer, 2)
    return [payloads, w.settled(lambda: w.backlog(topic), 0)]


def a_consumer_that_goes_on(w: World) -> Outcome:
    topic = w.topic()
    first = w.consumer(topic, "s", "Failover", is_read_compacted=True, initial_position=pulsar.InitialPosition.Earliest)
    _put(w, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"), ("c", "c1"), ("d", "d1"))
    first.close()
    w.compact(topic)
    first = w.consumer(topic, "s", "Failover", is_read_compacted=True)
    payloads = texts(first, 2)
    w.settled(lambda: w.backlog(topic), 2)
    first.close()
    _put(w, topic, ("e", "e1"))
    return [payloads, texts(w.consumer(topic, "s", "Failover", is_read_compacted=True), 3)]


def a_consumer_that_does_not_ask_for_it(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic).close()
    _put(w, topic, ("a", "a1"), ("a", "a2"))
    w.compact(topic)
    return texts(w.consumer(topic), 2)


def shared_subscriptions(w: World) -> Outcome:
    topic = w.topic()
    return [attempt(w.consumer, topic, "s", kind, is_read_compacted=True) for kind in ("Shared", "KeyShared", "Failover")]


def a_table_view(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"))
    _put(w, topic, ("b", ""), ("c", "c1"), batched=True)
    w.compact(topic)
    _put(w, topic, ("c", "c2"))
    view = w.client.create_table_view(topic)
    return [len(view), *(None if (value := view.get(key)) is None else value.decode() for key in "abc")]


def a_topic_after_unloading(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "a1"), ("a", "a2"))
    w.compact(topic)
    w.admin("PUT", f"{topic_path(topic)}/unload")
    return _available(_reader(w, topic))


def an_empty_topic(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic)
    done = w.compact(topic)
    return [done, _available(_reader(w, topic))]


def the_status_of_one_that_never_ran(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a")
    answer = w.admin("GET", f"{topic_path(topic)}/compaction")
    return [answer.status, answer.body]


def of_a_topic_that_is_not_there(w: World) -> Outcome:
    path = f"{topic_path(w.topic())}/compaction"
    return [w.admin("PUT", path).status, w.admin("GET", path).status]


def of_a_topic_that_is_not_stored(w: World) -> Outcome:
    topic = w.unstored_topic()
    w.producer(topic)
    return w.admin("PUT", f"{topic_path(topic)}/compaction").status
