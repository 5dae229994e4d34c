"""When a topic is compacted, and what ends a compaction: a worker beside a broker over stores in memory."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from messaging.adminrpc.compaction import CompactionBegin, CompactionCommit, CompactionsDue
from messaging.adminrpc.topics import TopicRef
from messaging.broker.core.compaction.status import RETRY_MS
from messaging.broker.runtime.compaction import compactions
from messaging.broker.runtime.compaction.compactions import SILENT_MS
from messaging.errors import Conflict, NotFound, NotReady, TopicNotFound
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import DiskFull, LedgerInfo, NoSuchLedger
from messaging.storage.managed.orphans import collect_orphans
from tests.support.compacting import TOPIC, Killed, LoopCalls, Seen, compact, keyed, publish, read_all, topic_of
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

pytestmark = pytest.mark.asyncio


def values(seen: list[Seen]) -> list[tuple[str | None, bytes]]:
    return [(one.key, one.value) for one in seen]


async def due(world: BrokerWorld) -> list[str]:
    return (await world.admin.compaction.due(CompactionsDue())).topics


async def test_a_request_is_carried_out_and_a_second_one_refused(world: BrokerWorld, tmp_path: Path) -> None:
    await publish(world.service, keyed("a", b"1"), keyed("a", b"2"))
    ref, admin = TopicRef(topic=TOPIC), world.admin.compaction
    assert (await admin.status(ref)).status == "NOT_RUN"
    await admin.request(ref)
    assert ((await admin.status(ref)).status, await due(world)) == ("RUNNING", [TOPIC])
    with pytest.raises(Conflict):
        await admin.request(ref)
    calls = LoopCalls(world.service)
    seen: list[str] = []
    calls.before_call = lambda method: seen.append(world.service.compactions.status(TOPIC))
    assert await compact(world.service, tmp_path, calls=calls) == 1
    assert set(seen) == {"RUNNING"}
    assert ((await admin.status(ref)).status, await due(world)) == ("SUCCESS", [])
    result = world.service.compactions.result(TOPIC)
    assert (result.removed_messages, result.failed_ms) == (1, 0)
    assert result.succeeded_ms


@pytest.mark.parametrize("number", range(1, 8))
async def test_a_worker_that_dies_leaves_the_topic_as_it_was(world: BrokerWorld, tmp_path: Path, number: int) -> None:
    """At each of its calls; another worker is refused until the first one is known to be gone."""
    await publish(world.service, keyed("a", b"1"), keyed("a", b"2"))
    await compact(world.service, tmp_path)
    await publish(world.service, keyed("b", b"1"), keyed("b", b"2"))
    before, ledgers = await read_all(world.service), len(await world.ledgers.ledgers())
    calls, made = LoopCalls(world.service), 0

    def die(method: str) -> None:
        nonlocal made
        made += 1
        if made >= number:
            raise Killed(method)

    calls.before_call = die
    with pytest.raises(Killed):
        await compact(world.service, tmp_path, calls=calls)
    assert await read_all(world.service) == before
    if number > 1:
        with pytest.raises(Conflict):
            await compact(world.service, tmp_path)
        for session in world.service.compactions.sessions():
            session.heard_ms -= SILENT_MS + 1
    await compact(world.service, tmp_path)
    assert values(await read_all(world.service)) == [("a", b"2"), ("b", b"2")]
    assert len(await world.ledgers.ledgers()) == ledgers


async def test_a_crash_of_the_broker_leaves_the_topic_as_it_was(make_world: MakeWorld, tmp_path: Path) -> None:
    world = await make_world()
    await publish(world.service, keyed("a", b"1"), keyed("a", b"2"))
    calls = LoopCalls(world.service)

    def die(method: str) -> None:
        if method in ("compaction.commit", "compaction.abort"):
            raise Killed(method)

    calls.before_call = die
    with pytest.raises(Killed):
        await compact(world.service, tmp_path, calls=calls)
    again = await make_world(after=world)
    assert values(await read_all(again.service)) == [("a", b"1"), ("a", b"2")]
    assert (await collect_orphans(again.service.storage)).ledgers >= 1
    await compact(again.service, tmp_path)
    assert values(await read_all(again.service)) == [("a", b"2")]
    third = await make_world(after=again)
    await collect_orphans(third.service.storage)
    assert values(await read_all(third.service)) == [("a", b"2")]


async def test_truncating_and_deleting_remove_the_compacted_ledger(world: BrokerWorld, tmp_path: Path) -> None:
    await publish(world.service, keyed("a", b"1"))
    await compact(world.service, tmp_path)
    topic = await topic_of(world.service)
    compacted = topic.ledger_list.compacted
    assert compacted is not None
    await world.admin.topics.truncate(TopicRef(topic=TOPIC))
    assert await read_all(world.service) == []
    with pytest.raises(NoSuchLedger):
        await world.ledgers.info(compacted.ledger_id)
    await publish(world.service, keyed("a", b"2"))
    await compact(world.service, tmp_path)
    assert values(await read_all(world.service)) == [("a", b"2")]
    stored = (await topic_of(world.service)).ledger.record.ledger_ids
    await world.service.topics.delete(parse_topic(TOPIC), force=True)
    left = await world.ledgers.ledger_ids(world.service.storage.owned.name)
    assert len(stored) == 2
    assert not set(stored) & set(left)


async def test_what_changes_while_a_topic_is_compacted(world: BrokerWorld, tmp_path: Path) -> None:
    """Publishing goes on; a topic that is truncated or deleted ends its compaction."""
    await publish(world.service, keyed("a", b"1"), keyed("a", b"2"))
    begun = await world.admin.compaction.begin(CompactionBegin(topic=TOPIC, task_id="t"))
    await publish(world.service, keyed("a", b"3"))
    await world.admin.compaction.commit(CompactionCommit(session=begun.session, removed_messages=0, last_batch_index=-1))
    assert values(await read_all(world.service)) == [("a", b"3")]  # that worker wrote nothing, and this came later
    begun = await world.admin.compaction.begin(CompactionBegin(topic=TOPIC, task_id="t"))
    await world.admin.topics.truncate(TopicRef(topic=TOPIC))
    with pytest.raises(NotFound):
        await world.admin.compaction.commit(CompactionCommit(session=begun.session, removed_messages=0, last_batch_index=-1))
    begun = await world.admin.compaction.begin(CompactionBegin(topic=TOPIC, task_id="t"))
    await world.service.topics.delete(parse_topic(TOPIC), force=True)
    with pytest.raises(TopicNotFound):
        await world.admin.compaction.commit(CompactionCommit(session=begun.session, removed_messages=0, last_batch_index=-1))


async def test_a_full_disk_fails_the_compaction_alone(world: BrokerWorld, tmp_path: Path) -> None:
    await publish(world.service, keyed("a", b"1"), keyed("a", b"2"))
    world.ledgers.fail_next("create", DiskFull("the disk is full"))
    with pytest.raises(NotReady):
        await compact(world.service, tmp_path)
    found = await world.admin.compaction.status(TopicRef(topic=TOPIC))
    assert found.status == "ERROR"
    assert "the disk is full" in found.last_error
    await compact(world.service, tmp_path)
    assert values(await read_all(world.service)) == [("a", b"2")]


@pytest.mark.parametrize(
    ("method", "deletes_fail"), [("compaction.write", False), ("compaction.write", True), ("compaction.commit", False)]
)
async def test_a_disk_that_fills_up_in_the_middle(
    make_world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, deletes_fail: bool
) -> None:
    """The topic stays as it was, whoever asks is told why, the policy has it tried again, and no ledger is left over."""
    world = await make_world()
    await world.feed(("namespace", "acme/orders", {"policies": {"compaction_threshold_bytes": 1}}))
    await publish(world.service, keyed("a", b"1"), keyed("a", b"2"))
    await compact(world.service, tmp_path)
    await publish(world.service, keyed("b", b"1"), keyed("b", b"2"))
    before, ledgers = await read_all(world.service), len(await _of_topics(world))
    calls = LoopCalls(world.service)
    full = DiskFull("the disk is full")

    async def refuse(*_: object) -> NoReturn:
        raise full

    def fill(called: str) -> None:
        if called != method:
            return
        if method == "compaction.commit":
            monkeypatch.setattr(world.meta, "cas_topic", refuse)
        else:
            world.ledgers.fail_appends(full)
        if deletes_fail:
            world.ledgers.fail_next("delete", full)

    calls.before_call = fill
    with pytest.raises(NotReady, match="the disk is full"):
        await compact(world.service, tmp_path, calls=calls)
    monkeypatch.undo()
    world.ledgers.heal()
    found = await world.admin.compaction.status(TopicRef(topic=TOPIC))
    assert (found.status, "the disk is full" in found.last_error) == ("ERROR", True)
    assert await read_all(world.service) == before
    assert await due(world) == []
    world.service.compactions.result(TOPIC).failed_ms -= RETRY_MS
    assert await due(world) == [TOPIC]
    await compact(world.service, tmp_path)
    assert values(await read_all(world.service)) == [("a", b"2"), ("b", b"2")]
    again = await make_world(after=world)
    await collect_orphans(again.service.storage)
    assert values(await read_all(again.service)) == [("a", b"2"), ("b", b"2")]
    assert len(await _of_topics(again)) == ledgers


async def _of_topics(world: BrokerWorld) -> list[LedgerInfo]:
    """The cursor log begins a ledger of its own with each start."""
    return [info for info in await world.ledgers.ledgers() if "reserved" not in info.properties]


async def test_requests_of_one_tenant_leave_room_for_those_of_others(
    world: BrokerWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: all requests that the broker holds could be those of one tenant."""
    monkeypatch.setattr(compactions, "REQUESTS_OF_TENANT_MAX", 2)
    mine = [TopicRef(topic=f"{TOPIC}-{number}") for number in range(3)]
    other = TopicRef(topic="persistent://other/things/t")
    for one in (*mine, other):
        await publish(world.service, keyed("a", b"1"), topic=one.topic)
    for one in mine[:2]:
        await world.admin.compaction.request(one)
    with pytest.raises(NotReady, match="2 topics of tenant acme wait"):
        await world.admin.compaction.request(mine[2])
    await world.admin.compaction.request(other)
    assert await due(world) == [mine[0].topic, mine[1].topic, other.topic]
    await compact(world.service, tmp_path, topic=mine[0].topic)
    await world.admin.compaction.request(mine[2])
