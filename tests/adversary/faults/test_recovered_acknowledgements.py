"""Answered acknowledgements after a crash, whatever happens to the first load, to an unload and to other subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.topics import TopicRef
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.runtime.topics.producers import deduplication
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import StoreError, Unavailable
from tests.adversary.acknowledging import NAME, TOPIC, acknowledged, backlogs, published, subscribed
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld


async def test_a_first_load_that_fails_leaves_answered_acknowledgements_to_the_second(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: 8 of 9 answered acknowledgements came back, because each subscription claimed its own before the load failed."""
    world = await make_world()
    client = await subscribed(world, "s")
    ids = await published(world, 10)
    await acknowledged(client, ids[1:])
    after = await make_world(after=world)

    async def fails(topic: Any) -> None:
        raise Unavailable("the store is away for a moment")

    with monkeypatch.context() as patched:
        patched.setattr(deduplication.TopicDeduplication, "begin", fails)
        await after.feed(("namespace", "acme/orders", {"policies": {"deduplication": True}}))
        other = await after.connected()
        other.say(pb.Command.SUBSCRIBE, topic=TOPIC, subscription="s", consumer_id=1, sub_type=pb.Subscribe.Shared)
        assert (await other.next()).name == "ERROR"
    assert await backlogs(after) == {"s": 1}


async def test_unload_saves_the_other_subscriptions_where_one_cannot_be_packed(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: unload answered 500, and the answered acknowledgements of the other subscriptions were gone with the topic."""
    client = await subscribed(world, "a", "bad", "c")
    ids = await published(world, 5)
    for consumer_id in (1, 2, 3):
        await acknowledged(client, ids[2:4], consumer_id)
    bad = (await world.service.topics.get(NAME, create=False)).subscriptions.table["bad"].cursor
    packed = Cursor.snapshot

    def snapshot(cursor: Cursor) -> bytes:
        if cursor is bad:
            raise OverflowError("int too large to convert")
        return packed(cursor)

    with monkeypatch.context() as patched:
        patched.setattr(Cursor, "snapshot", snapshot)
        await world.admin.topics.unload(TopicRef(topic=TOPIC))
        assert world.service.topics.loaded == {}
        assert world.service.cursors.health.failing
        assert await backlogs(world) == {"a": 3, "bad": 3, "c": 3}
    await world.admin.topics.unload(TopicRef(topic=TOPIC))
    assert await backlogs(world) == {"a": 3, "bad": 3, "c": 3}
    await world.service.cursors.checkpoint()
    assert not world.service.cursors.states.unsaved


@pytest.mark.parametrize("error", [Unavailable("away"), ValueError("a name is too long for the snapshot")])
async def test_unload_saves_cursors_even_where_something_else_of_the_topic_cannot_be(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Seen: a producer name of 70,000 bytes broke the snapshot of deduplication, and unload never came to the cursors."""
    client = await subscribed(world, "s")
    ids = await published(world, 5)
    await acknowledged(client, ids[:3])

    async def fails(topic: Any) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(deduplication.TopicDeduplication, "save", fails)
        await world.admin.topics.unload(TopicRef(topic=TOPIC))
    assert await backlogs(world) == {"s": 2}


async def test_the_same_acknowledgement_again_is_answered_when_the_first_is_durable(world: BrokerWorld) -> None:
    """Answered at once because it changes nothing, it promised what was not on the disk yet."""
    client = await subscribed(world, "s")
    ids = await published(world, 2)
    world.ledgers.hold()
    for request_id in (1, 2):
        client.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=ids[:1], request_id=request_id)
    assert await client.quiet() == []
    world.ledgers.release()
    assert [(await client.expect("ACK_RESPONSE")).request_id for _ in range(2)] == [1, 2]


async def test_a_checkpoint_that_fails_altogether_is_tried_until_it_succeeds(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await subscribed(world, "s")
    ids = await published(world, 2)
    await acknowledged(client, ids[:1])

    async def away(fence: Any, states: Any) -> None:
        raise Unavailable("metadata is away")

    with monkeypatch.context() as patched:
        patched.setattr(world.meta, "save_cursors", away)
        with pytest.raises(StoreError):
            await world.service.cursors.checkpoint()
    await world.service.cursors.checkpoint()
    assert not world.service.cursors.states.unsaved
