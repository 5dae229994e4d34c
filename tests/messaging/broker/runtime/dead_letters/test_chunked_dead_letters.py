"""A dead letter of several chunks comes to its target as a whole and once, also where it is larger than one block and the broker is
killed in between."""

from __future__ import annotations

import asyncio

import pytest

from messaging.broker.core.dead_letters import moves as dead_letter_moves
from messaging.broker.runtime.dead_letters.producer import DeadLetterProducer
from messaging.broker.runtime.topics.persistent import persistent
from messaging.errors import NotAuthorized
from tests.support.clients.chunking import chunk_frames
from tests.support.clients.consuming import TOPIC, filled, texts
from tests.support.clients.raw_client import RawClient, Received, send_frame
from tests.support.clock import Clock, give
from tests.support.dead_letters import (
    dead_letters,
    letters_of,
    metadata_of,
    moved,
    nack,
    properties_of,
    set_policy,
    subscription_of,
)
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

CHUNKS = 5
PARTS = [b"aa", b"bb", b"cc", b"dd", b"ee"]


@pytest.fixture(autouse=True)
def two_chunks_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_moves, "MOVE_BYTES", 170)


async def rejecting(world: BrokerWorld) -> tuple[RawClient, list[Received]]:
    """A consumer of a chunked message and a plain one, and what it was sent."""
    client = await filled(world, 0)
    client.write(*chunk_frames(0, b"aabbccddee", 2), send_frame(1, b"plain"))
    for _ in range(CHUNKS + 1):
        await client.expect("SEND_RECEIPT")
    consumer = await world.connected("reader")
    await consumer.subscribe(TOPIC, permits=100)
    await set_policy(world, max_redeliver_count=0)
    return consumer, await consumer.messages(CHUNKS + 1)


def stop_after(monkeypatch: pytest.MonkeyPatch, blocks: int, error: Exception | None = None) -> list[int]:
    """Appends so many blocks of dead letters, and then none. Returns the sequence ids with which it was asked."""
    asked: list[int] = []
    publish = DeadLetterProducer.publish

    async def published(producer: DeadLetterProducer, frames: list[bytes], policy_id: str, sequence_id: int) -> None:
        asked.append(sequence_id)
        if len(asked) == blocks + 1:
            if error is not None:
                raise error
            await asyncio.Event().wait()
        await publish(producer, frames, policy_id, sequence_id)

    monkeypatch.setattr(DeadLetterProducer, "publish", published)
    return asked


def check_whole(letters: list[Received]) -> None:
    assert texts(letters) == PARTS
    said = [metadata_of(one) for one in letters]
    assert [one.chunk_id for one in said] == list(range(CHUNKS))
    assert len({one.sequence_id for one in said}) == 1
    assert {properties_of(one)["DEAD_LETTER_REDELIVERY_COUNT"] for one in letters} == {"1"}


async def killed(world: BrokerWorld, make_world: MakeWorld) -> BrokerWorld:
    after = await make_world(after=world)
    await after.service.topics.get(world.service.topics.loaded[TOPIC].name, create=False)
    await eventually(lambda: not subscription_of(after).recovering)
    return after


async def test_it_is_moved_as_a_whole_over_several_blocks(world: BrokerWorld) -> None:
    client, found = await rejecting(world)
    nack(client, found[2])
    await moved(world, CHUNKS)
    check_whole(await dead_letters(world, CHUNKS))
    assert subscription_of(world).backlog_entries == 1
    assert letters_of(world).record.move is None


@pytest.mark.parametrize("blocks", [1, 2])
async def test_killed_between_two_blocks_the_rest_follows_once(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    world = await make_world()
    client, found = await rejecting(world)
    asked = stop_after(monkeypatch, blocks)
    nack(client, found[0])
    await eventually(lambda: len(asked) == blocks + 1)
    after = await killed(world, make_world)
    check_whole(await dead_letters(after, CHUNKS))
    assert subscription_of(after).backlog_entries == 1, "nobody is sent it again"


async def test_killed_before_the_first_block_it_is_delivered_again(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = await make_world()
    client, found = await rejecting(world)
    asked = stop_after(monkeypatch, 0)
    nack(client, found[0])
    await eventually(lambda: len(asked) == 1)
    after = await killed(world, make_world)
    assert subscription_of(after).backlog_entries == CHUNKS + 1


async def test_what_failed_in_the_middle_is_ended_before_anything_else_moves(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    give(world.service, clock)
    client, found = await rejecting(world)
    stop_after(monkeypatch, 1, NotAuthorized("not any more"))
    nack(client, *found)
    await eventually(lambda: letters_of(world).last_error == "not any more")

    def again() -> bool:
        clock.pass_(60_000)
        world.service.dead_letters.retry()
        return subscription_of(world).backlog_entries == 0

    await eventually(again)
    letters = await dead_letters(world, CHUNKS + 1)
    check_whole(letters[:CHUNKS])
    assert letters[CHUNKS].text == b"plain"


async def test_a_policy_can_be_removed_although_the_rest_of_a_message_is_refused(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(world.service, Clock())
    client, found = await rejecting(world)

    async def refused(producer: DeadLetterProducer, frames: list[bytes], policy_id: str, sequence_id: int) -> None:
        raise NotAuthorized("not any more")

    asked = stop_after(monkeypatch, 1, NotAuthorized("not any more"))
    nack(client, found[0])
    await eventually(lambda: len(asked) == 2 and not letters_of(world).moving)
    monkeypatch.setattr(DeadLetterProducer, "publish", refused)
    await world.service.dead_letters.remove_policy(persistent(world.service.topics.loaded[TOPIC]), subscription_of(world))
    assert texts(await client.messages(CHUNKS)) == PARTS, "consumers are sent it again"
