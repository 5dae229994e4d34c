"""Every field of the answers that producers get."""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb
from tests.compat.scenarios.binary.conversation import Conversation, converse
from tests.compat.scenarios.world import Outcome, World, topic_path
from tests.support.clients.raw_client import batch_frame, send_frame

_TEXT = pb.Schema(name="s", schema_data=b"", type=1)
_NUMBER = pb.Schema(name="s", schema_data=b"", type=7)


def opening(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, kind, topic, plain = await talk.client(), pb.Command.PRODUCER, w.topic("typed"), w.topic("plain")
        await talk.serve(client, topic, plain)
        await talk.ask(client, kind, topic=plain, producer_id=1)
        await talk.ask(client, kind, topic=plain, producer_id=2, producer_name="mine")
        await talk.ask(client, kind, topic=plain, producer_id=3, producer_name="mine")
        await talk.ask(client, kind, topic=topic, producer_id=4, schema=_TEXT)
        await talk.ask(client, kind, topic=topic, producer_id=5, schema=_NUMBER)
        await talk.ask(client, kind, topic=topic, producer_id=6)
        await talk.ask(client, kind, topic=w.partitioned(1) + "-partition-7", producer_id=7)
        await talk.ask(client, pb.Command.CLOSE_PRODUCER, producer_id=1)
        await talk.ask(client, pb.Command.CLOSE_PRODUCER, producer_id=9)

    return converse(w, script)


def sharing(w: World) -> Outcome:
    """Access modes: who waits, who is refused, and what happens to who was there."""

    async def script(talk: Conversation) -> None:
        kind, topic, modes = pb.Command.PRODUCER, w.topic(), pb.Producer
        first, second, third = [await talk.client() for _ in range(3)]
        await talk.serve(first, topic)
        opened = {"topic": topic, "producer_id": 1}
        await talk.ask(first, kind, **opened, producer_access_mode=modes.Exclusive)
        await talk.ask(second, kind, **opened)
        await talk.ask(second, kind, **opened, producer_access_mode=modes.Exclusive)
        await talk.ask(second, kind, **opened, producer_access_mode=modes.WaitForExclusive)
        await talk.ask(first, pb.Command.CLOSE_PRODUCER, producer_id=1)
        await talk.hear(second)
        await talk.ask(third, kind, **opened, producer_access_mode=modes.ExclusiveWithFencing)

    return converse(w, script)


def sending(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client = await talk.client()
        topics = [w.topic(), f"{w.partitioned(1)}-partition-0", w.unstored_topic()]
        await talk.serve(client, *topics)
        for number, topic in enumerate(topics, 1):
            await talk.ask(client, pb.Command.PRODUCER, topic=topic, producer_id=number)
            client.write(send_frame(0, b"a", number), batch_frame(1, [b"b", b"c"], number))
            await talk.hear(client, 2)
        damaged = bytearray(send_frame(3, b"a"))
        damaged[-1] ^= 1
        client.write(bytes(damaged))
        await talk.hear(client)

    return converse(w, script)


def deduplicated(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, topic = await talk.client(), f"{w.namespace(deduplication=True)}t"
        await talk.serve(client, topic)
        await talk.ask(client, pb.Command.PRODUCER, topic=topic, producer_id=1, producer_name="raw")
        client.write(send_frame(0, b"a"), batch_frame(1, [b"b", b"c"]))
        await talk.hear(client, 2)
        await talk.ask(client, pb.Command.CLOSE_PRODUCER, producer_id=1)
        await talk.ask(client, pb.Command.PRODUCER, topic=topic, producer_id=1, producer_name="raw")

    return converse(w, script)


def closed_by_the_broker(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, topic, ended = await talk.client(), w.topic(), w.topic("ended")
        await talk.serve(client, topic, ended)
        await talk.ask(client, pb.Command.PRODUCER, topic=topic, producer_id=1)
        await talk.admin("PUT", f"{topic_path(topic)}/unload")
        await talk.hear(client)
        w.send(ended, "a")
        await talk.admin("POST", f"{topic_path(ended)}/terminate")
        await talk.ask(client, pb.Command.PRODUCER, topic=ended, producer_id=3)

    return converse(w, script)
