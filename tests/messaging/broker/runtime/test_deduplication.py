"""Deduplication on the real broker: receipts of duplicates, unloading, a policy switched on a live topic, trimming."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from messaging.adminrpc.diagnosis import TopicExplain
from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.topics import TopicRef
from messaging.broker.core.producers.deduplication import SLICE_NAMES, Deduplication
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.admin.publish_state import DROPPED_LATELY_MS
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.messages import MessagePosition, OutgoingMessage
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.main import start
from messaging.broker.runtime.topics.producers import deduplication
from messaging.errors import MagnetarError
from messaging.identity import create_secrets
from messaging.permissions.model import Principal
from messaging.problems.steps import Step
from messaging.protocol.names import parse_topic
from messaging.settings import Settings
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"
ADMIN = Principal("admin")


class Sink:
    def closed(self, error: MagnetarError | None) -> None: ...


def namespace(version: int, deduplication: bool) -> FeedChange:
    return FeedChange(version=version, kind="namespace", key="acme/orders", state={"policies": {"deduplication": deduplication}})


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    settings = Settings(data_dir=str(tmp_path), broker_port=0, ws_port=0, broker_rpc_port=0)
    create_secrets(settings)
    async with AsyncExitStack() as stack:
        service = await start(settings, stack)
        tenant = FeedChange(version=1, kind="tenant", key="acme", state={"admin_roles": []})
        await AdminHandlers(service).feed.apply(
            FeedApply(from_version=0, to_version=2, full=True, changes=[tenant, namespace(2, True)])
        )
        yield service
        await service.stop()


async def send(broker: Broker, first: int, last: int) -> list[MessagePosition]:
    """Sends the sequence ids from `first` to before `last` under one name; returns their receipts in order."""
    producer = await LocalSessions(broker).open_producer(ADMIN, TOPIC, "ingest", Sink())
    done: asyncio.Future[list[MessagePosition]] = asyncio.get_running_loop().create_future()

    def receipt(positions: Sequence[MessagePosition] | None, error: MagnetarError | None) -> None:
        assert error is None and positions is not None
        done.set_result(list(positions))

    producer.publish([OutgoingMessage(b"%d" % number, sequence_id=number) for number in range(first, last)], receipt)
    positions = await done
    producer.close()
    return positions


async def entries(broker: Broker) -> int:
    return (await broker.topics.get(parse_topic(TOPIC), create=False)).ledger_list.entries


async def test_a_duplicate_is_stored_once_and_answered_with_the_id_of_the_original(broker: Broker) -> None:
    originals = await send(broker, 0, 5)
    assert await send(broker, 0, 5) == originals
    overlapping = await send(broker, 3, 8)
    assert overlapping[:2] == originals[3:]
    assert await entries(broker) == 8
    await AdminHandlers(broker).topics.unload(TopicRef(topic=TOPIC))
    answers = await send(broker, 0, 9)
    assert await entries(broker) == 9, "known after the topic was loaded again"
    # The window is not in the snapshot: older duplicates are answered as Pulsar answers all of them.
    assert {answer[:2] for answer in answers[:8]} <= {(-1, -1), *(one[:2] for one in originals + overlapping)}
    producer = await LocalSessions(broker).open_producer(ADMIN, TOPIC, "ingest", Sink())
    assert producer.last_sequence_id == 8
    producer.close()


async def test_what_is_dropped_is_told(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer whose sequence ids began again got receipts, nothing arrived, and nothing was said to hold it back."""

    async def step() -> tuple[str, str, str]:
        told = await AdminHandlers(broker).diagnosis.explain_topic(TopicExplain(topic=TOPIC))
        (found,) = (each for each in told.steps if each.step == Step.DEDUPLICATION)
        return found.state, found.sentence.partition(", last")[0], told.held_at

    await send(broker, 0, 5)
    assert (await step())[0] == "open"
    await send(broker, 3, 6)
    await send(broker, 0, 5)
    told = "Entries dropped, with a receipt, as their sequence ids are stored: 7"
    assert await step() == ("slows", told, "deduplication") and await entries(broker) == 6
    later_ms = broker.now_ms() + DROPPED_LATELY_MS
    monkeypatch.setattr(broker, "now_ms", lambda: later_ms)
    assert (await step())[0] == "open"


async def test_the_policy_reaches_a_live_topic(broker: Broker) -> None:
    await send(broker, 0, 3)
    topic = await broker.topics.get_persistent(parse_topic(TOPIC), create=False)
    await AdminHandlers(broker).feed.apply(FeedApply(from_version=2, to_version=3, changes=[namespace(3, False)]))
    await eventually(lambda: topic.deduplication.state is None)
    await send(broker, 0, 3)
    assert await entries(broker) == 6
    await AdminHandlers(broker).feed.apply(FeedApply(from_version=3, to_version=4, changes=[namespace(4, True)]))
    await eventually(lambda: topic.deduplication.state is not None)
    await send(broker, 0, 3)
    await send(broker, 0, 3)
    assert await entries(broker) == 9, "from then on each is stored once"


