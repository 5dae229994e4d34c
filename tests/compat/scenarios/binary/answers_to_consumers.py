"""Every field of the answers that consumers get, messages included."""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb
from tests.compat.scenarios.binary.conversation import Conversation, converse
from tests.compat.scenarios.world import Outcome, World, topic_path
from tests.support.clients.raw_client import RawClient, Received, batch_frame, send_frame

_SHARED, _KINDS = pb.Subscribe.Shared, pb.Subscribe


async def _subscribed(talk: Conversation, client: RawClient, topic: str, consumer_id: int = 1, **fields: object) -> None:
    await talk.serve(client, topic)
    fields = {"sub_type": _SHARED, "subscription": "s", "initial_position": _KINDS.Earliest} | fields
    await talk.ask(client, pb.Command.SUBSCRIBE, topic=topic, consumer_id=consumer_id, **fields)


async def _received(talk: Conversation, client: RawClient, count: int = 1, consumer_id: int = 1) -> Received:
    client.say(pb.Command.FLOW, consumer_id=consumer_id, message_permits=count)
    return await talk.hear(client, count)


def subscribing(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        first, second, topic = await talk.client(), await talk.client(), w.topic()
        await _subscribed(talk, first, topic, sub_type=_KINDS.Exclusive)
        await _subscribed(talk, second, topic, sub_type=_KINDS.Exclusive)
        await _subscribed(talk, second, topic)
        await _subscribed(talk, second, topic, 2, subscription="other", schema=pb.Schema(name="s", schema_data=b"", type=1))
        await _subscribed(talk, second, topic, 3, subscription="third", schema=pb.Schema(name="s", schema_data=b"", type=7))
        absent = w.topic("absent")
        await talk.serve(second, absent)
        await _subscribed(talk, second, absent, 4, force_topic_creation=False)
        await talk.ask(second, pb.Command.CLOSE_CONSUMER, consumer_id=9)
        await talk.ask(second, pb.Command.UNSUBSCRIBE, consumer_id=9)
        await talk.ask(second, pb.Command.UNSUBSCRIBE, consumer_id=2)
        await talk.ask(first, pb.Command.CLOSE_CONSUMER, consumer_id=1)

    return converse(w, script)


def failing_over(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        first, second, topic = await talk.client(), await talk.client(), f"{w.partitioned(1)}-partition-0"
        for client, name in ((first, "a"), (second, "b")):
            await _subscribed(talk, client, topic, sub_type=_KINDS.Failover, consumer_name=name)
            await talk.hear(client)
            talk.answers[-2:] = sorted(talk.answers[-2:], key=str)  # which comes first is open
        await talk.ask(first, pb.Command.CLOSE_CONSUMER, consumer_id=1)
        await talk.hear(second)

    return converse(w, script)


def receiving(w: World) -> Outcome:
    """Messages as they come first, again, of a batch in part, and of other kinds of topics."""

    async def script(talk: Conversation) -> None:
        client, topic, unstored = await talk.client(), w.topic(), w.unstored_topic()
        part = f"{w.partitioned(1)}-partition-0"
        for number, name in enumerate((topic, part, unstored), 1):
            await _subscribed(talk, client, name, number)
            await talk.ask(client, pb.Command.PRODUCER, topic=name, producer_id=number)
        for number in (1, 2):
            client.write(send_frame(0, b"a", number), batch_frame(1, [b"b", b"c"], number))
            await talk.hear(client, 2)
            await _received(talk, client, 1, number)
            batch = await _received(talk, client, 2 if number == 9 else 1, number)
            part_of = pb.MessageId(
                ledger_id=batch.body.message_id.ledger_id, entry_id=batch.body.message_id.entry_id, ack_set=[2], batch_size=2
            )
            client.say(pb.Command.ACK, consumer_id=number, ack_type=pb.Ack.Individual, message_id=[part_of])
            client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=number)
            client.say(pb.Command.FLOW, consumer_id=number, message_permits=10)
            await talk.hear(client, 2)
        client.say(pb.Command.FLOW, consumer_id=3, message_permits=1)
        client.write(send_frame(0, b"a", 3))
        await talk.hear(client, 2)
        talk.answers[-2:] = sorted(talk.answers[-2:], key=str)  # which comes first is open

    return converse(w, script)


def receiving_with_an_epoch(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, topic = await talk.client(), w.topic()
        w.send(topic, "a")
        await _subscribed(talk, client, topic, sub_type=_KINDS.Exclusive, consumer_epoch=3)
        await _received(talk, client)
        client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, consumer_epoch=4)
        await _received(talk, client)

    return converse(w, script)


def acknowledging(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, topic = await talk.client(), w.topic()
        w.send(topic, "a", "b")
        await _subscribed(talk, client, topic)
        message = await _received(talk, client)
        given = {"consumer_id": 1, "message_id": [message.body.message_id]}
        await talk.ask(client, pb.Command.ACK, **given, ack_type=pb.Ack.Individual, request_id=7)
        await talk.ask(client, pb.Command.ACK, **given, ack_type=pb.Ack.Individual, request_id=8)

    return converse(w, script)


def last_ids(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, kind = await talk.client(), pb.Command.GET_LAST_MESSAGE_ID
        empty, topic, part = w.topic("empty"), w.topic(), f"{w.partitioned(1)}-partition-0"
        for number, name in enumerate((empty, topic, part), 1):
            await _subscribed(talk, client, name, number)
            await talk.ask(client, kind, consumer_id=number)
        w.send(topic, "a")
        await talk.ask(client, kind, consumer_id=2)
        message = await _received(talk, client, 1, 2)
        client.say(pb.Command.ACK, consumer_id=2, ack_type=pb.Ack.Individual, message_id=[message.body.message_id], request_id=7)
        await client.expect("ACK_RESPONSE")
        await talk.ask(client, kind, consumer_id=2)
        w.send_batch(part, "a", "b")
        await talk.ask(client, kind, consumer_id=3)
        await talk.ask(client, kind, consumer_id=9)

    return converse(w, script)


def statistics(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, topic = await talk.client(), w.topic()
        w.send(topic, "a", "b")
        await _subscribed(talk, client, topic, consumer_name="c")
        await _received(talk, client)
        client.say(pb.Command.FLOW, consumer_id=1, message_permits=5)
        await talk.hear(client)
        await talk.ask(client, pb.Command.CONSUMER_STATS, consumer_id=1)

    return converse(w, script)


def seeking(w: World) -> Outcome:
    """What comes of a seek, and of what ends a consumer from outside."""

    async def script(talk: Conversation) -> None:
        client, topic = await talk.client(), w.topic()
        w.send(topic, "a", "b")
        await _subscribed(talk, client, topic)
        client.say(pb.Command.SEEK, consumer_id=1, message_publish_time=1)
        await talk.hear(client, 2)
        await talk.ask(client, pb.Command.SEEK, consumer_id=9, message_publish_time=1)
        await _subscribed(talk, client, topic)
        await talk.admin("PUT", f"{topic_path(topic)}/unload")
        await talk.hear(client)

    return converse(w, script)


def the_end_of_a_topic(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, topic = await talk.client(version="Pulsar-Java-v4.0.8"), w.topic()
        w.send(topic, "a")
        await _subscribed(talk, client, topic)
        message = await _received(talk, client)
        client.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=[message.body.message_id], request_id=7)
        await client.expect("ACK_RESPONSE")
        await talk.admin("POST", f"{topic_path(topic)}/terminate")
        await talk.hear(client)
        await talk.ask(client, pb.Command.GET_LAST_MESSAGE_ID, consumer_id=1)

    return converse(w, script)
