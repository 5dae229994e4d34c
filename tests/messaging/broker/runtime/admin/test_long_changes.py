"""Long changes go on whoever waits for them, are begun once, and are never left half done without a word."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from messaging.adminrpc.base import Answer, Empty, Method, Request
from messaging.adminrpc.changes import ChangeProgress, ChangeRef, ChangesList
from messaging.adminrpc.methods import (
    SUBSCRIPTIONS_CREATE,
    SUBSCRIPTIONS_DELETE,
    SUBSCRIPTIONS_RESET,
    SUBSCRIPTIONS_SET_PROPERTIES,
    SUBSCRIPTIONS_SKIP,
    TOPICS_CREATE,
    TOPICS_DELETE,
    TOPICS_TERMINATE_PARTITIONS,
    TOPICS_UNLOAD,
)
from messaging.adminrpc.subscriptions import (
    SubscriptionCreate,
    SubscriptionDelete,
    SubscriptionMoved,
    SubscriptionPropertiesSet,
    SubscriptionReset,
    SubscriptionSkip,
)
from messaging.adminrpc.topics import MessageIdAnswer, TerminatedPartitions, TopicDelete, TopicDeletion, TopicRef
from messaging.broker.runtime.admin import changes
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.errors import Conflict, NotReady, TopicNotFound, UnderWay
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.recycled_topic import Recycling
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/p"
COUNT = 40
DELETE = TopicDelete(topic=TOPIC, force=True, partitioned=True)


@pytest.fixture(autouse=True)
async def partitioned(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "ANSWER_S", 0)
    await world.service.topics.partitioned.create(parse_topic(TOPIC), COUNT, {})


class Gate:
    """Deletes no partition from the `first` on until it is opened."""

    def __init__(self, world: BrokerWorld, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.deleted = asyncio.Event(), list[int]()
        delete = world.service.topics.delete

        async def gated(name: TopicName, *, force: bool, into: Recycling | None = None) -> None:
            if name.partition >= first:
                await self.opened.wait()
            self.deleted.append(name.partition)
            await delete(name, force=force, into=into)

        monkeypatch.setattr(world.service.topics, "delete", gated)


async def begun(admin: AdminHandlers, method: Method[Any, Any], request: TopicDelete) -> str:
    with pytest.raises(UnderWay) as goes_on:
        await admin.methods[method.name](request)
    return goes_on.value.change


async def test_a_long_change_goes_on_is_joined_and_shows_its_progress(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 10 s it was 503, and nobody could see how it went on."""
    gate, methods = Gate(world, 32, monkeypatch), world.admin.methods
    change = await begun(world.admin, TOPICS_DELETE, DELETE)
    assert await begun(world.admin, TOPICS_DELETE, DELETE) == change, "the same change is joined"

    async def listed(tenant: str = "acme") -> list[tuple[str, str, int, int]]:
        found = (await world.admin.changes.list(ChangesList(tenant=tenant))).changes
        return [(shown.id, shown.state, shown.done, shown.partitions) for shown in found]

    async def two_slices() -> bool:
        return await listed() == [(change, "running", 32, COUNT)]

    await eventually(two_slices)
    with pytest.raises(UnderWay, match=f"32 of {COUNT} partitions are done: its progress is at /api/v1/tenants/acme/jobs/change-"):
        await methods["changes.outcome"](ChangeRef(id=change))
    assert await listed("other") == []
    gate.opened.set()
    await eventually(lambda: world.service.topics.partitioned.deleted_lately(parse_topic(TOPIC)))

    async def done() -> bool:
        return await listed() == [(change, "done", COUNT, COUNT)]

    await eventually(done)
    assert sorted(gate.deleted) == list(range(COUNT)), "each partition was deleted once"
    assert await methods["changes.outcome"](ChangeRef(id=change)) == TopicDeletion()


class Held:
    """Work that ends as it is let."""

    def __init__(self, admin: AdminHandlers, method: Method[Any, Any], ends: Answer | Exception) -> None:
        self._ends, self._go_on = ends, asyncio.Event()
        self._handler = admin.changes.long(method, self._work)

    async def _work(self, request: object) -> Answer:
        await self._go_on.wait()
        if isinstance(self._ends, Exception):
            raise self._ends
        return self._ends

    async def begin(self, topic: str = TOPIC) -> str:
        with pytest.raises(UnderWay) as goes_on:
            await self._handler(TopicRef(topic=topic))
        self._go_on.set()
        return goes_on.value.change


async def ended(admin: AdminHandlers) -> dict[str, ChangeProgress]:
    async def all_ended() -> bool:
        return all(shown.ended_ms is not None for shown in (await admin.changes.list(ChangesList(tenant="acme"))).changes)

    await eventually(all_ended)
    return {shown.id: shown for shown in (await admin.changes.list(ChangesList(tenant="acme"))).changes}