async def changing(broker: Broker, monkeypatch: pytest.MonkeyPatch, *policies: bool) -> Deduplication | None:
    """What the live topic has in the end, where the policy changes while what is stored is still being asked for."""
    await AdminHandlers(broker).feed.apply(FeedApply(from_version=2, to_version=3, changes=[namespace(3, False)]))
    topic = await broker.topics.get_persistent(parse_topic(TOPIC), create=True)
    assert topic.deduplication.state is None
    meta, asked, answer, stored = broker.storage.meta, [0], asyncio.Event(), asyncio.Event()
    get_value = meta.get_value

    async def slow(key: str) -> bytes | None:
        asked[0] += 1
        found = await get_value(key)
        if asked[0] == 1:
            await send(broker, 0, 3)  # stored before it is on
            stored.set()
        await answer.wait()
        return found

    monkeypatch.setattr(meta, "get_value", slow)
    for version, on in enumerate(policies, 4):
        await AdminHandlers(broker).feed.apply(
            FeedApply(from_version=version - 1, to_version=version, changes=[namespace(version, on)])
        )
        await stored.wait()
    answer.set()
    await eventually(lambda: f"deduplication of {TOPIC}" not in {task.get_name() for task in asyncio.all_tasks()})
    return topic.deduplication.state


async def test_a_policy_that_is_turned_off_while_it_is_turned_on_is_off(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stayed on: whoever turned it off had found it off still."""
    assert await changing(broker, monkeypatch, True, False) is None


async def test_it_is_turned_on_once_however_often_the_namespace_changes_meanwhile(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change began another state, and the last of them knew nothing of what the first had taken."""
    begun: list[object] = []
    begin = deduplication.TopicDeduplication.begin

    async def counted(topic: Any) -> None:
        begun.append(topic)
        await begin(topic)

    monkeypatch.setattr(deduplication.TopicDeduplication, "begin", counted)
    assert await changing(broker, monkeypatch, True, True, True) is not None
    assert len(begun) == 1


async def test_trimming_stops_at_the_snapshot(broker: Broker) -> None:
    await send(broker, 0, 3)
    topic = await broker.topics.get_persistent(parse_topic(TOPIC), create=False)
    assert topic.deduplication.state is not None
    before = topic.deduplication.state.snapshot_position
    await AdminHandlers(broker).topics.unload(TopicRef(topic=TOPIC))
    topic = await broker.topics.get_persistent(parse_topic(TOPIC), create=False)
    assert topic.deduplication.state is not None
    assert topic.deduplication.state.snapshot_position > before
    assert topic.deduplication.state.snapshot_position == topic.ledger_list.last


async def test_what_is_known_of_producers_is_charged_and_given_back_when_the_topic_closes(broker: Broker) -> None:
    """It was bounded, and in no account."""
    account = broker.memory_limiter.records
    await send(broker, 0, 1)
    topic = await broker.topics.get_persistent(parse_topic(TOPIC), create=False)
    assert topic.deduplication.state is not None
    for number in range(100):
        topic.deduplication.state.took(b"name %d" % number, [], broker.now_ms())
    assert account.tenants.get("acme", 0) >= 16 << 10
    await AdminHandlers(broker).topics.unload(TopicRef(topic=TOPIC))
    assert "acme" not in account.tenants
    await send(broker, 2_000, 2_001)
    assert account.tenants.get("acme", 0) >= 16 << 10  # read back from the snapshot
    await AdminHandlers(broker).feed.apply(FeedApply(from_version=2, to_version=3, changes=[namespace(3, False)]))
    await eventually(lambda: "acme" not in account.tenants)


async def test_others_have_their_turns_while_a_snapshot_is_packed(broker: Broker) -> None:
    """100,000 names were packed in one turn of the loop."""
    await send(broker, 0, 1)
    topic = await broker.topics.get_persistent(parse_topic(TOPIC), create=False)
    dedup = topic.deduplication.state
    assert dedup is not None
    now_ms = broker.now_ms()
    for number in range(5 * SLICE_NAMES):
        dedup.took(b"name %d" % number, [], now_ms)
    turns = 0
    saving = asyncio.create_task(topic.deduplication.save())
    while dedup.snapshot_position != topic.ledger_list.last and turns < 1_000_000:
        turns += 1
        await asyncio.sleep(0)
        if turns == 3:  # in the middle of packing
            saved_first = dedup.snapshot_position
            later = asyncio.create_task(topic.deduplication.save())  # waits, and is not overtaken
    assert turns > 5
    assert saved_first != topic.ledger_list.last
    await asyncio.gather(saving, later)


async def test_a_snapshot_that_is_packed_while_its_topic_is_deleted_is_not_stored(broker: Broker) -> None:
    await send(broker, 0, 1)
    topic = await broker.topics.get_persistent(parse_topic(TOPIC), create=False)
    dedup = topic.deduplication.state
    assert dedup is not None
    for number in range(5 * SLICE_NAMES):
        dedup.took(b"name %d" % number, [], broker.now_ms())
    saving = asyncio.create_task(topic.deduplication.save())
    await asyncio.sleep(0)
    topic.deduplication.release()
    await broker.storage.meta.delete_value(broker.storage.fence, deduplication.key_of(TOPIC))
    await saving
    assert await broker.storage.meta.get_value(deduplication.key_of(TOPIC)) is None
