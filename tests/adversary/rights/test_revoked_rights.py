"""A right that ends, ends what is open under it. A client whose grant was revoked kept publishing and receiving for as long as it
stayed connected; now it is told to close, and what it tries next is refused."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
import websockets

from messaging.broker.core.clients import open_sessions
from messaging.broker.core.control.view import ControlView
from messaging.broker.runtime import permission_checks
from messaging.permissions.decision import require
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.running_broker import GRANTS, RunningBroker, running_broker
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
TOPIC = "persistent://acme/orders/t"
PARTITION = "persistent://acme/orders/p-partition-0"
BOTH = {"writer@acme": ["produce"], "reader@acme": ["consume"]}


async def refused(client: RawClient, kind: Any, **fields: Any) -> int:
    """The error that a client gets which connects its producer or consumer again: it begins with a look-up."""
    client.say(C.LOOKUP, topic=TOPIC)
    looked_up = (await client.expect("LOOKUP_RESPONSE")).error
    client.say(kind, topic=TOPIC, **fields)
    assert (await client.expect("ERROR")).error == pb.AuthorizationError
    return looked_up


async def publishing(world: BrokerWorld, key: str = "writer", topic: str = TOPIC) -> RawClient:
    client = await world.connected(key)
    await client.producer(topic)
    client.write(send_frame(0, b"one"))
    await client.expect("SEND_RECEIPT")
    return client


async def consuming(world: BrokerWorld, key: str = "reader", **fields: Any) -> RawClient:
    client = await world.connected(key)
    await client.subscribe(TOPIC, permits=100, **fields)
    return client


async def test_a_producer_whose_grant_is_revoked(world: BrokerWorld) -> None:
    client = await publishing(world)
    entries = world.service.topics.loaded[TOPIC].ledger_list.entries
    await world.feed(("namespace", "acme/orders", {"grants": {"reader@acme": ["consume"]}}))
    client.write(send_frame(1, b"smuggled"))
    assert (await client.expect("CLOSE_PRODUCER")).producer_id == 1
    assert await client.quiet() == []
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == entries
    assert await refused(client, C.PRODUCER, producer_id=1) == pb.AuthorizationError


@pytest.mark.parametrize("durable", [True, False], ids=["consumer", "reader"])
async def test_a_consumer_whose_grant_is_revoked(world: BrokerWorld, durable: bool) -> None:
    client = await consuming(world, durable=durable, sub_type=pb.Subscribe.Exclusive)
    await world.feed(("namespace", "acme/orders", {"grants": {"writer@acme": ["produce"]}}))
    assert (await client.expect("CLOSE_CONSUMER")).consumer_id == 1
    await publishing(world)
    client.say(C.FLOW, consumer_id=1, message_permits=100)
    assert await client.quiet() == []
    assert (
        await refused(client, C.SUBSCRIBE, consumer_id=1, subscription="s", sub_type=pb.Subscribe.Shared) == pb.AuthorizationError
    )
    assert ("s" in world.service.topics.loaded[TOPIC].subscriptions.table) is durable


async def test_messages_of_a_revoked_consumer_go_to_those_who_may_go_on(world: BrokerWorld) -> None:
    await publishing(world)
    revoked = await consuming(world)
    await revoked.messages(1)
    owner = await consuming(world, "owner")
    await world.feed(("namespace", "acme/orders", {"grants": {"writer@acme": ["produce"]}}))
    assert [message.text for message in await owner.messages(1)] == [b"one"]


async def test_others_of_the_namespace_notice_nothing(world: BrokerWorld) -> None:
    owner = await publishing(world, "owner")
    reader = await consuming(world)
    await reader.messages(1)
    await world.feed(("namespace", "acme/orders", {"grants": {"reader@acme": ["consume"]}}))
    owner.write(send_frame(1, b"two"))
    await owner.expect("SEND_RECEIPT")
    assert [message.text for message in await reader.messages(1)] == [b"two"]


async def test_a_check_that_raises_ends_its_session_and_no_check_of_another(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader's raises: it is closed, as it may have no right any more; the writer, whose right ended, is closed too."""
    reader, writer = await consuming(world), await publishing(world)
    await reader.messages(1)
    original = require

    def failing(view: ControlView, principal: Principal, action: Action, resource: Resource) -> None:
        if principal.role == "reader@acme":
            raise RuntimeError("no table")
        original(view, principal, action, resource)

    monkeypatch.setattr(permission_checks, "require", failing)
    await world.feed(("namespace", "acme/orders", {"grants": {}}))
    await reader.expect("CLOSE_CONSUMER")
    await writer.expect("CLOSE_PRODUCER")
    reader.say(C.SUBSCRIBE, topic=TOPIC, consumer_id=1, subscription="s", sub_type=pb.Subscribe.Shared)
    assert (await reader.expect("ERROR")).error == pb.AuthorizationError


