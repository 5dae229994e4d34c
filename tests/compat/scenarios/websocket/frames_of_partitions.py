"""WebSockets on a partitioned topic: consumers and readers of all its partitions, and producers."""

from __future__ import annotations

from typing import Any

from messaging.message_id import decode_message_id, encode_message_id
from tests.compat.scenarios.websocket.frames import FrameClient, Frames, exchange, payload
from tests.compat.scenarios.world import Outcome, World, topic_path


def acknowledging(w: World) -> Outcome:
    """An acknowledgement reaches the partition that its id names."""

    def script(talk: Frames) -> None:
        topic = w.partitioned(3)
        consumer = talk.consumer(topic, subscriptionType="Shared")
        _send_to_each(w, topic, 3)
        heard = _hear_all(talk, consumer, 3)
        consumer.say({"messageId": heard[1]["messageId"]})
        talk.heard.append(_backlogs(w, topic, [1, 0, 1]))
        consumer.say({"messageId": heard[2]["messageId"], "type": "acknowledge"})
        talk.heard.append(_backlogs(w, topic, [1, 0, 0]))
        consumer.close()
        talk.consumer(topic, subscriptionType="Shared").hear()

    return exchange(w, script)


def acknowledging_what_no_partition_has(w: World) -> Outcome:
    """Ids without a partition, with one that the topic does not have, and of an entry that is not there."""

    def script(talk: Frames) -> None:
        for number, (entry_id, partition) in enumerate(((0, -1), (0, 7), (99, 0))):
            topic = w.partitioned(2, f"t{number}")
            consumer = talk.consumer(topic)
            w.send(f"{topic}-partition-0", "a")
            ledger_id = decode_message_id(consumer.hear()["messageId"]).ledger_id
            consumer.say({"messageId": encode_message_id(ledger_id, entry_id, -1, partition)})
            consumer.hear_nothing()
            talk.heard.append(_backlogs(w, topic, [1, 0]))

    return exchange(w, script)


