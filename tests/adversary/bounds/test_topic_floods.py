"""Topics and subscriptions made without end: how fast, and how many.

Seen: a key that may only consume made 3,000 topics a second, without end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from messaging.adminrpc.subscriptions import SubscriptionCreate
from messaging.adminrpc.topics import PartitionsUpdate, TopicCreate, TopicDelete
from messaging.errors import MagnetarError, NotReady, PreconditionFailed
from messaging.permissions.model import Principal
from messaging.protocol.names import parse_topic
from tests.support.clients.connections import DirectConnection
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld


def topic(index: int, namespace: str = "acme/orders") -> str:
    return f"persistent://{namespace}/t{index}"


async def refusal(work: Awaitable[object]) -> MagnetarError | None:
    try:
        await work
    except MagnetarError as error:
        return error
    return None


async def use(world: BrokerWorld, name: str) -> MagnetarError | None:
    """A consumer of its own, with a key that may only consume."""
    role = "reader@acme" if name.startswith("persistent://acme") else "stranger@other"
    return await refusal(DirectConnection(world, Principal(role)).subscribe(name))


async def made(world: BrokerWorld, namespace: str = "acme/orders") -> int:
    return len(await world.meta.list_topics(namespace))


async def test_a_key_that_may_only_consume_makes_topics_at_a_bounded_rate(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = 0
    monkeypatch.setattr("messaging.broker.runtime.topics.limits.topic_reservations.boottime_ms", lambda: now_ms)
    world = await make_world(auto_created_topics_per_second=10, auto_created_topics_burst=5)
    answers = await asyncio.gather(*(use(world, topic(index)) for index in range(50)))
    refused = [answer for answer in answers if answer is not None]
    assert (await made(world), len(refused)) == (5, 45)
    assert all(isinstance(answer, NotReady) for answer in refused)  # clients try again by themselves
    assert "auto_created_topics_per_second = 10" in refused[0].message
    # Nobody else notices: topics that are there, other tenants, and whoever administrates.
    assert await use(world, topic(0)) is None
    assert await use(world, topic(0, "other/things")) is None
    await world.admin.topics.create(TopicCreate(topic=topic(100)))
    now_ms = 300
    answers = await asyncio.gather(*(use(world, topic(200 + index)) for index in range(5)))
    assert sum(answer is None for answer in answers) == 3


async def test_partitions_of_a_topic_that_is_there_are_not_held_up(make_world: MakeWorld) -> None:
    world = await make_world(auto_created_topics_burst=1)
    await world.admin.topics.create(TopicCreate(topic=topic(0), partitions=5))
    for index in range(5):
        await world.meta.delete_topic(world.service.storage.fence, f"{topic(0)}-partition-{index}")  # missing, as after a crash
    assert [await use(world, f"{topic(0)}-partition-{index}") for index in range(5)] == [None] * 5


@pytest.mark.parametrize(("setting", "limit"), [("topics_per_namespace_max", 4), ("topics_per_tenant_max", 4)])
async def test_no_more_topics_than_allowed_whoever_makes_them(make_world: MakeWorld, setting: str, limit: int) -> None:
    world = await make_world(**{setting: limit})
    create = world.admin.topics.create
    await create(TopicCreate(topic=topic(0), partitions=2))
    answers = await asyncio.gather(
        *(use(world, topic(index)) for index in range(1, 6)),
        *(refusal(create(TopicCreate(topic=topic(index)))) for index in range(6, 11)),
    )
    assert sum(answer is None for answer in answers) == 2 and await made(world) == limit
    refused = [answer for answer in answers if answer is not None]
    assert all(isinstance(answer, PreconditionFailed) and f"{setting} = {limit}" in answer.message for answer in refused)
    for more in (
        create(TopicCreate(topic=topic(50), partitions=1)),
        world.admin.topics.update_partitions(PartitionsUpdate(topic=topic(0), partitions=3)),
    ):
        assert isinstance(await refusal(more), PreconditionFailed)
    await world.admin.topics.delete(TopicDelete(topic=topic(0), partitioned=True, force=True))
    assert await refusal(create(TopicCreate(topic=topic(50), partitions=2))) is None
    assert await made(world) == limit


async def test_a_count_that_went_astray_refuses_nobody_for_long(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 0
    monkeypatch.setattr("messaging.broker.runtime.topics.limits.topic_reservations.boottime_ms", lambda: now_ms)
    monkeypatch.setattr("messaging.broker.runtime.topics.limits.tenant_ceilings.boottime_ms", lambda: now_ms)
    world = await make_world(topics_per_namespace_max=2)
    await world.admin.topics.create(TopicCreate(topic=topic(0)))
    now_ms = 1_000
    world.service.topics.services.limits.quota.counts.reserve("acme", "acme/orders", 100)
    world.service.topics.services.limits.quota.counts.release("acme", "acme/orders", 100, made=True)
    await world.admin.topics.create(TopicCreate(topic=topic(1)))
    assert isinstance(await refusal(world.admin.topics.create(TopicCreate(topic=topic(2)))), PreconditionFailed)


async def test_topics_are_not_counted_for_every_one_that_is_refused(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refusal read all topics of the tenant, on the one thread that has the metadata of everybody."""
    world = await make_world(topics_per_namespace_max=1)
    counted: list[str] = []
    count_topics = world.meta.count_topics

    async def noted(tenant: str) -> dict[str, int]:
        counted.append(tenant)
        return await count_topics(tenant)

    monkeypatch.setattr(world.meta, "count_topics", noted)
    for module in ("topic_reservations", "tenant_ceilings"):
        monkeypatch.setattr(f"messaging.broker.runtime.topics.limits.{module}.boottime_ms", lambda: 0)
    await world.admin.topics.create(TopicCreate(topic=topic(0)))
    for index in range(1, 20):
        assert isinstance(await use(world, topic(index)), PreconditionFailed)
    assert counted == ["acme"]


