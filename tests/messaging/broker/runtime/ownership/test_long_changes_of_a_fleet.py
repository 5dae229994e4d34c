"""Long changes that several brokers have a part in: one turn for each, at the broker that is asked for it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.changes import ChangeRef, ChangesList
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.methods import (
    CHANGES_LIST,
    CHANGES_OUTCOME,
    PARTITIONS_DELETE,
    SUBSCRIPTIONS_SKIP,
    TOPICS_CREATE,
    TOPICS_DELETE,
    TOPICS_LOOKUP,
)
from messaging.adminrpc.subscriptions import SubscriptionSkip
from messaging.adminrpc.topics import TopicCreate, TopicDelete, TopicLookup, TopicRef
from messaging.broker.runtime.admin import changes
from messaging.errors import NotReady, UnderWay
from messaging.identity import service_token
from messaging.protocol.names import TopicName
from tests.support.brokers.fleet import running_fleet
from tests.support.brokers.running_broker import RunningBroker
from tests.support.waiting import eventually

COUNT = 8


@pytest.fixture
async def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[RunningBroker]]:
    """Two brokers, each of which makes one change at a time."""
    monkeypatch.setattr(changes, "AT_ONCE", 1)
    async with running_fleet(tmp_path / uuid.uuid4().hex, 2) as brokers:
        for broker in brokers:
            await broker.service.owners.look()  # type: ignore[attr-defined]
        yield brokers


async def call(broker: RunningBroker, method: Method[R, A], request: R, *, waits: bool = True) -> A:
    """As the web process does, over the broker's admin RPC. `waits`: until a long change has ended."""
    settings, url = broker.service.settings, broker.service.addresses.rpc_url

    def in_thread() -> A:
        with closing(AdminRpc(lambda: url, lambda: service_token(settings, "web"), 30)) as rpc:
            return rpc.call(method, request) if waits else rpc.perform(method, request)

    return await asyncio.to_thread(in_thread)


async def owned_by(fleet: list[RunningBroker], owner: RunningBroker) -> str:
    """A partitioned topic whose record is of this broker; its partitions are of both."""
    for number in range(100):
        topic = f"persistent://acme/orders/parts-{number}"
        lookup = await call(owner, TOPICS_LOOKUP, TopicLookup(topic=topic))
        if lookup.broker_url == owner.service.addresses.broker_url:
            await call(owner, TOPICS_CREATE, TopicCreate(topic=topic, partitions=COUNT))
            return topic
    raise AssertionError("no topic is placed there")


