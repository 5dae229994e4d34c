"""Long reads of a topic for somebody who asked: in slices, in turns by tenant, without changing anything, and only while wanted."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from messaging.adminrpc.backlog import BacklogAnalyze
from messaging.adminrpc.browse import MessagesBrowse
from messaging.adminrpc.redrive import KEY_SHOWN_MAX, RedriveScan
from messaging.broker.core.dead_letters.redrive import Judged, judge
from messaging.broker.runtime.admin import redrive
from messaging.broker.runtime.admin.backlog import BacklogHandlers, ScanLimits
from messaging.broker.runtime.admin.browse.handlers import BrowseHandlers
from messaging.broker.runtime.admin.redrive import Redrive
from messaging.errors import NotReady
from messaging.fairness.turns import FairTurns
from messaging.permissions.audited import SUBSCRIPTION_CREATE
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from tests.support.clients.consuming import TOPIC, filled
from tests.support.clients.raw_client import send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld


def scan(**fields: object) -> RedriveScan:
    values = {"topic": TOPIC, "subscription": "redrive", "owner": "owner@acme", "ledger_id": -1, "entry_id": 0, **fields}
    return RedriveScan(**values)  # type: ignore[arg-type]


async def test_a_scan_changes_nothing_unless_it_is_to_and_then_that_is_audited(world: BrokerWorld) -> None:
    await filled(world, 3)
    page = await world.admin.redrive.scan(scan())
    assert (page.looked_at, len(page.found), page.done) == (3, 3, True)
    assert "redrive" not in world.service.topics.loaded[TOPIC].subscriptions.table
    assert not [one for one in world.service.audit.events.take(0) if one.event.action == SUBSCRIPTION_CREATE]

    assert (await world.admin.redrive.scan(scan(make_subscription=True))).found == page.found
    assert "redrive" in world.service.topics.loaded[TOPIC].subscriptions.table
    (made,) = [one.event for one in world.service.audit.events.take(0) if one.event.action == SUBSCRIPTION_CREATE]
    assert (made.role, made.resource) == ("owner@acme", f"{TOPIC}/redrive")


async def test_what_was_found_shows_the_beginning_of_a_long_key(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    client.write(send_frame(0, b"x", key="k" * 8192))
    await client.expect("SEND_RECEIPT")
    (one,) = (await world.admin.redrive.scan(scan())).found
    assert one.key == "k" * KEY_SHOWN_MAX + "…"
    assert len((await world.admin.redrive.scan(scan(key="k" * 8192))).found) == 1, "all of it is compared"


async def test_entries_are_judged_many_to_a_thread(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(world, 250)
    hops = 0
    real = asyncio.to_thread

    async def counted(*arguments: object) -> object:
        nonlocal hops
        hops += 1
        return await real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncio, "to_thread", counted)
    page = await world.admin.redrive.scan(scan(key="nobody's"))
    assert (page.looked_at, page.found, hops) == (250, [], 3)


async def test_scans_of_one_tenant_leave_turns_to_another(world: BrokerWorld) -> None:
    scans = FairTurns(2)
    handlers = BacklogHandlers(world.service, scans)
    for topic, key in ((TOPIC, "owner"), ("persistent://other/things/t", "stranger")):
        client = await world.connected(key)
        await client.producer(topic)
        client.write(send_frame(0, b"x"))
        await client.expect("SEND_RECEIPT")
        await (await world.service.topics.get(parse_topic(topic), create=False)).subscriptions.create("s", EARLIEST)
    async with scans.turn("acme"):
        many = [asyncio.create_task(handlers.analyze(BacklogAnalyze(topic=TOPIC, subscription="s"))) for _ in range(40)]
        await eventually(lambda: scans.slots.waiting["acme"] == 40)
        other = BacklogAnalyze(topic="persistent://other/things/t", subscription="s")
        assert (await handlers.analyze(other)).entries == 1
        assert scans.slots.waiting["acme"] == 40
    assert [one.entries for one in await asyncio.gather(*many)] == [1] * 40


async def test_a_browse_that_begins_at_a_time_looks_for_it_in_its_tenants_turns(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(world, 10)
    topic, scans, sought = world.service.topics.loaded[TOPIC], FairTurns(1), list[int]()
    entries = type(topic.entries)
    real = entries.mark_delete_at_time

    async def seen(self: Any, publish_time_ms: int) -> Any:
        sought.append(publish_time_ms)
        return await real(self, publish_time_ms)

    monkeypatch.setattr(entries, "mark_delete_at_time", seen)
    handlers = BrowseHandlers(world.service, scans)
    asked = MessagesBrowse(topic=TOPIC, start_ms=1_004, until_ms=1_006)
    async with scans.turn("acme"):
        browsing = [asyncio.create_task(handlers.browse(asked)) for _ in range(5)]
        await eventually(lambda: scans.slots.waiting["acme"] == 5)
        assert not sought, "nothing is read before it is their turn"
    pages = await asyncio.gather(*browsing)
    assert [len(page.messages) for page in pages] == [2] * 5 and len(sought) == 10


async def test_an_analysis_answers_in_time_with_what_it_has(world: BrokerWorld) -> None:
    await filled(world, 3)
    await (await world.service.topics.get(parse_topic(TOPIC), create=False)).subscriptions.create("s", EARLIEST)
    handlers = BacklogHandlers(world.service, FairTurns(1), ScanLimits(seconds=0))
    analysis = await handlers.analyze(BacklogAnalyze(topic=TOPIC, subscription="s"))
    assert analysis.aborted and analysis.entries == 0


async def test_whoever_leaves_ends_a_scan_that_waits(world: BrokerWorld) -> None:
    await filled(world, 3)
    await (await world.service.topics.get(parse_topic(TOPIC), create=False)).subscriptions.create("s", EARLIEST)
    scans = FairTurns(1)
    handlers = BacklogHandlers(world.service, scans)
    async with scans.turn("acme"):
        asked = asyncio.create_task(handlers.analyze(BacklogAnalyze(topic=TOPIC, subscription="s")))
        await eventually(lambda: scans.slots.waiting["acme"] == 1)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert not scans.slots.waiting
    assert world.service.memory_limiter.egress.used_bytes == 0


async def test_scans_beyond_what_may_wait_are_refused() -> None:
    turns = FairTurns(1, waiting_max=2)
    async with turns.turn("a"):
        waits = asyncio.create_task(turns.begin("a"))
        await eventually(lambda: turns.slots.waiting["a"] == 1)
        with pytest.raises(NotReady):
            await turns.begin("a")
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)


async def test_a_scan_whose_caller_leaves_makes_its_subscription_as_a_whole(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(world, 3)
    original = world.meta.create_subscription
    stored, answer = asyncio.Event(), asyncio.Event()

    async def slow(*values: Any, **named: Any) -> Any:
        made = await original(*values, **named)
        stored.set()
        await answer.wait()
        return made

    monkeypatch.setattr(world.meta, "create_subscription", slow)
    scanning = asyncio.ensure_future(world.admin.redrive.scan(scan(make_subscription=True)))
    await stored.wait()
    scanning.cancel()
    await asyncio.gather(scanning, return_exceptions=True)
    answer.set()
    assert len((await world.admin.redrive.scan(scan(make_subscription=True))).found) == 3
    assert "redrive" in world.service.topics.loaded[TOPIC].subscriptions.table
    assert [one for one in world.service.audit.events.take(0) if one.event.action == SUBSCRIPTION_CREATE]


async def test_a_scan_whose_caller_leaves_keeps_its_turn_and_memory_while_its_thread_works(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one caller after another that leaves at once has any number of threads at work, and as much memory."""
    await filled(world, 3)
    scans = FairTurns(1)
    handlers = Redrive(world.service, scans)
    working, go_on = threading.Event(), threading.Event()

    def judging(*arguments: Any) -> Judged:
        working.set()
        assert go_on.wait(30)
        return judge(*arguments)

    monkeypatch.setattr(redrive, "judge", judging)
    scanning = asyncio.ensure_future(handlers.scan(scan()))
    await eventually(working.is_set)
    scanning.cancel()
    assert not (await asyncio.wait({scanning}, timeout=0.05))[0]
    assert scans.slots.served["acme"] == 1 and world.service.memory_limiter.egress.used_bytes > 0
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await scanning
    assert not scans.slots.served.total() and world.service.memory_limiter.egress.used_bytes == 0


async def test_a_redrive_passes_over_what_cannot_be_read_any_more(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    for number in range(4):
        client.write(send_frame(number, b"x"))
        await client.expect("SEND_RECEIPT")
    ledger_id = world.service.topics.loaded[TOPIC].ledger_list.last_id
    world.ledgers.damage(ledger_id, 1)
    world.ledgers.garble(ledger_id, 2)
    page = await world.admin.redrive.scan(scan())
    assert (page.looked_at, [one.entry_id for one in page.found], page.done) == (4, [0, 3], True)
