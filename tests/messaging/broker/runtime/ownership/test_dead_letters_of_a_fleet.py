"""Dead letters, and what is redriven, in a fleet: they go to a topic of another broker, each once."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from messaging.adminrpc.base import Method, Request
from messaging.adminrpc.methods import (
    REDRIVE_MOVE,
    REDRIVE_PREPARE,
    REDRIVE_SCAN,
    SUBSCRIPTIONS_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_LIST,
    SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY,
    TOPICS_LAST_MESSAGE_ID,
)
from messaging.adminrpc.redrive import RedriveMove, RedrivePrepare, RedriveScan
from messaging.adminrpc.subscriptions import DeadLetterPolicySet, SubscriptionRef
from messaging.adminrpc.topics import TopicRef
from messaging.broker.core.dead_letters.moves import Move
from messaging.broker.runtime.dead_letters import targets
from messaging.broker.runtime.dead_letters.targets import TopicElsewhere
from messaging.broker.runtime.ownership.other_brokers import TIMEOUT_S
from messaging.client import Client, connect
from messaging.clock import boottime_ms
from messaging.errors import NotReady
from messaging.permissions.model import Principal
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send
from messaging.protocol.names import parse_topic
from tests.support.brokers.fleet import running_fleet
from tests.support.brokers.running_broker import RunningBroker
from tests.support.waiting import eventually

TOPICS = [f"persistent://acme/orders/t{number}" for number in range(8)]
OWNER = "owner@acme"
JOB = uuid.uuid4().hex


class Apart:
    """A source and a target that two brokers serve."""

    def __init__(self, fleet: list[RunningBroker], client: Client, source: str, target: str) -> None:
        self.fleet, self.client, self.source, self.target = fleet, client, source, target

    async def ask(self, method: Method[Any, Any], request: Request) -> Any:
        return await self.fleet[0].admin.methods[method.name](request)

    async def reject(self, text: bytes) -> None:
        """Publishes a message to the source, which a consumer rejects until it is dead."""
        async with self.client.producer(self.source) as producer:
            await producer.send(text)
        async with self.client.consumer(self.source, "s", kind="shared", initial="earliest", nack_delay_s=0) as consumer:
            for _ in range(2):
                await consumer.nack(await consumer.receive())
            await eventually(lambda: self.letters().last_error or self.letters().moved_messages)

    def letters(self) -> Any:
        topics = [broker.service.topics.loaded.get(self.source) for broker in self.fleet]
        return next(topic for topic in topics if topic is not None).subscriptions.table["s"].dead_letters

    async def texts(self, topic: str, subscription: str, count: int) -> list[bytes | None]:
        async with self.client.consumer(topic, subscription, initial="earliest") as consumer:
            return [(await consumer.receive()).payload for _ in range(count)]


@pytest.fixture(params=[(0, 1), (1, 0)])
async def apart(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Apart]:
    async with running_fleet(tmp_path / uuid.uuid4().hex, 2) as fleet:
        for broker in fleet:
            await broker.service.owners.look()  # type: ignore[attr-defined]
        async with connect(fleet[0].service.addresses.service_url, fleet[0].token("owner")) as client:
            for topic in TOPICS:
                async with client.producer(topic):
                    pass
            served = [min(topic for topic in TOPICS if topic in broker.service.topics.loaded) for broker in fleet]
            source, target = (served[index] for index in request.param)
            apart = Apart(fleet, client, source, target)
            async with client.consumer(source, "s", kind="shared", initial="earliest"):
                pass
            policy = DeadLetterPolicySet(
                topic=source, subscription="s", max_redeliver_count=1, target=target, initial_subscription="dead", owner=OWNER
            )
            await apart.ask(SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY, policy)
            yield apart


async def test_a_dead_letter_goes_to_a_topic_of_another_broker(apart: Apart) -> None:
    for text in (b"first", b"second"):
        await apart.reject(text)
        await eventually(lambda: not apart.letters().moving)
    assert (await apart.ask(SUBSCRIPTIONS_LIST, TopicRef(topic=apart.target))).subscriptions == ["dead"]
    assert await apart.texts(apart.target, "dead", 2) == [b"first", b"second"]
    moved = await apart.ask(SUBSCRIPTIONS_DEAD_LETTER_POLICY, SubscriptionRef(topic=apart.source, subscription="s"))
    assert (moved.moved_messages, moved.waiting_entries, moved.last_error) == (2, 0, "")


@pytest.mark.parametrize("stored", [False, True])
async def test_a_move_whose_answer_was_lost_is_made_once(apart: Apart, monkeypatch: pytest.MonkeyPatch, stored: bool) -> None:
    append, lost = TopicElsewhere.append, list[int]()

    async def cut_off(target: TopicElsewhere, frames: list[bytes], mover: str, sequence_id: int) -> None:
        if not lost:
            lost.append(sequence_id)
            if stored:
                await append(target, frames, mover, sequence_id)
            raise NotReady("the connection to the broker was lost")
        await append(target, frames, mover, sequence_id)

    monkeypatch.setattr(TopicElsewhere, "append", cut_off)
    await apart.reject(b"letter")
    assert lost and "lost" in apart.letters().last_error

    def moved() -> bool:
        letters = apart.letters()
        letters.retry_at_ms = 0
        for broker in apart.fleet:
            broker.service.dead_letters.retry()
        return not letters.moving and letters.record.move is None

    await eventually(moved)
    assert await apart.texts(apart.target, "dead", 1) == [b"letter"]
    assert (await apart.ask(TOPICS_LAST_MESSAGE_ID, TopicRef(topic=apart.target))).entry_id == 0, "once"


async def test_redriven_messages_go_back_over_brokers_once(apart: Apart) -> None:
    await apart.reject(b"letter")
    await eventually(lambda: not apart.letters().moving)
    source: dict[str, Any] = {"topic": apart.target, "subscription": "dead", "owner": OWNER}
    page = await apart.ask(REDRIVE_SCAN, RedriveScan(**source, ledger_id=-1, entry_id=0))
    positions = [[found.ledger_id, found.entry_id] for found in page.found]
    place = await apart.ask(REDRIVE_PREPARE, RedrivePrepare(target=apart.source, owner=OWNER, step=0))
    assert place.target == apart.source
    behind = {"ledger_id": place.ledger_id, "entry_id": place.entry_id}
    move = RedriveMove(job=JOB, step=0, **source, target=place.target, positions=positions, **behind)
    first = await apart.ask(REDRIVE_MOVE, move)
    assert (first.messages, first.already) == (1, False)
    assert (await apart.ask(REDRIVE_MOVE, move)).already
    assert await apart.texts(apart.source, "again", 2) == [b"letter", b"letter"]


@pytest.mark.parametrize("apart", [(0, 1)], indirect=True)
async def test_a_block_of_many_messages_goes_in_pieces(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one request can carry: of messages, and of bytes."""
    count = 2_000
    monkeypatch.setattr(targets, "PIECE_BYTES", 10_000)
    target = await apart.fleet[0].service.move_targets.existing(parse_topic(apart.target))
    assert isinstance(target, TopicElsewhere)
    await target.attach("mover", Principal(OWNER))
    move = Move(0, (), apart.target, await target.last())
    await target.begin("mover", move, "mover")
    numbered = [pb.Metadata(producer_name="mover", sequence_id=number, publish_time=1) for number in range(count)]
    frames = [build_send(0, each.sequence_id, each, b"%d" % each.sequence_id, 1, is_chunk=False) for each in numbered]
    await target.append(frames, "mover", 0)
    assert await target.parts_stored("mover", move, "mover") == 1
    assert await apart.texts(apart.target, "reads", count) == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("apart", [(0, 1)], indirect=True)
async def test_what_comes_after_the_source_has_looked_is_not_stored(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from the socket of a broker that was stopped for a while: the source has begun the move anew by then."""
    with monkeypatch.context() as patch:
        patch.setattr(targets, "boottime_ms", lambda: boottime_ms() - int(TIMEOUT_S * 1000))
        await apart.reject(b"letter")
        assert "too late" in apart.letters().last_error

    def moved() -> bool:
        letters = apart.letters()
        letters.retry_at_ms = 0
        for broker in apart.fleet:
            broker.service.dead_letters.retry()
        return not letters.moving and bool(letters.moved_messages)

    await eventually(moved)
    assert (await apart.ask(TOPICS_LAST_MESSAGE_ID, TopicRef(topic=apart.target))).entry_id == 0, "once"
