"""Every field of the frames that WebSocket consumers get."""

from __future__ import annotations

from typing import Any

from tests.compat.scenarios.websocket.frames import FrameClient, Frames, exchange
from tests.compat.scenarios.world import Outcome, World, topic_path


def receiving(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic)
        producer = w.producer(topic)
        producer.send(b"a")
        producer.send(b"")
        producer.send(b"a", properties={"p": "v", "empty": ""}, partition_key="k", event_timestamp=1)
        producer.send(b"a", ordering_key="o", partition_key="")
        consumer.hear(4)
        w.send_batch(topic, "a", "b", key="k")
        consumer.hear(2)

    return exchange(w, script)


def of_a_partition(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = f"{w.partitioned(2)}-partition-1"
        _receive_again(talk, topic, topic)

    return exchange(w, script)


def of_a_partitioned_topic(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        _receive_again(talk, topic, f"{topic}-partition-1")

    return exchange(w, script)


def _receive_again(talk: Frames, topic: str, target: str) -> None:
    consumer = talk.consumer(topic, subscriptionType="Shared")
    talk.world.send(target, "a")
    _acknowledge(consumer, consumer.hear())
    talk.world.send_batch(target, "a", "b")
    consumer.hear(2)
    consumer.close()
    talk.consumer(topic, subscriptionType="Shared").hear(2)


def acknowledging(w: World) -> Outcome:
    """Acknowledgements are not answered; what was acknowledged does not come again."""

    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic)
        w.send(topic, "a", "b", "c")
        first = consumer.hear()
        _acknowledge(consumer, first)
        _acknowledge(consumer, first)
        consumer.say({"messageId": consumer.hear()["messageId"], "type": "acknowledge", "unknown": 1})
        consumer.hear()
        consumer.hear_nothing()
        assert w.settled(lambda: w.backlog(topic), 1, 10) == 1
        consumer.close()
        talk.consumer(topic).hear()

    return exchange(w, script)


def negatively_acknowledging(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic, subscriptionType="Shared", negativeAckRedeliveryDelay="100")
        w.send(topic, "a")
        for _ in range(2):
            consumer.say({"type": "negativeAcknowledge", "messageId": consumer.hear()["messageId"]})
        consumer.hear()

    return exchange(w, script)


def commands_that_are_refused(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        w.send(topic, "a")
        given: list[Any] = [
            {},
            {"messageId": ""},
            {"messageId": None},
            {"messageId": "AAAA"},
            {"messageId": "%"},
            {"messageId": 5},
            {"messageId": {}},
            {"type": "unknown"},
            {"type": 5},
            {"type": {}},
            {"type": "negativeAcknowledge"},
            {"type": "permit"},
            {"type": "permit", "permitMessages": "two"},
            {"type": "permit", "permitMessages": True},
            {"type": "permit", "permitMessages": 1 << 31},
            {"type": "permit", "permitMessages": ""},
            "",
            "not JSON",
            "null",
            "[]",
        ]
        for command in given:
            consumer = talk.consumer(topic)
            consumer.say(command)
            consumer.hear_nothing()
            talk.heard[-1] = [command, talk.heard[-1]]
            consumer.close()

    return exchange(w, script)


def permits_in_pull_mode(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic, pullMode="true")
        w.send(topic, *"abcdefgh")
        consumer.hear_nothing()
        for permits, expected in (2, 2), ("2", 2), (1.9, 1), (" 1 ", 1):
            consumer.say({"type": "permit", "permitMessages": permits})
            heard = [consumer.hear() for _ in range(expected)]
            consumer.hear_nothing()
            for message in heard:
                _acknowledge(consumer, message)
        consumer.hear_nothing()

    return exchange(w, script)


def permits_for_nothing(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic, pullMode="true")
        w.send(topic, *"ab")
        for permits in 0, -1:
            consumer.say({"type": "permit", "permitMessages": permits})
            consumer.hear_nothing()

    return exchange(w, script)


def a_small_window(w: World) -> Outcome:
    """`receiverQueueSize` messages come before one is acknowledged."""

    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic, receiverQueueSize="2")
        w.send(topic, *"abcd")
        first, second = consumer.hear(), consumer.hear()
        consumer.hear_nothing()
        _acknowledge(consumer, first)
        consumer.hear()
        consumer.hear_nothing()
        consumer.say({"type": "permit", "permitMessages": 5})
        consumer.hear_nothing()
        _acknowledge(consumer, second)
        consumer.hear()

    return exchange(w, script)


def the_end_of_a_topic(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic)
        consumer.ask({"type": "isEndOfTopic"})
        w.send(topic, "a")
        message = consumer.hear()
        assert w.admin("POST", f"{topic_path(topic)}/terminate").status == 200
        _acknowledge(consumer, message)
        consumer.hear_nothing()
        assert w.settled(lambda: w.backlog(topic), 0, 10) == 0
        consumer.ask({"type": "isEndOfTopic"})

    return exchange(w, script)


def unsubscribing(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic, subscriptionType="Shared")
        consumer.say({"type": "unsubscribe"})
        consumer.hear_nothing()
        w.settled(lambda: sorted(w.stats(topic)["subscriptions"]), [], 10)
        talk.heard.append(sorted(w.stats(topic)["subscriptions"]))
        consumer.say({"type": "isEndOfTopic"})
        consumer.hear_nothing()

    return exchange(w, script)


def the_topic_is_unloaded(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic)
        assert w.admin("PUT", f"{topic_path(topic)}/unload").status == 204
        w.send(topic, "a")
        consumer.hear()
        consumer.hear_nothing()

    return exchange(w, script)


def what_was_held_when_the_topic_is_unloaded(w: World) -> Outcome:
    """It comes again; an acknowledgement of it counts, whether its id was received before or after."""

    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic, subscriptionType="Shared")
        w.send(topic, "a", "b")
        first, _ = consumer.hear(), consumer.hear()
        assert w.admin("PUT", f"{topic_path(topic)}/unload").status == 204
        consumer.hear(2)
        _acknowledge(consumer, first)
        assert w.settled(lambda: w.backlog(topic), 1, 10) == 1
        w.send(topic, "c")
        _acknowledge(consumer, consumer.hear())
        assert w.settled(lambda: w.backlog(topic), 1, 10) == 1

    return exchange(w, script)


