"""Every way to open something on a topic against every way to close the topic, begun at each turn of the loop that opening takes.

Seen: a PRODUCER that raced terminate was admitted and published after it (20 of 20); a WebSocket consumer opened during an unload
was attached to a topic that was gone, and waited for ever (3 of 128).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from messaging.adminrpc.topics import TopicDelete, TopicRef
from messaging.broker.runtime.client_subscriptions import open_subscription
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import MagnetarError
from messaging.permissions.model import Principal
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from tests.support.clients.connections import DirectConnection
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
NAME = parse_topic(TOPIC)
TURNS_MAX = 200  # of the loop; opening takes far fewer, which is asserted


@dataclass
class Session:
    """What was opened, and what its owner was told."""

    connection: DirectConnection | None = None
    handle: Any = None
    told_closed: list[MagnetarError | None] = field(default_factory=list)

    # the sink of a session inside the process
    def deliver(self, messages: object) -> None: ...

    def closed(self, error: MagnetarError | None) -> None:
        self.told_closed.append(error)

    def end_of_topic(self) -> None: ...

    def open_on(self) -> list[Topic]:
        """The topics on which it believes to be open."""
        if self.connection is not None:
            return self.connection.topics()
        return [self.handle.topic] if self.handle is not None and self.handle.open else []

    def publish(self) -> None:
        if self.connection is not None and self.connection.endpoints.producers:
            self.connection.publish_message(b"late")
        elif self.handle is not None and hasattr(self.handle, "publish"):
            from messaging.broker.runtime.local.messages import OutgoingMessage

            self.handle.publish([OutgoingMessage(b"late")], lambda positions, error: None)


Opener = Callable[[BrokerWorld, Session], Awaitable[None]]
PRINCIPAL = Principal("admin")


def binary_producer(**fields: Any) -> Opener:
    async def act(world: BrokerWorld, session: Session) -> None:
        session.connection = DirectConnection(world)
        await session.connection.open_producer(TOPIC, **fields)

    return act


def binary_consumer(**fields: Any) -> Opener:
    async def act(world: BrokerWorld, session: Session) -> None:
        session.connection = DirectConnection(world)
        await session.connection.subscribe(TOPIC, **fields)

    return act


async def web_socket_producer(world: BrokerWorld, session: Session) -> None:
    session.handle = await world.sessions.open_producer(PRINCIPAL, TOPIC, None, session)


def web_socket_consumer(*, durable: bool) -> Opener:
    async def act(world: BrokerWorld, session: Session) -> None:
        session.handle = await world.sessions.open_consumer(PRINCIPAL, TOPIC, "w", "Shared", "earliest", durable, None, session)

    return act


OPENERS: dict[str, Opener] = {
    "PRODUCER": binary_producer(),
    "PRODUCER with an initial subscription": binary_producer(initial_subscription_name="first"),
    "SUBSCRIBE, new": binary_consumer(subscription="new"),
    "SUBSCRIBE, existing": binary_consumer(subscription="held"),
    "SUBSCRIBE, not durable": binary_consumer(subscription="reader", durable=False),
    "WebSocket producer": web_socket_producer,
    "WebSocket consumer": web_socket_consumer(durable=True),
    "WebSocket reader": web_socket_consumer(durable=False),
}


async def terminate(world: BrokerWorld) -> None:
    await world.admin.topics.terminate(TopicRef(topic=TOPIC))


async def unload(world: BrokerWorld) -> None:
    await world.admin.topics.unload(TopicRef(topic=TOPIC))


async def delete(world: BrokerWorld) -> None:
    await world.admin.topics.delete(TopicDelete(topic=TOPIC))


async def delete_by_force(world: BrokerWorld) -> None:
    await world.admin.topics.delete(TopicDelete(topic=TOPIC, force=True))


CLOSERS: dict[str, Callable[[BrokerWorld], Awaitable[None]]] = {
    "terminate": terminate,
    "unload": unload,
    "delete": delete,
    "delete by force": delete_by_force,
}


async def outcome(work: Awaitable[None]) -> MagnetarError | None:
    """The refusal, if it was one. Anything but a clear refusal is a failure of the test."""
    try:
        await asyncio.wait_for(work, 10)
    except MagnetarError as error:
        assert error.http_status != 500, error.message
        return error
    return None


async def prepare(world: BrokerWorld, closer: str) -> None:
    """The topic is stored, not loaded, and has a subscription unless that keeps it from being deleted."""
    await world.service.topics.create(NAME, {})
    topic = await world.service.topics.get(NAME, create=False)
    if closer != "delete":
        await open_subscription(world.service, Principal("admin"), topic, "held", start=EARLIEST)
    await world.service.topics.unload(NAME)


async def let_tasks_run() -> None:
    for _ in range(TURNS_MAX):
        await asyncio.sleep(0)


async def race(world: BrokerWorld, opener: str, closer: str, turns: int) -> bool:
    """Opens; begins to close `turns` turns of the loop later. Whether opening was over by then."""
    await prepare(world, closer)
    session = Session()
    opening = asyncio.ensure_future(outcome(OPENERS[opener](world, session)))
    for _ in range(turns):
        await asyncio.sleep(0)
    was_open = opening.done()
    not_closed = await outcome(CLOSERS[closer](world))
    refusal = await opening
    await let_tasks_run()
    loaded = world.service.topics.loaded.get(TOPIC)
    where = f"{opener} against {closer} after {turns} turns: {refusal and refusal.message}"
    for topic in session.open_on():
        assert topic is loaded and topic.closed is None, f"{where}: open on a topic that is gone"
    if session.handle is not None and not session.handle.open:
        assert session.told_closed, f"{where}: closed, and nobody was told"
    if refusal is not None:
        assert not session.open_on(), f"{where}: refused, and open all the same"
    await check_consistent(world, where)
    if closer == "terminate" and not_closed is None:
        await check_terminated(world, session, where)
    await tidy(world, session)
    return was_open


async def check_consistent(world: BrokerWorld, where: str) -> None:
    """What is in memory is what is stored."""
    record = await world.meta.get_topic(TOPIC)
    stored = {subscription.name: subscription.subscription_id for subscription in await world.meta.subscriptions(TOPIC)}
    assert record is not None or not stored, f"{where}: subscriptions of a topic that is gone"
    loaded = world.service.topics.loaded.get(TOPIC)
    if loaded is not None:
        assert record is not None and record.version == loaded.ledger.record.version, f"{where}: a topic with another's record"
        durable = {
            subscription.name: subscription.subscription_id
            for subscription in loaded.subscriptions.table.values()
            if subscription.durable
        }
        assert durable == stored, f"{where}: loaded {durable}, stored {stored}"
        idle = [
            subscription.name
            for subscription in loaded.subscriptions.table.values()
            if not subscription.durable and not subscription.consumers
        ]
        assert not idle, f"{where}: readers without a consumer: {idle}"


async def check_terminated(world: BrokerWorld, session: Session, where: str) -> None:
    record = await world.meta.get_topic(TOPIC)
    assert record is not None and record.terminated_at is not None
    session.publish()
    await let_tasks_run()
    topic = await world.service.topics.get(NAME, create=False)
    assert topic.ledger_list.last == record.terminated_at, f"{where}: published after the end"
    assert not len(topic.producers), f"{where}: a producer on a terminated topic"


async def tidy(world: BrokerWorld, session: Session) -> None:
    if session.connection is not None:
        session.connection.connection_lost(None)
    if session.handle is not None:
        session.handle.close()
    await outcome(delete_by_force(world))
    assert await world.meta.list_all_topics() == []


@pytest.mark.parametrize("closer", CLOSERS)
@pytest.mark.parametrize("opener", OPENERS)
async def test_nothing_is_opened_on_a_topic_that_closes(world: BrokerWorld, opener: str, closer: str) -> None:
    turns = 0
    while not await race(world, opener, closer, turns):
        turns += 1
        assert turns < TURNS_MAX
    assert turns > 1, "opening took no turn at all: nothing was raced"