async def test_a_topic_that_cannot_be_created_does_not_count(make_world: MakeWorld) -> None:
    world = await make_world(topics_per_namespace_max=2)
    await world.admin.topics.create(TopicCreate(topic=topic(0)))
    for _ in range(5):
        assert await refusal(world.admin.topics.create(TopicCreate(topic=topic(0)))) is not None
        assert await refusal(world.admin.topics.create(TopicCreate(topic=topic(0), partitions=1))) is not None
    await world.admin.topics.create(TopicCreate(topic=topic(1)))


async def test_no_more_subscriptions_of_a_topic_than_allowed(make_world: MakeWorld) -> None:
    """Durable ones, readers, over the binary protocol, WebSockets and the admin API."""
    world = await make_world(subscriptions_per_topic_max=3)
    name, principal = topic(0), Principal("admin")
    await world.admin.topics.create(TopicCreate(topic=name))
    clients = [DirectConnection(world) for _ in range(8)]
    answers = await asyncio.gather(
        *(refusal(client.subscribe(name, subscription=f"s{index}")) for index, client in enumerate(clients[:4])),
        *(refusal(client.subscribe(name, subscription=f"r{index}", durable=False)) for index, client in enumerate(clients[4:])),
    )
    loaded = await world.service.topics.get(parse_topic(name), create=False)
    assert len(loaded.subscriptions.table) == 3 and sum(answer is None for answer in answers) == 3
    more = [
        world.admin.subscriptions.create(SubscriptionCreate(topic=name, subscription="more")),
        world.sessions.open_consumer(principal, name, "more", "Shared", "latest", True, None, _Sink()),
        world.sessions.open_consumer(principal, name, "more", "Shared", "latest", False, None, _Sink()),
    ]
    for refused in [*[await refusal(work) for work in more], *[answer for answer in answers if answer is not None]]:
        assert isinstance(refused, PreconditionFailed) and "subscriptions_per_topic_max = 3" in refused.message
    taken = next(iter(loaded.subscriptions.table))
    durable = loaded.subscriptions.table[taken].durable
    again = DirectConnection(world)
    assert await refusal(again.subscribe(name, subscription=taken, durable=durable)) is None  # one that is there


class _Sink:
    def deliver(self, messages: object) -> None: ...
    def closed(self, error: MagnetarError | None) -> None: ...
    def end_of_topic(self) -> None: ...