def a_window_over_an_unload(w: World) -> Outcome:
    """What a client may be sent is the same before and after."""

    def script(talk: Frames) -> None:
        topic = w.topic()
        clients = [talk.consumer(topic, receiverQueueSize="2"), talk.consumer(topic, "pulling", pullMode="true")]
        clients[1].say({"type": "permit", "permitMessages": 2})
        clients[1].hear_nothing()
        assert w.admin("PUT", f"{topic_path(topic)}/unload").status == 204
        w.send(topic, *"bcde")
        for client in clients:
            client.hear(2)
            client.hear_nothing()

    return exchange(w, script)


def without_a_durable_subscription_over_an_unload(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic, subscriptionMode="NonDurable")
        w.send(topic, "a", "b")
        for _ in range(2):
            _acknowledge(consumer, consumer.hear())
        assert w.admin("PUT", f"{topic_path(topic)}/unload").status == 204
        w.send(topic, "c")
        consumer.hear()
        consumer.hear_nothing()

    return exchange(w, script)


def the_end_of_an_unloaded_topic(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic)
        assert w.admin("PUT", f"{topic_path(topic)}/unload").status == 204
        assert w.admin("POST", f"{topic_path(topic)}/terminate").status == 200
        consumer.hear_nothing()
        consumer.ask({"type": "isEndOfTopic"})

    return exchange(w, script)


def the_topic_is_deleted(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic)
        assert w.admin("DELETE", f"{topic_path(topic)}?force=true").status == 204
        consumer.hear_nothing()

    return exchange(w, script)


def the_subscription_is_deleted(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        consumer = talk.consumer(topic)
        assert w.admin("DELETE", f"{topic_path(topic)}/subscription/s?force=true").status == 204
        consumer.hear_nothing()
        w.send(topic, "a")
        consumer.hear_nothing()

    return exchange(w, script)


def options(w: World) -> Outcome:
    """Query parameters: which are taken, and with which status the others are refused. One that is taken is said by its answer."""
    given = [
        ("subscriptionType", "Key_Shared"),
        ("subscriptionType", "KeyShared"),
        ("subscriptionType", "shared"),
        ("subscriptionMode", "NonDurable"),
        ("subscriptionMode", "never"),
        ("subscriptionInitialPosition", "Earliest"),
        ("subscriptionInitialPosition", "first"),
        ("receiverQueueSize", "0"),
        ("receiverQueueSize", "-1"),
        ("receiverQueueSize", "100000"),
        ("receiverQueueSize", "many"),
        ("consumerName", "me"),
        ("priorityLevel", "3"),
        ("priorityLevel", "-1"),
        ("ackTimeoutMillis", "1000"),
        ("ackTimeoutMillis", "999"),
        ("ackTimeoutMillis", "0"),
        ("negativeAckRedeliveryDelay", "0"),
        ("negativeAckRedeliveryDelay", "x"),
        ("pullMode", "TRUE"),
        ("cryptoFailureAction", "DISCARD"),
        ("unknown", "1"),
    ]
    return exchange(w, lambda talk: _open_with(talk, given))


def options_that_are_not_valid(w: World) -> Outcome:
    return exchange(w, lambda talk: _open_with(talk, [("pullMode", "maybe"), ("cryptoFailureAction", "x")]))


def of_a_subscription_that_is_taken(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.topic()
        talk.consumer(topic)
        talk.consumer(topic)
        talk.consumer(topic, subscriptionType="Shared")

    return exchange(w, script)


def _open_with(talk: Frames, given: list[tuple[str, str]]) -> None:
    for number, (name, value) in enumerate(given):
        before = len(talk.heard)
        consumer = talk.consumer(talk.world.topic(f"{number}"), **{name: value})
        if len(talk.heard) == before:
            consumer.ask({"type": "isEndOfTopic"})
        talk.heard[-1] = [name, value, talk.heard[-1]]
        consumer.close()


def _acknowledge(consumer: FrameClient, message: Any) -> None:
    consumer.say({"messageId": message["messageId"]})