async def test_every_connection_is_checked_where_those_concerned_cannot_be_found_out(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, owner = await publishing(world), await publishing(world, "owner", "persistent://acme/orders/u")

    def failing(before: object, after: object) -> None:
        raise RuntimeError("no comparison")

    monkeypatch.setattr(open_sessions, "grants_lost", failing)
    monkeypatch.setattr(open_sessions, "admins_lost", failing)
    await world.feed(("namespace", "acme/orders", {"grants": {}}), ("tenant", "acme", {"admin_roles": []}))
    await writer.expect("CLOSE_PRODUCER")
    await owner.expect("CLOSE_PRODUCER")


async def test_an_owner_who_is_one_no_more(world: BrokerWorld) -> None:
    client = await publishing(world, "owner")
    await world.feed(("tenant", "acme", {"admin_roles": ["another@acme"]}))
    await client.expect("CLOSE_PRODUCER")
    assert await refused(client, C.PRODUCER, producer_id=1) == pb.AuthorizationError


async def test_an_owner_who_is_one_no_more_goes_on_by_a_grant(world: BrokerWorld) -> None:
    await world.feed(("namespace", "acme/orders", {"grants": {**BOTH, "owner@acme": ["produce"]}}))
    client = await publishing(world, "owner")
    await world.feed(("tenant", "acme", {"admin_roles": []}))
    client.write(send_frame(1, b"two"))
    await client.expect("SEND_RECEIPT")


async def test_a_grant_on_the_topic_holds_when_the_namespaces_is_revoked(world: BrokerWorld) -> None:
    on_topic = {TOPIC: {"writer@acme": ["produce"]}}
    await world.feed(("namespace", "acme/orders", {"grants": BOTH, "topic_grants": on_topic}))
    client = await publishing(world)
    await world.feed(("namespace", "acme/orders", {"grants": {}, "topic_grants": on_topic}))
    client.write(send_frame(1, b"two"))
    await client.expect("SEND_RECEIPT")
    await world.feed(("namespace", "acme/orders", {"grants": {}, "topic_grants": {}}))
    await client.expect("CLOSE_PRODUCER")


async def test_a_partition_by_the_grant_on_its_topic(world: BrokerWorld) -> None:
    await world.service.topics.partitioned.create(parse_topic("persistent://acme/orders/p"), 1, {})
    on_topic = {"persistent://acme/orders/p": {"writer@acme": ["produce"]}}
    await world.feed(("namespace", "acme/orders", {"grants": {}, "topic_grants": on_topic}))
    client = await publishing(world, topic=PARTITION)
    await world.feed(("namespace", "acme/orders", {"grants": {}, "topic_grants": {}}))
    await client.expect("CLOSE_PRODUCER")


async def test_a_subscription_that_is_kept_for_others_from_now_on(world: BrokerWorld) -> None:
    client = await consuming(world)
    await world.feed(("namespace", "acme/orders", {"grants": BOTH, "subscription_roles": {"s": ["auditor@acme"]}}))
    await client.expect("CLOSE_CONSUMER")
    again = {"consumer_id": 1, "subscription": "s", "sub_type": pb.Subscribe.Shared}
    assert await refused(client, C.SUBSCRIBE, **again) == pb.UnknownError  # it may look the topic up, not subscribe


async def test_a_namespace_that_is_deleted_under_its_clients(world: BrokerWorld) -> None:
    """Also for those who need no grant."""
    writer, superuser = await publishing(world), await publishing(world, "superuser", "persistent://acme/orders/u")
    await world.feed(("namespace", "acme/orders", None))
    for client in (writer, superuser):
        await client.expect("CLOSE_PRODUCER")
    superuser.say(C.PRODUCER, topic="persistent://acme/orders/u", producer_id=1)
    assert (await superuser.expect("ERROR")).error == pb.TopicNotFound


async def test_a_right_that_ends_while_a_producer_is_being_opened(world: BrokerWorld) -> None:
    """Between the check and the opening the broker waits for its stores: a revocation in that time was missed."""
    client = await world.connected("writer")
    opening = world.service.open_topic

    async def slow(name: Any, **options: Any) -> Any:
        topic = await opening(name, **options)
        await world.feed(("namespace", "acme/orders", {"grants": {}}))
        return topic

    world.service.open_topic = slow  # type: ignore[method-assign]
    client.say(C.PRODUCER, topic=TOPIC, producer_id=1)
    assert (await client.expect("ERROR")).error == pb.AuthorizationError
    assert len(world.service.topics.loaded[TOPIC].producers) == 0


@pytest.mark.parametrize("durable", [True, False], ids=["consumer", "reader"])
async def test_a_right_that_ends_while_a_consumer_is_being_opened(world: BrokerWorld, durable: bool) -> None:
    client = await world.connected("reader")
    opening = world.service.open_topic

    async def slow(name: Any, **options: Any) -> Any:
        topic = await opening(name, **options)
        await world.feed(("namespace", "acme/orders", {"grants": {}}))
        return topic

    world.service.open_topic = slow  # type: ignore[method-assign]
    client.say(C.SUBSCRIBE, topic=TOPIC, consumer_id=1, subscription="s", sub_type=pb.Subscribe.Shared, durable=durable)
    assert (await client.expect("ERROR")).error == pb.AuthorizationError
    assert not any(subscription.consumers for subscription in world.service.topics.loaded[TOPIC].subscriptions.table.values())


class _Sink:
    def deliver(self, messages: Any) -> None: ...

    def closed(self, error: Any) -> None: ...

    def end_of_topic(self) -> None: ...


@pytest.mark.parametrize("change", ["revoked", "deleted"])
async def test_a_key_that_is_revoked_while_a_websocket_is_being_opened(world: BrokerWorld, change: str) -> None:
    """It was authenticated before and registered after, and stayed open."""
    opening = world.service.open_topic
    state = {"role": "owner@acme", "tenant": "acme", "revoked": True} if change == "revoked" else None

    async def slow(name: Any, **options: Any) -> Any:
        topic = await opening(name, **options)
        await world.feed(("key", "owner", state))
        return topic

    world.service.open_topic = slow  # type: ignore[method-assign]
    with pytest.raises(Exception, match="revoked or deleted"):
        await world.sessions.open_producer(Principal("owner@acme", "owner"), TOPIC, None, _Sink())
    assert len(world.service.topics.loaded[TOPIC].producers) == 0
    assert not world.service.peers.sessions


PATHS = {
    "producer": ("writer", "/ws/v2/producer/persistent/acme/orders/t"),
    "consumer": ("reader", "/ws/v2/consumer/persistent/acme/orders/t/s"),
    "reader": ("reader", "/ws/v2/reader/persistent/acme/orders/t"),
}


@pytest.mark.parametrize("path", PATHS)
async def test_a_websocket_whose_grant_is_revoked(tmp_path: Path, path: str) -> None:
    async with running_broker(tmp_path) as broker:
        key, address = PATHS[path]
        headers = {"Authorization": f"Bearer {broker.token(key)}"}
        async with websockets.connect(f"{broker.ws_url}{address}", additional_headers=headers, proxy=None) as connection:
            left = {role: actions for role, actions in GRANTS.items() if role != f"{key}@acme"}
            await broker.say(("namespace", "acme/orders", {"grants": left}))
            async with asyncio.timeout(10):
                await connection.wait_closed()
            assert connection.close_code == 1008
            assert "ask an administrator" in (connection.close_reason or "")
        assert await status(broker, address, headers) == 403


async def status(broker: RunningBroker, address: str, headers: dict[str, str]) -> int:
    with pytest.raises(websockets.InvalidStatus) as caught:
        await websockets.connect(f"{broker.ws_url}{address}", additional_headers=headers, proxy=None)
    return caught.value.response.status_code


async def test_many_are_closed_some_a_turn(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to the revocation comes when all are closed; the loop is free in between."""
    monkeypatch.setattr("messaging.broker.runtime.permission_checks.CHECKS_A_TURN", 10)
    client = await world.connected("writer")
    for producer_id in range(100):
        await client.producer(TOPIC, producer_id)
    checks: list[int] = []

    async def turns() -> None:
        while True:
            checks.append(world.service.permission_checks.ended)
            await asyncio.sleep(0)

    watching = asyncio.create_task(turns())
    await world.feed(("namespace", "acme/orders", {"grants": {}}))
    watching.cancel()
    assert world.service.permission_checks.ended == 100
    assert len(world.service.topics.loaded[TOPIC].producers) == 0
    assert max(after - before for before, after in itertools.pairwise(checks)) <= 10


async def test_a_change_costs_what_it_touches(world: BrokerWorld) -> None:
    """Sessions of roles that lost nothing, and of other namespaces, are not looked at."""
    await publishing(world)
    await consuming(world)
    await publishing(world, "stranger", "persistent://other/things/t")
    looked_at: list[str] = []
    check = world.service.permission_checks.refusal_of

    def counted(session: Any) -> Any:
        looked_at.append(session.principal.role)
        return check(session)

    world.service.permission_checks.refusal_of = counted  # type: ignore[method-assign]
    grants = {"grants": BOTH}
    await world.feed(("namespace", "acme/orders", {**grants, "policies": {"message_ttl_s": 60}}))
    await world.feed(("namespace", "acme/orders", {"grants": {**BOTH, "new@acme": ["produce"]}}))
    await world.feed(("tenant", "acme", {"admin_roles": ["owner@acme", "another@acme"]}))
    assert looked_at == []
    await world.feed(("namespace", "acme/orders", {"grants": {"writer@acme": ["produce"]}}))
    assert looked_at == ["reader@acme"]
