"""A broker in this process over any stores, with one namespace, used through local sessions: to test what storage does to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.messages import DeliveredMessage, MessagePosition, OutgoingMessage, ProducerHandle
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import MagnetarError
from messaging.identity import create_secrets
from messaging.permissions.model import Principal
from messaging.protocol.names import parse_topic
from messaging.settings import Settings
from messaging.storage.ledger_store import LedgerStore
from messaging.storage.managed.retention import LedgerLimits
from messaging.storage.meta_store import MetaStore
from tests.support.brokers.broker_over import broker_over
from tests.support.waiting import eventually

NAMESPACE = "acme/orders"
TOPIC = f"persistent://{NAMESPACE}/t"
ADMIN = Principal("admin")


class Inbox:
    """What a producer or consumer of a local session is told."""

    def __init__(self) -> None:
        self.messages: list[DeliveredMessage] = []
        self.ended: list[MagnetarError | None] = []

    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        self.messages += messages

    def closed(self, error: MagnetarError | None) -> None:
        self.ended.append(error)

    def end_of_topic(self) -> None: ...


async def storage_broker(
    folder: Path, ledgers: LedgerStore, meta: MetaStore, *, limits: LedgerLimits | None = None, **policies: Any
) -> Broker:
    """Starts `ledgers`; `meta` is started already. Stop it with `service.stop()`, or leave it as a crash would."""
    settings = Settings(data_dir=str(folder))
    create_secrets(settings)
    service = await broker_over(settings, ledgers, meta, limits=limits)
    changes = [
        FeedChange(version=1, kind="tenant", key="acme", state={"admin_roles": []}),
        FeedChange(version=1, kind="namespace", key=NAMESPACE, state={"policies": policies}),
    ]
    await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=1, full=True, changes=changes))
    return service


class Sender:
    """One open producer. Sequence ids are the numbers that it sends."""

    def __init__(self, producer: ProducerHandle, told: Inbox) -> None:
        self.producer = producer
        self.told = told

    @classmethod
    async def open(cls, service: Broker, name: str = "ingest", topic: str = TOPIC) -> Sender:
        told = Inbox()
        return cls(await LocalSessions(service).open_producer(ADMIN, topic, name, told), told)

    def send(self, first: int, stop: int, size: int = 0) -> asyncio.Future[list[MessagePosition]]:
        """One block of the numbers from `first` to before `stop`: the receipts, or what the producer was told instead."""
        return self.send_messages([OutgoingMessage(payload_of(number, size), sequence_id=number) for number in range(first, stop)])

    def send_messages(self, messages: Sequence[OutgoingMessage]) -> asyncio.Future[list[MessagePosition]]:
        answer: asyncio.Future[list[MessagePosition]] = asyncio.get_running_loop().create_future()

        def told(positions: Sequence[MessagePosition] | None, error: MagnetarError | None) -> None:
            if answer.done():
                return
            if error is not None or positions is None:
                answer.set_exception(error or AssertionError("neither receipts nor an error"))
            else:
                answer.set_result(list(positions))

        self.producer.publish(messages, told)
        return answer


async def publish(
    service: Broker, first: int, stop: int, *, name: str = "ingest", topic: str = TOPIC, size: int = 0
) -> list[MessagePosition]:
    """Sends one block through a new producer; its receipts. Raises what the producer was told."""
    sender = await Sender.open(service, name, topic)
    try:
        return await asyncio.wait_for(sender.send(first, stop, size), 10)
    finally:
        sender.producer.close()


def payload_of(number: int, size: int = 0) -> bytes:
    return b"%d" % number + b"." * size


async def stored_numbers(service: Broker, topic: str = TOPIC) -> dict[int, list[MessagePosition]]:
    """Number -> where `publish` stored it, read through a new reader from the beginning."""
    loaded: Topic = await service.topics.get(parse_topic(topic), create=False)
    inbox = Inbox()
    reader = await LocalSessions(service).open_consumer(
        ADMIN, topic, f"check-{time.time_ns()}", "Exclusive", "earliest", False, None, inbox
    )
    count = loaded.ledger_list.entries
    reader.flow(count + 1)
    await eventually(lambda: len(inbox.messages) >= count)
    reader.close()
    by_number: dict[int, list[MessagePosition]] = {}
    for message in inbox.messages:
        by_number.setdefault(int(message.payload.rstrip(b".")), []).append(message.position)
    return by_number