async def test_two_brokers_do_not_wait_for_each_others_turns(fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [await owned_by(fleet, broker) for broker in fleet]
    begun, both = set[str](), asyncio.Event()

    for broker in fleet:
        deleted = broker.service.topics.delete

        async def delete(name: TopicName, deleted=deleted, **how: object) -> None:  # type: ignore[no-untyped-def]
            """Each change is in the middle, at its own broker, before either goes on to the other one."""
            begun.add(str(name).partition("-partition-")[0])
            if len(begun) == len(topics):
                both.set()
            await both.wait()
            await deleted(name, **how)

        monkeypatch.setattr(broker.service.topics, "delete", delete)
    asked = [
        asyncio.create_task(call(broker, TOPICS_DELETE, TopicDelete(topic=topic, partitioned=True)))
        for broker, topic in zip(fleet, topics, strict=True)
    ]
    await both.wait()
    shown = [(await call(broker, CHANGES_LIST, ChangesList(tenant="acme"))).changes for broker in fleet]
    async with asyncio.timeout(30):
        await asyncio.gather(*asked)
    for listed in shown:
        assert sorted(change.resource for change in listed) == sorted(topics), "each once, whoever is asked"


async def test_parts_of_a_change_wait_for_no_turn(fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    """The other broker has as many changes under way as it takes."""
    first, second = fleet
    topic, blocking = await owned_by(fleet, first), await owned_by(fleet, second)
    opened = asyncio.Event()
    unused = second.service.topics.partitioned.delete

    async def waits(*asked: object, **how: object) -> object:
        await opened.wait()
        return await unused(*asked, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(second.service.topics.partitioned, "delete", waits)
    blocked = asyncio.create_task(call(second, TOPICS_DELETE, TopicDelete(topic=blocking, partitioned=True)))

    async def under_way() -> bool:
        return bool((await call(second, CHANGES_LIST, ChangesList(tenant="acme"))).changes)

    await eventually(under_way)
    try:
        await call(first, TOPICS_DELETE, TopicDelete(topic=topic, partitioned=True))
    except NotReady as error:
        pytest.fail(f"it waited for a turn: {error}")
    finally:
        opened.set()
        await blocked


async def test_any_broker_tells_the_outcome_of_a_change(fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = fleet
    topic, opened = await owned_by(fleet, second), asyncio.Event()
    deleted = second.service.topics.partitioned.delete

    async def waits(*asked: object, **how: object) -> object:
        await opened.wait()
        return await deleted(*asked, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(second.service.topics.partitioned, "delete", waits)
    monkeypatch.setattr(changes, "ANSWER_S", 0)
    asked = asyncio.create_task(call(second, TOPICS_DELETE, TopicDelete(topic=topic, partitioned=True)))

    async def under_way() -> str:
        return next(iter(change.id for change in (await call(second, CHANGES_LIST, ChangesList(tenant="acme"))).changes), "")

    change = await eventually(under_way)
    with pytest.raises(UnderWay):
        await call(first, CHANGES_OUTCOME, ChangeRef(id=change), waits=False)
    with pytest.raises(NotReady, match="not known any more"):
        await call(first, CHANGES_OUTCOME, ChangeRef(id="0" * 32))
    opened.set()
    await asked


async def test_the_outcome_that_a_broker_does_not_answer_is_asked_of_nobody_else(
    fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: it was taken for a change that nobody knows, and each other broker was waited for 7 s, that one first."""
    second = fleet[1]
    topic, opened, asked = await owned_by(fleet, second), asyncio.Event(), list[str]()

    async def fails(*args: object, **how: object) -> None:
        await opened.wait()
        raise NotReady("broker broker-3 does not answer")

    async def perform(rpc_url: str, *args: object) -> None:
        asked.append(rpc_url)
        raise NotReady("it does not answer")

    monkeypatch.setattr(second.service.topics.partitioned, "delete", fails)
    monkeypatch.setattr(changes, "ANSWER_S", 0)
    with pytest.raises(UnderWay) as goes_on:
        await call(second, TOPICS_DELETE, TopicDelete(topic=topic, partitioned=True), waits=False)
    assert second.service.other_brokers is not None
    monkeypatch.setattr(second.service.other_brokers, "perform", perform)
    opened.set()
    with pytest.raises(NotReady, match="broker-3"):
        await eventually(lambda: call(second, CHANGES_OUTCOME, ChangeRef(id=goes_on.value.change)))
    assert asked == []


@pytest.mark.parametrize("dry_run", [False, True])
async def test_who_asked_for_what_must_not_be_done_twice_is_told_that_it_may_be_done(
    fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    first, second = fleet
    topic = await owned_by(fleet, second)
    parts = [f"{topic}-partition-{index}" for index in range(COUNT)]
    lookups = [(await call(first, TOPICS_LOOKUP, TopicLookup(topic=part))).broker_url for part in parts]
    elsewhere = parts[lookups.index(second.service.addresses.broker_url)]
    others, asked = first.service.other_brokers, list[str]()
    assert others is not None

    async def silent(rpc_url: str, *args: object) -> None:
        asked.append(rpc_url)
        await asyncio.Event().wait()

    monkeypatch.setattr(others, "call", silent)
    monkeypatch.setattr(others.silence, "is_silent", lambda *_: bool(asked))
    skip = SubscriptionSkip(topic=elsewhere, subscription="s", entries=1, dry_run=dry_run)
    with pytest.raises(NotReady, match="try again" if dry_run else "whether it was done is not known"):
        await call(first, SUBSCRIPTIONS_SKIP, skip)


async def test_a_tenant_may_have_many_changes_under_way_at_another_broker(
    fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: the third that waited at a time was told that it goes on, under an id that nobody knew."""
    first, second = fleet
    topic, opened = await owned_by(fleet, second), asyncio.Event()

    async def waits(*asked: object, **how: object) -> None:
        await opened.wait()

    monkeypatch.setattr(changes, "ANSWER_S", 0)
    monkeypatch.setattr(second.service.topics.partitioned, "delete_here", waits)
    others = first.service.other_brokers
    assert others is not None
    url = second.service.addresses.rpc_url
    parts = [f"{topic}-partition-{index}" for index in range(COUNT)]
    asked = [asyncio.create_task(others.call(url, PARTITIONS_DELETE, TopicRef(topic=part), "acme")) for part in parts]
    await asyncio.wait(asked, timeout=1)
    assert not any(task.done() for task in asked)
    opened.set()
    await asyncio.gather(*asked)
