"""What concerns very many topics of a tenant at the same moment is done in slices of the event loop, in turn with other tenants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import groupby

import pytest

from messaging.broker.core import entries
from messaging.broker.core.chunks import chunk_of
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime.feed.policy_changes import TOLD_AT_ONCE
from messaging.broker.runtime.topics.delayed.delivery import DelayedDelivery
from messaging.broker.runtime.topics.persistent import persistent
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol.names import parse_topic
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld
from tests.support.worlds.chunk_world import ChunkWorld, chunks_of
from tests.support.worlds.subscription_world import received

TOPICS = 300
SLICE_MAX = 110  # topics of which some is to be done in one turn of the event loop


async def loaded(world: BrokerWorld) -> list[Topic]:
    return [
        await world.service.topics.get(parse_topic(f"persistent://acme/orders/many-{number}"), create=True, writable=True)
        for number in range(TOPICS)
    ]


def limit_of(topic: Topic) -> int | None:
    return None if topic.publisher.quota is None else topic.publisher.quota.quota.bytes_max


def counting_turns(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> Callable[[], list[int]]:
    """How often a method is called in each turn of the event loop in which it is."""
    seen: list[int] = []
    turn = 0
    act = getattr(owner, name)

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        asyncio.get_running_loop().call_soon(next_turn)

    def watched(reported: object) -> None:
        seen.append(turn)
        act(reported)

    monkeypatch.setattr(owner, name, watched)
    asyncio.get_running_loop().call_soon(next_turn)
    return lambda: [len(list(together)) for _, together in groupby(seen)]


async def test_policies_of_a_namespace_are_applied_in_slices_and_confirmed_when_all_follow(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: 113 to 436 ms of the loop for 6,000 loaded topics."""
    topics = await loaded(world)
    told = counting_turns(monkeypatch, Topic, "policies_changed")
    await set_policies(world, backlog_quota_bytes=1234)
    assert sum(told()) == TOPICS and told()[0] == TOLD_AT_ONCE
    assert max(told()) <= SLICE_MAX
    assert {limit_of(topic) for topic in topics} == {1234}


async def test_a_policy_that_changes_while_another_change_is_applied_holds_in_the_end(world: BrokerWorld) -> None:
    topics = await loaded(world)
    changing = asyncio.ensure_future(set_policies(world, backlog_quota_bytes=1000))
    await eventually(lambda: limit_of(topics[0]) == 1000)
    await set_policies(world, backlog_quota_bytes=3000)
    await changing
    assert {limit_of(topic) for topic in topics} == {3000}


async def test_a_topic_that_is_unloaded_before_its_turn_is_left_out(world: BrokerWorld) -> None:
    await loaded(world)
    service = world.service
    service.policy_changes.follow([("namespace", "acme/orders")])
    for topic in service.topics.loaded_of("acme/orders")[100:]:
        await service.topics.unload(topic.name)
    await service.policy_changes.wait_until_told()


async def test_topics_with_messages_that_are_due_together_look_at_them_in_slices(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: 73 ms of the loop for 1,500 topics."""
    clock = Clock(1_700_000_000_000)
    give(world.service, clock)
    world.service.sweep_memory()
    topics = await loaded(world)
    for topic in topics:
        persistent(topic).delayed.published(1, 0, [clock.now_ms + 60_000])
    woken = counting_turns(monkeypatch, DelayedDelivery, "wake")
    clock.pass_(61_000)
    world.service.sweep_memory()
    await eventually(lambda: not any(persistent(topic).delayed.waiting_entries for topic in topics))
    assert sum(woken()) >= TOPICS
    assert max(woken()) <= SLICE_MAX


def test_a_chunk_is_parsed_once_for_all_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: 3,000 first chunks and 100 subscriptions stopped the loop for 0.9 s."""
    parsed = 0

    def parse(stored: bytes | memoryview) -> object:
        nonlocal parsed
        parsed += 1
        return chunk_of(stored)

    monkeypatch.setattr(entries, "chunk_of", parse)
    worlds = [ChunkWorld() for _ in range(5)]
    consumers = [world.attach(SubscriptionType.SHARED, permits=1_000) for world in worlds]
    worlds[0].publish_frames(*(frame for number in range(50) for frame in chunks_of(number, 0)))
    block = worlds[0].blocks[0]
    for world in worlds[1:]:
        world.blocks.append(block)
        world.ledger_list.confirm(1, block.last_entry)
        world.dispatch()
    assert [len(received(consumer)) for consumer in consumers] == [50] * 5
    assert parsed == 50
