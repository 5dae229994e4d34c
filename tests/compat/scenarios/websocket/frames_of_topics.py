"""WebSocket consumers of several topics, by their names and by a pattern."""

from __future__ import annotations

from typing import Any

from messaging.message_id import decode_message_id, encode_message_id
from tests.compat.scenarios.websocket.frames import FrameClient, Frames, exchange, payload
from tests.compat.scenarios.world import Outcome, World, topic_path

FOUND_S = 90.0  # Pulsar's proxy looks for new topics once a minute, where it is not told of them


def acknowledging(w: World) -> Outcome:
    """An acknowledgement reaches the topic of its message."""

    def script(talk: Frames) -> None:
        topics = [w.topic("a"), w.topic("b")]
        consumer = talk.topics_consumer(*topics, subscriptionType="Shared")
        _send_to_each(w, topics)
        messages = _hear_all(talk, consumer, 2)
        consumer.say({"messageId": messages[1]["messageId"]})
        talk.heard.append(_backlogs(w, topics, [1, 0]))
        consumer.say({"messageId": messages[0]["messageId"], "type": "acknowledge"})
        talk.heard.append(_backlogs(w, topics, [0, 0]))

    return exchange(w, script)


def acknowledging_what_no_topic_has(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topics = [w.topic("a"), w.topic("b")]
        [other] = w.send(w.topic("other"), "x")
        consumer = talk.topics_consumer(*topics, subscriptionType="Shared")
        _send_to_each(w, topics)
        _hear_all(talk, consumer, 2)
        consumer.say({"messageId": encode_message_id(other.ledger_id(), other.entry_id())})
        consumer.hear_nothing()
        talk.heard.append(_backlogs(w, topics, [1, 1]))

    return exchange(w, script)


def negatively_acknowledging(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topics = [w.topic("a"), w.topic("b")]
        consumer = talk.topics_consumer(*topics, subscriptionType="Shared", negativeAckRedeliveryDelay="100")
        _send_to_each(w, topics)
        for message in _hear_all(talk, consumer, 2):
            consumer.say({"type": "negativeAcknowledge", "messageId": message["messageId"]})
        _hear_all(talk, consumer, 2)

    return exchange(w, script)


def an_acknowledgement_timeout(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topics = [w.topic("a"), w.topic("b")]
        consumer = talk.topics_consumer(*topics, subscriptionType="Shared", ackTimeoutMillis="1000")
        _send_to_each(w, topics)
        first, _ = _hear_all(talk, consumer, 2)
        consumer.say({"messageId": first["messageId"]})
        consumer.hear()

    return exchange(w, script)


def a_small_window(w: World) -> Outcome:
    """`receiverQueueSize` messages come of all topics together."""

    def script(talk: Frames) -> None:
        topics = [w.topic(name) for name in "abc"]
        consumer = talk.topics_consumer(*topics, receiverQueueSize="2")
        for _ in range(2):
            _send_to_each(w, topics)
        seen = [consumer.hear() for _ in range(2)]
        consumer.hear_nothing()
        for _ in range(4):
            consumer.say({"messageId": seen[-1]["messageId"]})
            seen.append(consumer.hear())
            consumer.hear_nothing()
        talk.heard[:] = [heard if heard == "silence" else "message" for heard in talk.heard]
        talk.heard.append(sorted(message["payload"] for message in seen))

    return exchange(w, script)


def permits_in_pull_mode(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topics = [w.topic(name) for name in "abc"]
        consumer = talk.topics_consumer(*topics, pullMode="true")
        for _ in range(2):
            _send_to_each(w, topics)
        consumer.hear_nothing()
        seen: list[Any] = []
        for permits in 1, 3, 2:
            consumer.say({"type": "permit", "permitMessages": permits})
            seen += [consumer.hear() for _ in range(permits)]
            consumer.hear_nothing()
        talk.heard[:] = [heard if heard == "silence" else "message" for heard in talk.heard]
        talk.heard.append(sorted(message["payload"] for message in seen))

    return exchange(w, script)


def partitioned_topics(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topics = [w.topic("plain"), w.partitioned(2)]
        consumer = talk.topics_consumer(*topics, subscriptionType="Shared")
        each = [topics[0], *(f"{topics[1]}-partition-{number}" for number in range(2))]
        _send_to_each(w, each)
        for message in _hear_all(talk, consumer, 3):
            if decode_message_id(message["messageId"]).partition != 0:
                consumer.say({"messageId": message["messageId"]})
        talk.heard.append(_backlogs(w, each, [0, 1, 0]))

    return exchange(w, script)


def non_persistent_topics(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topics = [w.topic("stored"), w.unstored_topic("unstored")]
        consumer = talk.topics_consumer(*topics, subscriptionType="Shared")
        _send_to_each(w, topics)
        _hear_all(talk, consumer, 2)

    return exchange(w, script)


def the_end_of_topics(w: World) -> Outcome:
    """It is the end of all of them."""

    def script(talk: Frames) -> None:
        topics = [w.topic("a"), w.topic("b")]
        consumer = talk.topics_consumer(*topics)
        for topic in topics:
            consumer.ask({"type": "isEndOfTopic"})
            assert w.admin("POST", f"{topic_path(topic)}/terminate").status == 200
            consumer.hear_nothing()
        consumer.ask({"type": "isEndOfTopic"})

    return exchange(w, script)


def unsubscribing(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topics = [w.topic("a"), w.topic("b")]
        consumer = talk.topics_consumer(*topics, subscriptionType="Shared")
        consumer.say({"type": "unsubscribe"})
        consumer.hear_nothing()
        talk.heard.append(_subscriptions(w, topics, [[], []]))

    return exchange(w, script)


def unsubscribing_beside_another(w: World) -> Outcome:
    """One of its topics has another consumer."""

    def script(talk: Frames) -> None:
        topics = [w.topic("a"), w.topic("b")]
        consumer = talk.topics_consumer(*topics, subscriptionType="Shared")
        talk.consumer(topics[1], subscriptionType="Shared")
        consumer.say({"type": "unsubscribe"})
        consumer.hear_nothing()
        talk.heard.append(_subscriptions(w, topics, [["s"], ["s"]]))

    return exchange(w, script)


def a_subscription_that_is_taken(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topics = [w.topic("a"), w.topic("b")]
        talk.consumer(topics[1])
        talk.topics_consumer(*topics)
        talk.heard.append(w.settled(lambda: [len(_consumers(w, topic)) for topic in topics], [0, 1]))

    return exchange(w, script)


def names_of_consumers(w: World) -> Outcome:
    """One name on all topics."""

    def script(talk: Frames) -> None:
        topics = [w.topic("a"), w.topic("b")]
        talk.topics_consumer(*topics)
        named = [w.topic("c"), w.topic("d")]
        talk.topics_consumer(*named, consumerName="me")
        talk.heard.append(len({name for topic in topics for name in _consumers(w, topic)}))
        talk.heard.append([_consumers(w, topic) for topic in named])

    return exchange(w, script)


def lists_of_topics(w: World) -> Outcome:
    """With spaces, with one of them twice, and short names."""

    def script(talk: Frames) -> None:
        topics = [w.topic("a"), w.topic("b")]
        for number, names in enumerate(
            (
                [topics[0], f" {topics[1]}"],
                [topics[0], topics[0]],
                [topic.rpartition("/")[2] for topic in topics],
                [topics[0], ""],
                [topics[0], "persistent://public/nowhere/b"],
            )
        ):
            before = len(talk.heard)
            talk.topics_consumer(*names, name=f"s{number}")
            talk.heard[before:] = [[number, *talk.heard[before:]]]

    return exchange(w, script)


def what_is_no_list_of_topics(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        pattern = f"persistent://public/default/{w.name('none')}.*"
        for parameters in (
            {},
            {"topics": ""},
            {"topicsPattern": ""},
            {"topics": topic, "topicsPattern": pattern},
            {"topicsPattern": "persistent://public/default/a["},
            {"topicsPattern": "persistent://public/.*/a"},
            {"topicsPattern": "persistent://public/nowhere/a.*"},
            {"topicsPattern": f"non-{pattern}"},
            {"topics": topic, "subscriptionType": "None"},
        ):
            before = len(talk.heard)
            talk.open("/ws/v3/consumer/s", **parameters)
            talk.heard[before:] = [[sorted(parameters), *talk.heard[before:]]]

    return exchange(w, script)


def paths(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        for path in "consumer/", "consumer/s/more", "consumer/s%2Ft", "producer/s", "reader/s":
            before = len(talk.heard)
            talk.open(f"/ws/v3/{path}", topics=topic)
            talk.heard[before:] = [[path, *talk.heard[before:]]]
        talk.heard.append(_subscriptions(w, [topic], [["s/t"]]))

    return exchange(w, script)


def a_pattern(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topics = [w.topic("x-1"), w.topic("x-2"), w.topic("y-1")]
        _send_to_each(w, topics)
        consumer = talk.pattern_consumer(w.topic("x-.*"), subscriptionInitialPosition="Earliest")
        for message in _hear_all(talk, consumer, 2):
            consumer.say({"messageId": message["messageId"]})
        consumer.hear_nothing()
        talk.heard.append(_backlogs(w, topics[:2], [0, 0]))
        talk.heard.append(_subscriptions(w, topics, [["s"], ["s"], []]))

    return exchange(w, script)


def a_pattern_of_partitioned_topics(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2, "x-parts")
        consumer = talk.pattern_consumer(w.topic("x-.*"), subscriptionType="Shared")
        _send_to_each(w, [f"{topic}-partition-{number}" for number in range(2)])
        _hear_all(talk, consumer, 2)

    return exchange(w, script)


def a_pattern_that_matches_nothing(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        consumer = talk.pattern_consumer(w.topic("x-.*"))
        consumer.ask({"type": "isEndOfTopic"})

    return exchange(w, script)


def a_topic_that_is_created_later(w: World) -> Outcome:
    """In pull mode."""

    def script(talk: Frames) -> None:
        topic = w.topic("x-1")
        consumer = talk.pattern_consumer(w.topic("x-.*"), subscriptionType="Shared", pullMode="true")
        assert w.admin("PUT", topic_path(topic)).status == 204
        w.settled(lambda: sorted(w.stats(topic)["subscriptions"]), ["s"], FOUND_S)
        w.send(topic, "a", "b")
        consumer.hear_nothing()
        consumer.say({"type": "permit", "permitMessages": 1})
        consumer.hear()
        consumer.hear_nothing()

    return exchange(w, script)


def a_topic_that_is_deleted(w: World) -> Outcome:
    """The others of the pattern go on."""

    def script(talk: Frames) -> None:
        topics = [w.topic("x-1"), w.topic("x-2")]
        _send_to_each(w, topics)
        consumer = talk.pattern_consumer(w.topic("x-.*"), subscriptionType="Shared")
        w.admin("DELETE", f"{topic_path(topics[0])}?force=true")
        w.send(topics[1], "b")
        consumer.hear()

    return exchange(w, script)


def dead_letters(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topics = [w.topic("a"), w.topic("b")]
        parameters = {"subscriptionType": "Shared", "negativeAckRedeliveryDelay": "100", "maxRedeliverCount": "1"}
        consumer = talk.topics_consumer(*topics, **parameters)
        dead = talk.consumer(f"{topics[0]}-s-DLQ", subscriptionType="Shared", subscriptionInitialPosition="Earliest")
        w.send(topics[1], "poison")
        for _ in range(2):
            message = consumer.hear()
            consumer.say({"type": "negativeAcknowledge", "messageId": message["messageId"]})
        letter = dead.hear()
        talk.heard[-1] = [letter["payload"] == payload("poison"), letter["properties"]["REAL_TOPIC"] == topics[1]]

    return exchange(w, script)


def _send_to_each(w: World, topics: list[str]) -> None:
    for number, topic in enumerate(topics):
        w.send(topic, f"{number}")


def _hear_all(talk: Frames, client: FrameClient, count: int) -> list[Any]:
    """The next messages, in the order of their payloads, and recorded so."""
    at = len(talk.heard)
    messages = [client.hear() for _ in range(count)]
    talk.heard[at:] = sorted(talk.heard[at:], key=str)
    return sorted((message for message in messages if message is not None), key=lambda message: str(message["payload"]))


def _backlogs(w: World, topics: list[str], wanted: list[int]) -> list[int]:
    return list(w.settled(lambda: [w.backlog(topic) for topic in topics], wanted, 10))


def _subscriptions(w: World, topics: list[str], wanted: list[list[str]]) -> list[list[str]]:
    return list(w.settled(lambda: [sorted(w.stats(topic)["subscriptions"]) for topic in topics], wanted, 3))


def _consumers(w: World, topic: str) -> list[str]:
    """Their names."""
    return [consumer["consumerName"] for consumer in w.stats(topic)["subscriptions"].get("s", {"consumers": []})["consumers"]]