async def test_the_outcome_of_a_change_is_its_answer_or_its_error(world: BrokerWorld) -> None:
    last = TerminatedPartitions(last=[MessageIdAnswer(ledger_id=1, entry_id=2)] * COUNT, partitions=list(range(COUNT)))
    terminated = await Held(world.admin, TOPICS_TERMINATE_PARTITIONS, last).begin()
    missing = await Held(world.admin, TOPICS_UNLOAD, TopicNotFound("topic p does not exist")).begin()
    shown = await ended(world.admin)
    assert await world.admin.changes.outcome(ChangeRef(id=terminated)) == last
    with pytest.raises(TopicNotFound):
        await world.admin.changes.outcome(ChangeRef(id=missing))
    assert (shown[missing].state, shown[missing].error) == ("failed", "topic p does not exist")
    assert (shown[terminated].state, shown[terminated].error) == ("done", "")


async def test_who_creates_what_another_creates_does_not_join_it(world: BrokerWorld) -> None:
    ids = {await Held(world.admin, TOPICS_CREATE, Conflict("it exists")).begin() for _ in range(2)}
    assert len(ids) == 2 and {one.state for one in (await ended(world.admin)).values()} == {"failed"}


async def test_a_deletion_that_a_stop_cut_off_is_finished_by_asking_again(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(world, 32, monkeypatch)
    change = await begun(world.admin, TOPICS_DELETE, DELETE)
    await eventually(lambda: len(gate.deleted) == 32)
    await world.admin.changes.stop()
    with pytest.raises(NotReady, match="the broker is stopping"):
        await world.admin.changes.outcome(ChangeRef(id=change))
    with pytest.raises(TopicNotFound, match="is being deleted"):
        await world.service.topics.partitioned.get(parse_topic(TOPIC))
    gate.opened.set()
    after = AdminHandlers(world.service)
    with pytest.raises(NotReady, match="not known any more"):
        await after.changes.outcome(ChangeRef(id=change))
    again = await begun(after, TOPICS_DELETE, DELETE)

    async def done() -> bool:
        return [one.state for one in (await after.changes.list(ChangesList(tenant="acme"))).changes] == ["done"]

    await eventually(done)
    assert await after.changes.outcome(ChangeRef(id=again)) == TopicDeletion()
    assert await world.service.storage.meta.get_partitioned(TOPIC) is None
    assert not await world.service.storage.meta.list_topics("acme/orders", after="", limit=100)


async def test_outcomes_that_are_kept_are_limited_and_charged(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "ENDED_PER_TENANT_MAX", 2)
    account = world.service.memory_limiter.egress
    before = account.tenants.get("acme", 0)
    ids = []
    for index in range(4):
        ids.append(await Held(world.admin, TOPICS_UNLOAD, Empty()).begin(f"{TOPIC}{index}"))
    assert list(await ended(world.admin)) == ids[:1:-1]
    assert account.tenants["acme"] - before == 2 * (changes.CHANGE_BYTES + changes.OBJECTS * len("{}"))


async def test_operations_of_subscriptions_go_over_partitions_in_slices(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each shows how far it is, and goes on whoever waits for it."""
    monkeypatch.setattr(changes, "ANSWER_S", 10)
    about: dict[str, Any] = {"topic": TOPIC, "subscription": "s"}
    asked: list[tuple[Method[Any, Any], Request]] = [
        (SUBSCRIPTIONS_CREATE, SubscriptionCreate(**about, ledger_id=-1, entry_id=-1)),
        (SUBSCRIPTIONS_SKIP, SubscriptionSkip(**about)),
        (SUBSCRIPTIONS_RESET, SubscriptionReset(**about, timestamp_ms=1)),
        (SUBSCRIPTIONS_SET_PROPERTIES, SubscriptionPropertiesSet(**about, properties={"a": "b"})),
        (SUBSCRIPTIONS_DELETE, SubscriptionDelete(**about)),
    ]
    done, spend = list[int](), TurnSlices.spend

    def spent(slices: TurnSlices, cost: int) -> Awaitable[None]:
        done.append(cost)
        return spend(slices, cost)

    monkeypatch.setattr(TurnSlices, "spend", spent)
    for method, request in asked:
        done.clear()
        answer = await world.admin.methods[method.name](request)
        assert isinstance(answer, SubscriptionMoved) and len(answer.moved) == COUNT and answer.refused is None
        assert len(done) == 3, "slices of 16 partitions"


async def test_skipping_twice_skips_twice(world: BrokerWorld) -> None:
    """The same change asked for while it is under way is joined, but not where it says how much more."""
    methods = world.admin.methods
    await world.admin.subscriptions.create(SubscriptionCreate(topic=TOPIC, subscription="s", ledger_id=-1, entry_id=-1))
    skip = SubscriptionSkip(topic=TOPIC, subscription="s", entries=1)
    begun = []
    for _ in range(2):
        with pytest.raises(UnderWay) as goes_on:
            await methods[SUBSCRIPTIONS_SKIP.name](skip)
        begun.append(goes_on.value.change)
    assert len(set(begun)) == 2
