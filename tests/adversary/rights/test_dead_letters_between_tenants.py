"""A dead-letter policy whose target is in another tenant, and that tenant takes the right back: nothing more comes to it, the owner
of the subscription is told why, and loses nothing."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.diagnosis import SubscriptionExplain
from messaging.adminrpc.subscriptions import SubscriptionRef
from messaging.broker.core.dead_letters import moves as dead_letter_moves
from messaging.broker.runtime.dead_letters.producer import DeadLetterProducer
from messaging.storage.ledger_store import Position
from tests.support.clients.chunking import chunk_frames
from tests.support.clients.consuming import TOPIC, filled, texts
from tests.support.clients.raw_client import RawClient
from tests.support.clock import Clock, give
from tests.support.dead_letters import consumer, letters_of, moved, nack, set_policy, subscription_of
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TARGET = "persistent://other/things/dead"
POLICY: dict[str, Any] = {"max_redeliver_count": 0, "target": TARGET, "initial_subscription": ""}
CHUNKS = [b"aa", b"bb", b"cc", b"dd", b"ee"]
GRANTED = ("namespace", "other/things", {"grants": {"owner@acme": ["produce"]}})
REVOKED: tuple[str, str, dict[str, Any]] = ("namespace", "other/things", {"grants": {}})


def held_by_the_neighbour(world: BrokerWorld) -> tuple[int, Position, int]:
    topic = world.service.topics.loaded[TARGET]
    return topic.ledger_list.entries, topic.ledger_list.last, topic.totals.bytes_in


async def explained(world: BrokerWorld) -> tuple[str, str]:
    explained_as = await world.admin.diagnosis.explain(SubscriptionExplain(topic=TOPIC, subscription="s"))
    return explained_as.findings[0].reason, explained_as.sentence


async def refused_again(world: BrokerWorld, clock: Clock) -> None:
    before = letters_of(world).failures
    clock.pass_(60_000)
    world.service.dead_letters.retry()
    await eventually(lambda: letters_of(world).failures == before + 1 and not letters_of(world).moving)


async def test_nothing_is_moved_after_the_right_was_revoked(world: BrokerWorld) -> None:
    clock = Clock()
    give(world.service, clock)
    await world.feed(GRANTED)
    client = await consumer(world, 2, **POLICY)
    first, second = await client.messages(2)
    nack(client, first)
    await moved(world, 1)
    with_neighbour = held_by_the_neighbour(world)
    await world.feed(REVOKED)
    nack(client, second)
    await eventually(lambda: "lacks 'produce'" in letters_of(world).last_error and not letters_of(world).moving)
    for _ in range(3):
        await refused_again(world, clock)
    reason, sentence = await explained(world)
    assert reason == "waiting_for_dead_letter_topic"
    assert "owner@acme" in sentence and "lacks 'produce'" in sentence and TARGET in sentence
    assert held_by_the_neighbour(world) == with_neighbour
    assert subscription_of(world).backlog_entries == 1
    await world.admin.dead_letters.remove(SubscriptionRef(topic=TOPIC, subscription="s"))
    assert texts(await client.messages(1)) == [b"1"], "it comes again"
    assert held_by_the_neighbour(world) == with_neighbour


async def half_moved(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> tuple[RawClient, tuple[int, Position, int]]:
    """The right is revoked between the first block of a chunked message and its second. Returns what the neighbour has of it."""
    monkeypatch.setattr(dead_letter_moves, "MOVE_BYTES", 170)  # two chunks a block
    give(world.service, Clock())
    await world.feed(GRANTED)
    producer = await filled(world, 0)
    producer.write(*chunk_frames(0, b"".join(CHUNKS), 2))
    for _ in CHUNKS:
        await producer.expect("SEND_RECEIPT")
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=100)
    await set_policy(world, **POLICY)
    asked: list[int] = []
    with_neighbour: list[tuple[int, Position, int]] = []
    publish = DeadLetterProducer.publish

    async def published(letters: DeadLetterProducer, frames: list[bytes], policy_id: str, sequence_id: int) -> None:
        asked.append(sequence_id)
        if len(asked) == 2:
            with_neighbour.append(held_by_the_neighbour(world))
            await world.feed(REVOKED)
        await publish(letters, frames, policy_id, sequence_id)

    monkeypatch.setattr(DeadLetterProducer, "publish", published)
    nack(client, (await client.messages(len(CHUNKS)))[0])
    await eventually(lambda: len(asked) == 2 and letters_of(world).last_error and not letters_of(world).moving)
    return client, with_neighbour[0]


async def test_a_half_moved_message_comes_again_when_the_policy_is_removed(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, with_neighbour = await half_moved(world, monkeypatch)
    reason, sentence = await explained(world)
    assert reason == "waiting_for_dead_letter_topic" and letters_of(world).last_error in sentence
    assert held_by_the_neighbour(world) == with_neighbour
    await world.admin.dead_letters.remove(SubscriptionRef(topic=TOPIC, subscription="s"))
    assert texts(await client.messages(len(CHUNKS))) == CHUNKS
    assert held_by_the_neighbour(world) == with_neighbour


async def test_a_half_moved_message_comes_again_after_a_kill(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = await make_world()
    _, (entries, last, _) = await half_moved(world, monkeypatch)
    after = await make_world(after=world)
    await after.service.topics.get(world.service.topics.loaded[TOPIC].name, create=False)
    await eventually(lambda: not subscription_of(after).recovering)
    client = await after.connected("reader")
    await client.subscribe(TOPIC, permits=100)
    assert texts(await client.messages(len(CHUNKS))) == CHUNKS
    assert (await client.quiet()) == []
    target = await after.service.topics.get(world.service.topics.loaded[TARGET].name, create=False)
    assert (target.ledger_list.entries, target.ledger_list.last) == (entries, last)