def negatively_acknowledging(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        consumer = talk.consumer(topic, subscriptionType="Shared", negativeAckRedeliveryDelay="100")
        _send_to_each(w, topic, 2)
        for message in _hear_all(talk, consumer, 2):
            consumer.say({"type": "negativeAcknowledge", "messageId": message["messageId"]})
        _hear_all(talk, consumer, 2)

    return exchange(w, script)


def an_acknowledgement_timeout(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        consumer = talk.consumer(topic, subscriptionType="Shared", ackTimeoutMillis="1000")
        _send_to_each(w, topic, 2)
        first, _ = _hear_all(talk, consumer, 2)
        consumer.say({"messageId": first["messageId"]})
        consumer.hear()

    return exchange(w, script)


def a_small_window(w: World) -> Outcome:
    """`receiverQueueSize` messages come of all partitions together."""

    def script(talk: Frames) -> None:
        topic = w.partitioned(3)
        consumer = talk.consumer(topic, receiverQueueSize="2")
        for _ in range(2):
            _send_to_each(w, topic, 3)
        seen = [consumer.hear() for _ in range(2)]
        consumer.hear_nothing()
        for _ in range(4):
            consumer.say({"messageId": seen[-1]["messageId"]})
            seen.append(consumer.hear())
            consumer.hear_nothing()
        talk.heard[:] = [heard if heard == "silence" else "message" for heard in talk.heard]
        talk.heard.append(sorted(list(decode_message_id(message["messageId"])[1:]) for message in seen))

    return exchange(w, script)


def permits_in_pull_mode(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(3)
        consumer = talk.consumer(topic, pullMode="true")
        for _ in range(2):
            _send_to_each(w, topic, 3)
        consumer.hear_nothing()
        seen: list[Any] = []
        for permits in 1, 3, 2:
            consumer.say({"type": "permit", "permitMessages": permits})
            seen += [consumer.hear() for _ in range(permits)]
            consumer.hear_nothing()
        talk.heard[:] = [heard if heard == "silence" else "message" for heard in talk.heard]
        talk.heard.append(sorted(list(decode_message_id(message["messageId"])[1:]) for message in seen))

    return exchange(w, script)


def the_order_of_a_partition(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        for number in range(2):
            w.send(f"{topic}-partition-{number}", *"abcde")
        consumer = talk.consumer(topic, subscriptionInitialPosition="Earliest", receiverQueueSize="3")
        seen = []
        for _ in range(10):
            seen.append(consumer.hear())
            consumer.say({"messageId": seen[-1]["messageId"]})
        talk.heard[:] = [
            [message["payload"] for message in seen if decode_message_id(message["messageId"]).partition == number]
            for number in range(2)
        ]
        talk.heard.append(_backlogs(w, topic, [0, 0]))

    return exchange(w, script)


def batches(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        consumer = talk.consumer(topic, subscriptionType="Shared")
        for number in range(2):
            w.send_batch(f"{topic}-partition-{number}", "a", "b")
        for message in _hear_all(talk, consumer, 4):
            if decode_message_id(message["messageId"]).partition:
                consumer.say({"messageId": message["messageId"]})
        talk.heard.append(_backlogs(w, topic, [2, 0]))

    return exchange(w, script)


def the_end_of_a_topic(w: World) -> Outcome:
    """It is the end of all partitions."""

    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        consumer = talk.consumer(topic)
        consumer.ask({"type": "isEndOfTopic"})
        w.send(f"{topic}-partition-0", "a")
        message = consumer.hear()
        assert w.admin("POST", f"{topic_path(topic)}-partition-1/terminate").status == 200
        consumer.hear_nothing()
        consumer.ask({"type": "isEndOfTopic"})
        assert w.admin("POST", f"{topic_path(topic)}/terminate/partitions").status == 200
        consumer.say({"messageId": message["messageId"]})
        talk.heard.append(_backlogs(w, topic, [0, 0]))
        consumer.hear_nothing()
        consumer.ask({"type": "isEndOfTopic"})

    return exchange(w, script)


def unsubscribing(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        consumer = talk.consumer(topic, subscriptionType="Shared")
        consumer.say({"type": "unsubscribe"})
        consumer.hear_nothing()
        talk.heard.append(_subscriptions(w, topic, [[], []]))
        consumer.say({"type": "isEndOfTopic"})
        consumer.hear_nothing()

    return exchange(w, script)


def unsubscribing_beside_another(w: World) -> Outcome:
    """One of its partitions has another consumer."""

    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        consumer = talk.consumer(topic, subscriptionType="Shared")
        talk.consumer(f"{topic}-partition-1", subscriptionType="Shared")
        consumer.say({"type": "unsubscribe"})
        consumer.hear_nothing()
        talk.heard.append(_subscriptions(w, topic, [["s"], ["s"]]))

    return exchange(w, script)


def a_subscription_that_is_taken(w: World) -> Outcome:
    """Of all partitions, or of one."""

    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        talk.consumer(topic)
        talk.consumer(topic)
        talk.consumer(topic, subscriptionType="Shared")
        other = w.partitioned(2, "other")
        talk.consumer(f"{other}-partition-1")
        talk.consumer(other)
        talk.heard.append(_consumers(w, other, [0, 1]))

    return exchange(w, script)


def failover(w: World) -> Outcome:
    """The partitions are shared out among the consumers."""

    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        first = talk.consumer(topic, subscriptionType="Failover", consumerName="a")
        second = talk.consumer(topic, subscriptionType="Failover", consumerName="b")
        _send_to_each(w, topic, 2)
        first.hear()
        second.hear()
        first.hear_nothing()
        second.hear_nothing()
        first.close()
        second.hear()

    return exchange(w, script)


def keys_that_are_shared_out(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        consumer = talk.consumer(topic, subscriptionType="Key_Shared")
        producer = w.producer(topic)
        for key in "abcd":
            producer.send(key.encode(), partition_key=key)
        _hear_all(talk, consumer, 4)

    return exchange(w, script)


def without_a_durable_subscription(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        consumer = talk.consumer(topic, subscriptionMode="NonDurable")
        _send_to_each(w, topic, 2)
        for message in _hear_all(talk, consumer, 2):
            consumer.say({"messageId": message["messageId"]})
        consumer.close()
        talk.heard.append(_subscriptions(w, topic, [[], []]))

    return exchange(w, script)


def non_persistent(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.unstored_topic("parts")
        assert w.admin("PUT", f"{topic_path(topic)}/partitions", 2).status == 204
        consumer = talk.consumer(topic, subscriptionType="Shared")
        _send_to_each(w, topic, 2)
        _hear_all(talk, consumer, 2)

    return exchange(w, script)


def the_topic_is_unloaded(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        consumer = talk.consumer(topic)
        assert w.admin("PUT", f"{topic_path(topic)}/unload").status == 204
        _send_to_each(w, topic, 2)
        _hear_all(talk, consumer, 2)

    return exchange(w, script)


def reading(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        _send_to_each(w, topic, 2)
        latest, earliest = talk.reader(topic), talk.reader(topic, messageId="earliest")
        _hear_all(talk, earliest, 2)
        _send_to_each(w, topic, 2)
        _hear_all(talk, earliest, 2)
        _hear_all(talk, latest, 2)
        latest.ask({"type": "isEndOfTopic"})
        assert w.admin("POST", f"{topic_path(topic)}/terminate/partitions").status == 200
        latest.hear_nothing()
        latest.ask({"type": "isEndOfTopic"})

    return exchange(w, script)


def reading_from_a_message(w: World) -> Outcome:
    """The id of a message of one of the partitions, with and without its number."""

    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        ids = w.send(f"{topic}-partition-1", "a", "b")
        w.send(f"{topic}-partition-0", "a", "b")
        for partition in 1, -1, 7:
            start = encode_message_id(ids[0].ledger_id(), ids[0].entry_id(), -1, partition)
            before = len(talk.heard)
            reader = talk.reader(topic, messageId=start)
            if len(talk.heard) == before:
                for _ in range(4):
                    reader.hear_nothing()
            talk.heard[before:] = [[partition, sorted(talk.heard[before:], key=str)]]

    return exchange(w, script)


def a_small_window_of_a_reader(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        reader = talk.reader(topic, receiverQueueSize="1")
        _send_to_each(w, topic, 2)
        reader.hear()
        reader.hear_nothing()
        reader.say({})
        reader.hear()
        talk.heard[:] = [heard if heard == "silence" else "message" for heard in talk.heard]

    return exchange(w, script)


def publishing(w: World) -> Outcome:
    """A key chooses the partition; what has none goes to one of them, or to each in turn."""

    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        producer = talk.producer(topic)
        for key in "abcd":
            producer.ask({"payload": payload("a"), "key": key, "context": key})
        single = talk.producer(w.partitioned(2, "single"), messageRoutingMode="SinglePartition")
        partitions = {decode_message_id(_said(single)).partition for _ in range(4)}
        talk.heard[-4:] = [f"{len(partitions)} partition"]
        turns = talk.producer(w.partitioned(2, "turns"), messageRoutingMode="RoundRobinPartition")
        partitions = {decode_message_id(_said(turns)).partition for _ in range(4)}
        talk.heard[-4:] = [f"{len(partitions)} partitions"]

    return exchange(w, script)


def publishing_by_another_hash(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(8)
        for scheme in "JavaStringHash", "Murmur3_32Hash":
            producer = talk.producer(topic, hashingScheme=scheme)
            for key in "abcdef":
                producer.ask({"payload": payload("a"), "key": key})
            producer.close()

    return exchange(w, script)


def a_partition_ends(w: World) -> Outcome:
    def script(talk: Frames) -> None:
        topic = w.partitioned(2)
        producer = talk.producer(topic)
        assert w.admin("POST", f"{topic_path(topic)}-partition-1/terminate").status == 200
        for key in "abcd":
            producer.ask({"payload": payload("a"), "key": key})

    return exchange(w, script)


def a_topic_made_by_its_first_use(w: World) -> Outcome:
    """Where first use makes partitioned topics."""

    def script(talk: Frames) -> None:
        namespace = w.namespace()
        created = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}
        path = f"namespaces/{namespace.removeprefix('persistent://').rstrip('/')}/autoTopicCreation"
        assert w.admin("POST", path, created).status == 204
        for kind, parameters in ("consumer", ("s",)), ("reader", ()), ("producer", ()):
            talk.client(kind, f"{namespace}{kind}", *parameters)
            talk.heard.append([kind, w.admin("GET", f"{topic_path(namespace + kind)}/partitions").body["partitions"]])

    return exchange(w, script)


def _send_to_each(w: World, topic: str, partitions: int) -> None:
    for number in range(partitions):
        w.send(f"{topic}-partition-{number}", f"{number}")


def _hear_all(talk: Frames, client: FrameClient, count: int) -> list[Any]:
    """The next messages, by partition, entry and place in their batch, and recorded so."""
    at = len(talk.heard)
    messages = [client.hear() for _ in range(count)]
    talk.heard[at:] = sorted(talk.heard[at:], key=str)

    def place(message: Any) -> tuple[int, int, int]:
        identifier = decode_message_id(message["messageId"])
        return identifier.partition, identifier.entry_id, identifier.batch_index

    return sorted((message for message in messages if message is not None), key=place)


def _said(producer: FrameClient) -> str:
    producer.say({"payload": payload("a")})
    return str(producer.hear()["messageId"])


def _backlogs(w: World, topic: str, wanted: list[int]) -> list[int]:
    partitions = range(len(wanted))
    return list(w.settled(lambda: [w.backlog(f"{topic}-partition-{number}") for number in partitions], wanted, 10))


def _subscriptions(w: World, topic: str, wanted: list[list[str]]) -> list[list[str]]:
    def found() -> list[list[str]]:
        return [sorted(w.stats(f"{topic}-partition-{number}")["subscriptions"]) for number in range(len(wanted))]

    return list(w.settled(found, wanted, 3))


def _consumers(w: World, topic: str, wanted: list[int]) -> list[int]:
    def found() -> list[int]:
        subscriptions = [w.stats(f"{topic}-partition-{number}")["subscriptions"] for number in range(len(wanted))]
        return [len(subscription.get("s", {"consumers": []})["consumers"]) for subscription in subscriptions]

    return list(w.settled(found, wanted, 3))
