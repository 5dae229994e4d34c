"""Local sessions on the real broker: batches that are acknowledged in part, and the end of a terminated topic."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.topics import TopicRef
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.consumer import LocalConsumer
from messaging.broker.runtime.local.messages import DeliveredMessage, EncryptionContext, EncryptionKey, OutgoingMessage
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.main import start
from messaging.errors import MagnetarError
from messaging.identity import create_secrets
from messaging.permissions.model import Principal
from messaging.protocol.names import parse_topic
from messaging.settings import Settings
from messaging.storage.ledger_store import Position
from tests.support.clients.batches import single, store, store_frame
from tests.support.clients.raw_client import encrypted_frame
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"
ADMIN = Principal("admin")
CHANGES = [
    FeedChange(version=1, kind="tenant", key="acme", state={"admin_roles": [], "allowed_clusters": ["standalone"]}),
    FeedChange(version=2, kind="namespace", key="acme/orders", state={"policies": {}, "grants": {}}),
]


class Inbox:
    def __init__(self) -> None:
        self.messages: list[DeliveredMessage] = []
        self.ended = 0

    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        self.messages += messages

    def closed(self, error: MagnetarError | None) -> None: ...

    def end_of_topic(self) -> None:
        self.ended += 1


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    settings = Settings(data_dir=str(tmp_path), broker_port=0, ws_port=0, broker_rpc_port=0)
    create_secrets(settings)
    async with AsyncExitStack() as stack:
        service = await start(settings, stack)
        await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=2, full=True, changes=CHANGES))
        yield service
        await service.stop()


async def publish_batch(broker: Broker, payloads: list[bytes]) -> Position:
    return await store(broker, TOPIC, b"".join(map(single, payloads)), len(payloads))


async def consume(broker: Broker, inbox: Inbox) -> LocalConsumer:
    return await LocalSessions(broker).open_consumer(ADMIN, TOPIC, "s", "Shared", "earliest", True, None, inbox)


async def test_messages_acknowledged_before_take_no_permits(broker: Broker) -> None:
    first, second = Inbox(), Inbox()
    consumer = await consume(broker, first)
    await publish_batch(broker, [b"a%d" % index for index in range(20)])
    await publish_batch(broker, [b"b%d" % index for index in range(3)])
    consumer.flow(20)
    await eventually(lambda: len(first.messages) >= 20)
    await consumer.ack([message.position for message in first.messages[:20:2]])
    consumer.close()
    consumer = await consume(broker, second)
    # One permit at a time, as a client with a window of one gives them: every open message comes, and none twice.
    for count in range(1, 14):
        consumer.flow(1)
        await eventually(lambda count=count: len(second.messages) >= count)  # type: ignore[misc]
    assert [message.payload for message in second.messages] == [b"a%d" % index for index in range(1, 20, 2)] + [b"b0", b"b1", b"b2"]
    await consumer.ack([message.position for message in second.messages])
    topic = await broker.topics.get(parse_topic(TOPIC), create=False)
    assert topic.subscriptions.table["s"].backlog_entries == 0


async def test_the_end_of_a_terminated_topic_is_told_once_when_all_is_acknowledged(broker: Broker) -> None:
    inbox = Inbox()
    consumer = await consume(broker, inbox)
    await publish_batch(broker, [b"only"])
    consumer.flow(10)
    await eventually(lambda: inbox.messages)
    await AdminHandlers(broker).topics.terminate(TopicRef(topic=TOPIC))
    assert inbox.ended == 0
    await consumer.ack([inbox.messages[0].position])
    await eventually(lambda: inbox.ended)
    consumer.flow(1)
    late = Inbox()
    (await consume(broker, late)).flow(1)
    await eventually(lambda: late.ended)
    assert inbox.ended == 1


@pytest.mark.parametrize("wrong", [OutgoingMessage(b"x", sequence_id=-1), OutgoingMessage(b"x", event_time_ms=-1)])
async def test_a_message_that_cannot_be_written_is_answered_and_stops_nobody(broker: Broker, wrong: OutgoingMessage) -> None:
    """A sequence id of -1 raised behind the session: neither it nor what came with it was stored or answered."""
    producer = await LocalSessions(broker).open_producer(ADMIN, TOPIC, None, Inbox())
    answers: list[MagnetarError | None] = []
    producer.publish([wrong], lambda positions, error: answers.append(error))
    producer.publish([OutgoingMessage(b"y", sequence_id=2**63 - 1)], lambda positions, error: answers.append(error))
    producer.publish([OutgoingMessage(b"z")], lambda positions, error: answers.append(error))
    await eventually(lambda: len(answers) == 3)
    assert sorted(type(answer).__name__ for answer in answers) == ["InvalidValue", "InvalidValue", "NoneType"]
    producer.close()


async def test_an_encrypted_batch_is_not_unpacked_and_comes_with_what_decrypting_it_needs(broker: Broker) -> None:
    inbox = Inbox()
    await store_frame(broker, TOPIC, encrypted_frame(0, b"\x00secret", count=3))
    consumer = await consume(broker, inbox)
    consumer.flow(10)
    await eventually(lambda: inbox.messages)
    [message] = inbox.messages
    assert (message.payload, message.position.batch_index, message.encryption is not None) == (b"\x00secret", -1, True)
    assert message.encryption == EncryptionContext(
        {"app": EncryptionKey(b"\x00key\xff", {"version": "1"})}, b"nonce", "", "LZ4", 70, 3
    )
    await consumer.ack([message.position])
    topic = await broker.topics.get(parse_topic(TOPIC), create=False)
    assert topic.subscriptions.table["s"].backlog_entries == 0


async def test_messages_without_a_value_stay_so(broker: Broker) -> None:
    inbox = Inbox()
    producer = await LocalSessions(broker).open_producer(ADMIN, TOPIC, None, inbox)
    consumer = await consume(broker, inbox)
    consumer.flow(10)
    producer.publish([OutgoingMessage(b"", key="k", null_value=True), OutgoingMessage(b"", key="k")], lambda positions, error: None)
    await store(broker, TOPIC, single(b"x") + single(b"", null_value=True), 2)
    await eventually(lambda: len(inbox.messages) == 4)
    assert [(one.payload, one.null_value) for one in inbox.messages] == [(b"", True), (b"", False), (b"x", False), (b"", True)]
