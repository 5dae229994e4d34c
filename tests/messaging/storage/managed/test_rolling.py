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
from tests.support.storage.managed_steps import confirmed, full, rolled, world
from tests.support.storage.managed_world import NAME
from tests.support.waiting import eventually


@pytest.mark.parametrize("limits", [{"entries_max": 3}, {"bytes_max": 4}])
async def test_rolling_keeps_every_entry_in_order(limits: dict[str, int]) -> None:
    held = await world(**limits)
    await held.ledger.writable()
    appended = []
    for index in range(40):
        appended.append((held.append(f"{index:02}".encode()), f"{index:02}".encode()))
        await asyncio.sleep(0)
    await confirmed(held, 40)
    assert held.outcomes == [(f"{index:02}", None) for index in range(40)]
    assert len(held.ledger.record.ledgers) > 3
    assert await held.read_all() == appended
    await held.ledger.close()
    after = await held.crash()
    assert await after.read_all() == appended
    assert after.ledger.stored_bytes == 80


async def test_confirmations_keep_their_order_over_a_roll() -> None:
    held = await world(entries_max=2)
    await held.ledger.writable()
    held.store.hold()
    for name in (b"a", b"b", b"c"):
        held.append(name)  # the third passes the limit
    await eventually(lambda: held.ledger.writing_to == 2)
    held.append(b"d")
    late = held.store.held
    assert late is not None
    await eventually(lambda: len(late) == 4)
    held.store.held = [late[3], *late[:3]]  # the new ledger is quicker than the old one
    held.store.release()
    await confirmed(held, 4)
    assert [name for name, _ in held.outcomes] == ["a", "b", "c", "d"]


async def test_nobody_passes_the_old_ledger_while_its_entries_are_on_their_way() -> None:
    """A reader at the end asked for the next entry while a roll had begun, and went on to the new ledger: what was still on its
    way to the disk in the old one was skipped, and stayed undelivered until the consumer connected again."""
    held = await world(entries_max=2)
    await held.ledger.writable()
    first = held.append(b"a")
    await confirmed(held, 1)
    held.store.hold()
    held.append(b"b")
    held.append(b"c")
    await eventually(lambda: len(held.ledger.record.ledgers) == 2)
    ledger_list = held.ledger.ledger_list
    waiting = ledger_list.resolve(ledger_list.next_after(ledger_list.last))
    assert waiting == first._replace(entry_id=1)
    held.store.release()
    await confirmed(held, 3)
    assert ledger_list.resolve(waiting) == waiting
    held.append(b"d")
    await confirmed(held, 4)
    assert [data for _, data in await held.read_all()] == [b"a", b"b", b"c", b"d"]


async def test_a_failure_in_the_old_ledger_fails_what_the_new_one_confirmed() -> None:
    held = await world(entries_max=1)
    await held.ledger.writable()
    held.store.hold()
    held.append(b"a")
    held.store.fail_appends()
    held.append(b"b")
    await eventually(lambda: held.ledger.writing_to == 2)
    held.store.stop_failing()
    held.append(b"c")
    late = held.store.held
    assert late is not None
    await eventually(lambda: len(late) == 3)
    held.store.release()
    await confirmed(held, 3)
    assert [(name, error is None) for name, error in held.outcomes] == [("a", True), ("b", False), ("c", False)]
    assert [data for _, data in await held.read_all()] == [b"a"]


@pytest.mark.parametrize("unknown", [False, True])
async def test_a_roll_that_fails_stops_nobody_and_is_tried_again(unknown: bool) -> None:
    """Topics refused their producers until they were unloaded, though there was space again."""
    held = await world(entries_max=1)
    await held.ledger.writable()
    held.store.fail_next("create", DiskFull("no space"), unknown=unknown)
    held.append(b"a")
    held.append(b"b")
    with pytest.raises(DiskFull):
        await held.ledger.roll()
    assert held.ledger.failed is None
    held.append(b"c")
    await confirmed(held, 3)
    assert len(held.ledger.record.ledgers) == 1 and held.store.calls.count("create") == 2, "not with every append"
    held.now_ms += ROLL_RETRY_MS
    held.append(b"d")
    await rolled(held, 2)
    held.append(b"e")
    await confirmed(held, 5)
    assert held.outcomes == [(name, None) for name in "abcde"]
    assert [data for _, data in await held.read_all()] == [b"a", b"b", b"c", b"d", b"e"]


async def test_a_ledger_that_cannot_be_named_is_not_left_behind() -> None:
    held = await world(entries_max=1)
    await held.ledger.writable()
    real = held.meta.cas_topic
    held.meta.cas_topic = full  # type: ignore[method-assign]
    held.append(b"a")
    with pytest.raises(DiskFull):
        await held.ledger.roll()
    held.meta.cas_topic = real  # type: ignore[method-assign]
    assert [info.ledger_id for info in await held.memory.ledgers()] == [one.ledger_id for one in held.ledger.record.ledgers]
    held.now_ms += ROLL_RETRY_MS
    held.append(b"b")
    await rolled(held, 2)


async def test_a_ledger_that_a_roll_could_not_seal_is_sealed_with_the_next() -> None:
    held = await world(entries_max=1)
    await held.ledger.writable()
    real = held.meta.cas_topic
    named: list[int] = []

    async def once(fence: Fence, record: TopicRecord) -> TopicRecord:
        if len(record.ledgers) == 2 and len(named) == 1:
            named.append(0)
            raise Unavailable("not now")
        named.append(len(record.ledgers))
        return await real(fence, record)

    held.meta.cas_topic = once  # type: ignore[method-assign]
    held.append(b"a")
    held.append(b"b")
    await held.ledger.roll()
    assert [one.last_entry for one in held.ledger.record.ledgers] == [None, None]
    held.append(b"c")
    held.append(b"d")
    await rolled(held, 3)
    await confirmed(held, 4)
    assert [data for _, data in await held.read_all()] == [b"a", b"b", b"c", b"d"]


async def test_rolling_trimming_and_terminating_do_not_trip_over_each_other() -> None:
    held = await world(entries_max=1)
    await held.ledger.writable()
    for index in range(6):
        held.append(b"x")
        await confirmed(held, index + 1)
        await asyncio.gather(
            held.ledger.trim(held.ledger.ledger_list.last, Retention(10**9, -1)),
            held.ledger.trim(held.ledger.ledger_list.last, Retention(10**9, -1)),
            held.ledger.update(lambda record: replace(record, properties={"n": "1"})),
        )
    assert held.ledger.failed is None
    assert await held.meta.get_topic(NAME) == held.ledger.record
    known = {ledger.ledger_id for ledger in held.ledger.record.ledgers}
    await eventually(
        lambda: set(held.ledger.ledger_list.ids) <= known | {ledger.ledger_id for ledger in held.ledger.record.ledgers}
    )
