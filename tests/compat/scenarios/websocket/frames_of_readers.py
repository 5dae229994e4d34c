"""Every field of the frames that WebSocket readers get."""

from __future__ import annotations

from tests.compat.scenarios.websocket.frames import Frames, exchange
from tests.compat.scenarios.world import Outcome, World, topic_path


def reading(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        w.send(topic, "a", "b")
        latest, earliest = talk.reader(topic), talk.reader(topic, messageId="earliest")
        first = earliest.hear()
        earliest.hear()
        talk.reader(topic, messageId=first["messageId"]).hear()
        w.producer(topic).send(b"c", properties={"p": "v"}, partition_key="k", event_timestamp=1)
        earliest.hear()
        latest.hear()
        w.send_batch(topic, "d", "e")
        latest.hear()
        batch = latest.hear()
        latest.hear_nothing()
        talk.reader(topic, messageId=batch["messageId"]).hear_nothing()

    return exchange(w, script)


def the_end_of_a_topic(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        w.send(topic, "a")
        reader = talk.reader(topic, messageId="earliest")
        reader.hear()
        reader.ask({"type": "isEndOfTopic"})
        assert w.admin("POST", f"{topic_path(topic)}/terminate").status == 200
        reader.hear_nothing()
        reader.ask({"type": "isEndOfTopic"})

    return exchange(w, script)


def a_small_window(w: World) -> Outcome:
    """What a reader says makes room for one message more, whatever it is."""

    def script(talk: Frames) -> None:
        topic = w.topic()
        reader = talk.reader(topic, receiverQueueSize="1")
        w.send(topic, *"abcdefg")
        first = reader.hear()
        reader.hear_nothing()
        for text in {"messageId": first["messageId"]}, {}, {"messageId": "%"}, {"type": "permit", "permitMessages": "2"}, "{}":
            reader.say(text)
            reader.hear()
            reader.hear_nothing()

    return exchange(w, script)


def texts_that_are_no_command(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        w.send(topic, "a", "b")
        for text in "", "not JSON", "null", "[]", '{"type": {}}':
            reader = talk.reader(topic, receiverQueueSize="1", messageId="earliest")
            reader.hear()
            reader.say(text)
            reader.hear_nothing()
            talk.heard[-1] = [text, talk.heard[-1]]
            reader.close()

    return exchange(w, script)


def options(w: World) -> Outcome:
    """Query parameters: which are taken, and with which status the others are refused. One that is taken is said by its answer."""
    given = [
        ("readerName", "me"),
        ("receiverQueueSize", "0"),
        ("messageId", "earliest"),
        ("messageId", ""),
        ("cryptoFailureAction", "CONSUME"),
        ("unknown", "1"),
    ]
    return exchange(w, lambda talk: _open_with(talk, given))


def options_that_are_not_valid(w: World) -> Outcome:
    given = [("receiverQueueSize", "many"), ("messageId", "EARLIEST"), ("messageId", "first"), ("cryptoFailureAction", "x")]
    return exchange(w, lambda talk: _open_with(talk, given))


def the_topic_is_unloaded(w: World) -> Outcome:
    """A reader goes on behind what it was sent, be it in the middle of a batch."""

    def script(talk: Frames) -> None:
        topic = w.topic()
        w.consumer(topic, "keeps what is read")
        w.send(topic, "a", "b")
        w.send_batch(topic, "c", "d")
        readers = [talk.reader(topic, messageId="earliest")]
        middle = readers[0].hear()
        readers.append(talk.reader(topic, messageId=middle["messageId"], receiverQueueSize="2"))
        readers[0].hear(3)
        readers[1].hear(2)
        assert w.admin("PUT", f"{topic_path(topic)}/unload").status == 204
        w.send(topic, "e")
        for reader in readers:
            reader.hear_nothing()
            reader.hear_nothing()
            reader.say({})
            reader.hear_nothing()

    return exchange(w, script)


def from_within_a_batch(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        w.send_batch(topic, "a", "b", "c")
        w.send(topic, "d")
        earliest = talk.reader(topic, messageId="earliest")
        for _ in range(3):
            start = earliest.hear()["messageId"]
            reader = talk.reader(topic, messageId=start, receiverQueueSize="1")
            reader.hear()
            reader.hear_nothing()

    return exchange(w, script)


def of_a_partitioned_topic(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        w.send(f"{topic}-partition-1", "a")
        talk.reader(topic, messageId="earliest").hear()

    return exchange(w, script)


def _open_with(talk: Frames, given: list[tuple[str, str]]) -> None:
    for number, (name, value) in enumerate(given):
        before = len(talk.heard)
        reader = talk.reader(talk.world.topic(f"{number}"), **{name: value})
        if len(talk.heard) == before:
            reader.ask({"type": "isEndOfTopic"})
        talk.heard[-1] = [name, value, talk.heard[-1]]
        reader.close()
