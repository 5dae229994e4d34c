"""Going from one ledger to the next: the order of answers, and what fails on the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from messaging.storage.ledger_store import (
    DiskFull,
    Fence,
    Unavailable,
)
from messaging.storage.managed.appender import ROLL_RETRY_MS
from messaging.storage.managed.retention import Retention
from messaging.storage.meta_store import TopicRecord
from tests.support.storage.managed_steps import confirmed, full, new_world, rolled
from tests.support.storage.managed_world import NAME
from tests.support.waiting import eventually


@pytest.mark.parametrize("limits", [{"entries_max": 3}, {"bytes_max": 4}])
async def test_rolling_keeps_every_entry_in_order(limits: dict[str, int]) -> None:
    world = await new_world(**limits)
    await world.ledger.writable()
    appended = []
    for index in range(40):
        appended.append((world.append(f"{index:02}".encode()), f"{index:02}".encode()))
        await asyncio.sleep(0)
    await confirmed(world, 40)
    assert world.outcomes == [(f"{index:02}", None) for index in range(40)]
    assert len(world.ledger.record.ledgers) > 3
    assert await world.read_all() == appended
    await world.ledger.close()
    after = await world.crash()
    assert await after.read_all() == appended
    assert after.ledger.stored_bytes == 80


async def test_confirmations_keep_their_order_over_a_roll() -> None:
    world = await new_world(entries_max=2)
    await world.ledger.writable()
    world.store.hold()
    for name in (b"a", b"b", b"c"):
        world.append(name)  # the third passes the limit
    await eventually(lambda: world.ledger.writing_to == 2)
    world.append(b"d")
    late = world.store.held
    assert late is not None
    await eventually(lambda: len(late) == 4)
    world.store.held = [late[3], *late[:3]]  # the new ledger is quicker than the old one
    world.store.release()
    await confirmed(world, 4)
    assert [name for name, _ in world.outcomes] == ["a", "b", "c", "d"]


async def test_readers_do_not_pass_the_old_ledger_while_its_entries_are_on_their_way() -> None:
    """A reader at the end asked for the next entry while a roll had begun, and went on to the new ledger: what was still on its
    way to the disk in the old one was skipped, and stayed undelivered until the consumer connected again."""
    world = await new_world(entries_max=2)
    await world.ledger.writable()
    first = world.append(b"a")
    await confirmed(world, 1)
    world.store.hold()
    world.append(b"b")
    world.append(b"c")
    await eventually(lambda: len(world.ledger.record.ledgers) == 2)
    ledger_list = world.ledger.ledger_list
    waiting = ledger_list.resolve(ledger_list.next_after(ledger_list.last))
    assert waiting == first._replace(entry_id=1)
    world.store.release()
    await confirmed(world, 3)
    assert ledger_list.resolve(waiting) == waiting
    world.append(b"d")
    await confirmed(world, 4)
    assert [data for _, data in await world.read_all()] == [b"a", b"b", b"c", b"d"]


async def test_a_failure_in_the_old_ledger_fails_what_the_new_one_confirmed() -> None:
    world = await new_world(entries_max=1)
    await world.ledger.writable()
    world.store.hold()
    world.append(b"a")
    world.store.fail_appends()
    world.append(b"b")
    await eventually(lambda: world.ledger.writing_to == 2)
    world.store.stop_failing()
    world.append(b"c")
    late = world.store.held
    assert late is not None
    await eventually(lambda: len(late) == 3)
    world.store.release()
    await confirmed(world, 3)
    assert [(name, error is None) for name, error in world.outcomes] == [("a", True), ("b", False), ("c", False)]
    assert [data for _, data in await world.read_all()] == [b"a"]


@pytest.mark.parametrize("unknown", [False, True])
async def test_a_roll_that_fails_stops_nobody_and_is_tried_again(unknown: bool) -> None:
    """Topics refused their producers until they were unloaded, though there was space again."""
    world = await new_world(entries_max=1)
    await world.ledger.writable()
    world.store.fail_next("create", DiskFull("no space"), unknown=unknown)
    world.append(b"a")
    world.append(b"b")
    with pytest.raises(DiskFull):
        await world.ledger.roll()
    assert world.ledger.failed is None
    world.append(b"c")
    await confirmed(world, 3)
    assert len(world.ledger.record.ledgers) == 1 and world.store.calls.count("create") == 2, "not with every append"
    world.now_ms += ROLL_RETRY_MS
    world.append(b"d")
    await rolled(world, 2)
    world.append(b"e")
    await confirmed(world, 5)
    assert world.outcomes == [(name, None) for name in "abcde"]
    assert [data for _, data in await world.read_all()] == [b"a", b"b", b"c", b"d", b"e"]


async def test_a_ledger_that_cannot_be_named_is_not_left_behind() -> None:
    world = await new_world(entries_max=1)
    await world.ledger.writable()
    real = world.meta.cas_topic
    world.meta.cas_topic = full  # type: ignore[method-assign]
    world.append(b"a")
    with pytest.raises(DiskFull):
        await world.ledger.roll()
    world.meta.cas_topic = real  # type: ignore[method-assign]
    assert [info.ledger_id for info in await world.memory.ledgers()] == [ledger.ledger_id for ledger in world.ledger.record.ledgers]
    world.now_ms += ROLL_RETRY_MS
    world.append(b"b")
    await rolled(world, 2)


async def test_a_ledger_that_a_roll_could_not_seal_is_sealed_with_the_next() -> None:
    world = await new_world(entries_max=1)
    await world.ledger.writable()
    real = world.meta.cas_topic
    named: list[int] = []

    async def once(fence: Fence, record: TopicRecord) -> TopicRecord:
        if len(record.ledgers) == 2 and len(named) == 1:
            named.append(0)
            raise Unavailable("not now")
        named.append(len(record.ledgers))
        return await real(fence, record)

    world.meta.cas_topic = once  # type: ignore[method-assign]
    world.append(b"a")
    world.append(b"b")
    await world.ledger.roll()
    assert [ledger.last_entry for ledger in world.ledger.record.ledgers] == [None, None]
    world.append(b"c")
    world.append(b"d")
    await rolled(world, 3)
    await confirmed(world, 4)
    assert [data for _, data in await world.read_all()] == [b"a", b"b", b"c", b"d"]


async def test_rolling_trimming_and_terminating_do_not_trip_over_each_other() -> None:
    world = await new_world(entries_max=1)
    await world.ledger.writable()
    for index in range(6):
        world.append(b"x")
        await confirmed(world, index + 1)
        await asyncio.gather(
            world.ledger.trim(world.ledger.ledger_list.last, Retention(10**9, -1)),
            world.ledger.trim(world.ledger.ledger_list.last, Retention(10**9, -1)),
            world.ledger.update(lambda record: replace(record, properties={"n": "1"})),
        )
    assert world.ledger.failed is None
    assert await world.meta.get_topic(NAME) == world.ledger.record
    known = {ledger.ledger_id for ledger in world.ledger.record.ledgers}
    await eventually(
        lambda: set(world.ledger.ledger_list.ids) <= known | {ledger.ledger_id for ledger in world.ledger.record.ledgers}
    )
