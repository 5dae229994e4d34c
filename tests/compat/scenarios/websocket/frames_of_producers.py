"""Every field of the frames that WebSocket producers get, and what consumers get of what they sent."""

from __future__ import annotations

from typing import Any

from tests.compat.scenarios.websocket.frames import Frames, exchange, payload
from tests.compat.scenarios.world import Outcome, World, topic_path

_A = payload("a")


def sending(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer, producer = talk.consumer(topic), talk.producer(topic)
        for frame in (
            {"payload": _A},
            {"payload": ""},
            {"payload": _A, "context": "1"},
            {"payload": _A, "context": ""},
            {"payload": _A, "key": "k", "properties": {"p": "v", "empty": ""}},
            {"payload": _A, "properties": {}},
            {"payload": _A, "key": ""},
            {"payload": _A, "eventTime": "2026-01-31T12:00:00.123Z", "sequenceId": 7},
            {"payload": _A, "replicationClusters": [], "disableReplication": False},
            {"payload": _A, "properties": None, "context": None, "key": None, "eventTime": None},
            {"payload": _A, "unknown": 1},
        ):
            producer.ask(frame)
            consumer.hear()

    return exchange(w, script)


def values_of_another_type(w: World) -> Outcome:
    """A value that is of another JSON type than the field: read as its type, or refused."""

    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer, producer = talk.consumer(topic), talk.producer(topic)
        given: list[dict[str, Any]] = [
            {"sequenceId": "5"},
            {"sequenceId": " 6 "},
            {"sequenceId": 7.9},
            {"sequenceId": ""},
            {"sequenceId": None},
            {"deliverAt": "0", "deliverAfterMs": "0"},
            {"deliverAfterMs": 1.5},
            {"disableReplication": "false"},
            {"disableReplication": "False"},
            {"disableReplication": 0},
            {"disableReplication": ""},
            {"disableReplication": None},
            {"context": 5},
            {"context": True},
            {"key": 5},
            {"key": False},
            {"properties": {"number": 5, "large": 12345678901234567890, "truth": True}},
            {"uncompressedMessageSize": ""},
        ]
        for fields in given:
            producer.ask({"payload": _A, **fields})
            consumer.hear()
        producer.ask('{"payload": "YQ==", "context": 1.50, "key": 1e2, "properties": {"number" : -0.0 }}')
        consumer.hear()

    return exchange(w, script)


def values_that_are_refused(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        given: list[Any] = [
            {"payload": _A, "sequenceId": "five"},
            {"payload": _A, "sequenceId": "5.5"},
            {"payload": _A, "sequenceId": True},
            {"payload": _A, "sequenceId": [5]},
            {"payload": _A, "sequenceId": 1 << 63},
            {"payload": _A, "disableReplication": "no"},
            {"payload": _A, "disableReplication": 0.5},
            {"payload": _A, "context": {}},
            {"payload": _A, "key": []},
            {"payload": _A, "properties": []},
            {"payload": _A, "properties": {"a": {}}},
            {"payload": _A, "eventTime": "yesterday", "context": "1"},
            {"payload": _A, "eventTime": "2026-01-31", "context": "1"},
            {"payload": "%", "context": "1"},
            {"payload": 5.5, "context": "1"},
            {"payload": "YQ=", "context": "1"},
            {"context": "1"},
            {"payload": {}},
            {"payload": _A, "compressionType": "LZ4", "uncompressedMessageSize": "1", "context": "1"},
            {"payload": _A, "compressionType": "BROTLI"},
            "not JSON",
            "",
            "[]",
            "5",
            '{"payload": "YQ=="',
            "{'payload': 'YQ=='}",
        ]
        for frame in given:
            producer = talk.producer(topic)
            producer.ask(frame)
            producer.hear_nothing()
            producer.close()

    return exchange(w, script)


def after_the_end_of_the_topic(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        producer = talk.producer(topic)
        producer.ask({"payload": _A})
        assert w.admin("POST", f"{topic_path(topic)}/terminate").status == 200
        producer.hear_nothing()
        producer.ask({"payload": _A, "context": "1"})
        producer.ask({"payload": _A})
        producer.hear_nothing()
        talk.producer(topic)

    return exchange(w, script)


def after_unloading(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        producer = talk.producer(topic)
        producer.ask({"payload": _A})
        assert w.admin("PUT", f"{topic_path(topic)}/unload").status == 204
        producer.ask({"payload": _A})

    return exchange(w, script)


def numbering(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = f"{w.namespace(deduplication=True)}t"
        consumer = talk.consumer(topic)
        producer = talk.producer(topic, producerName="mine", initialSequenceId="10")
        talk.producer(topic, producerName="mine")
        producer.ask({"payload": _A})
        consumer.hear()
        producer.ask({"payload": _A, "sequenceId": 3})
        consumer.hear_nothing()

    return exchange(w, script)


def texts_that_are_no_object(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        producer = talk.producer(w.topic())
        for text in '{"payload": "YQ=="} more', "null":
            producer.ask(text)

    return exchange(w, script)


def options(w: World) -> Outcome:
    """Query parameters: which are taken, and with which status the others are refused. One that is taken is said by its answer."""
    given = [
        ("batchingEnabled", "true"),
        ("batchingMaxMessages", "1"),
        ("maxPendingMessages", "1"),
        ("sendTimeoutMillis", "0"),
        ("sendTimeoutMillis", "-1"),
        ("initialSequenceId", "x"),
        ("hashingScheme", "Murmur3_32Hash"),
        ("hashingScheme", "None"),
        ("messageRoutingMode", "RoundRobinPartition"),
        ("messageRoutingMode", "CustomPartition"),
        ("compressionType", "ZSTD"),
        ("compressionType", "zstd"),
        ("unknown", "1"),
    ]
    return exchange(w, lambda talk: _open_with(talk, given))


def options_that_are_not_valid(w: World) -> Outcome:
    given = [("batchingEnabled", "maybe"), ("batchingMaxMessages", "many"), ("maxPendingMessages", "-1"), ("compressionType", "")]
    return exchange(w, lambda talk: _open_with(talk, given))


def _open_with(talk: Frames, given: list[tuple[str, str]]) -> None:
    for number, (name, value) in enumerate(given):
        before = len(talk.heard)
        producer = talk.producer(talk.world.topic(f"{number}"), **{name: value})
        if len(talk.heard) == before:
            producer.ask({"payload": _A})
        talk.heard[-1] = [name, value, talk.heard[-1]]
        producer.close()
