"""A newer owner of a range shuts the former one out of it, and of nothing else. On each implementation."""

from __future__ import annotations

import pytest

from messaging.storage.ledger_store import WHOLE, Fence, Fenced, LedgerClosed, StoreError
from tests.support.storage.ledger_entries import Results, append_all, read_all
from tests.support.storage.ledger_harness import Harness

LOWER, UPPER = "0x00-0x80", "0x80-0xff"


async def taken(harness: Harness, scope: str, epoch: int = 100) -> Fence:
    fence = Fence(scope, epoch)
    await harness.store.take_over(fence)
    return fence


async def test_a_former_owner_makes_seals_and_deletes_nothing(harness: Harness) -> None:
    former = await taken(harness, LOWER)
    await harness.store.create(former, 1, {})
    newer = await taken(harness, LOWER, 101)
    taken_over = await harness.store.info(1)  # a store may seal what it takes over
    for fence in (former, Fence(LOWER, 102), Fence(UPPER, 101)):
        for call in (harness.store.create(fence, 2, {}), harness.store.seal(fence, 1), harness.store.delete(fence, 1)):
            with pytest.raises(Fenced):
                await call
    assert await harness.store.ledger_ids(LOWER) == [1]
    assert await harness.store.info(1) == taken_over
    assert (await harness.store.seal(newer, 1)).sealed
    await harness.store.delete(newer, 1)


async def test_appends_of_a_former_owner_are_answered_before_it_is_shut_out(harness: Harness) -> None:
    """What was confirmed stays; nothing is confirmed once the takeover is done."""
    writer = await harness.store.create(await taken(harness, LOWER), 1, {})
    results = Results()
    for number in range(50):
        results.append(writer, [b"%d" % number])
    newer = await taken(harness, LOWER, 101)
    answered = list(results.got)
    assert len(answered) == 50
    with pytest.raises((Fenced, LedgerClosed)):
        results.append(writer, [b"late"])
    with pytest.raises(StoreError):
        await writer.close()
    info = await harness.store.seal(newer, 1)
    assert results.got == answered
    confirmed = [first for first, error in answered if error is None]
    assert confirmed == list(range(len(confirmed))) and info.last_entry >= len(confirmed) - 1
    stored = await read_all(await harness.store.open(1), info.last_entry)
    assert stored[: len(confirmed)] == [b"%d" % number for number in range(len(confirmed))]


async def test_other_ranges_do_not_notice(harness: Harness) -> None:
    upper = await harness.store.create(await taken(harness, UPPER), 1, {})
    whole = await harness.store.create(harness.fence, 2, {})
    await taken(harness, LOWER)
    await taken(harness, LOWER, 101)
    await append_all(upper, b"a")
    await append_all(whole, b"a")


async def test_an_older_fence_takes_nothing_over_and_the_same_does_again(harness: Harness) -> None:
    fence = await taken(harness, LOWER)
    writer = await harness.store.create(fence, 1, {})
    await taken(harness, LOWER)
    await append_all(writer, b"a")
    with pytest.raises(Fenced):
        await taken(harness, LOWER, 99)
    await append_all(writer, b"b")


@pytest.mark.parametrize("harness", ["bookkeeper", "postgresql"], indirect=True)
async def test_the_range_of_a_broker_is_taken_over_however_often_others_started(harness: Harness) -> None:
    """Epochs of a range rise with the starts of its own broker, and those of a store that is shared with everybody's."""
    await taken(harness, LOWER, 1)
    for _ in range(3):
        await harness.reopen()
    with pytest.raises(Fenced):
        await taken(harness, LOWER, 0)
    await harness.store.create(await taken(harness, LOWER, 2), 1, {})
    with pytest.raises(Fenced):
        await taken(harness, LOWER, 1)


async def test_ledgers_are_listed_by_range_after_a_restart_too(harness: Harness) -> None:
    for scope, ledger_id in ((LOWER, 1), (UPPER, 2), (LOWER, 3)):
        await harness.store.create(await taken(harness, scope), ledger_id, {"tenant": "acme"})
    await harness.store.create(harness.fence, 4, {"tenant": "acme"})

    async def listed() -> list[list[int]]:
        return [sorted(await harness.store.ledger_ids(scope)) for scope in (LOWER, UPPER, WHOLE, "other")]

    assert await listed() == [[1, 3], [2], [4], []]
    await harness.reopen()
    assert await listed() == [[1, 3], [2], [4], []]


async def test_fences_of_an_earlier_start_are_worth_nothing(harness: Harness) -> None:
    before = harness.fence
    await harness.store.create(before, 1, {})
    await harness.crash()
    assert harness.fence.epoch > before.epoch
    for call in (harness.store.create(before, 2, {}), harness.store.take_over(before)):
        with pytest.raises(Fenced):
            await call


async def test_blocks_come_back_as_they_were_appended(harness: Harness) -> None:
    """One by one, however they were committed: a block may be one add of another log."""
    writer, results = await harness.store.create(harness.fence, 1, {}), Results()
    blocks = [[b"%d-%d" % (number, index) for index in range(1 + number % 5)] for number in range(40)]
    for number, payloads in enumerate(blocks):
        results.append(writer, payloads, b"header %d" % number)
    await results.wait(len(blocks))
    reader, entry = await harness.store.open(1), 0
    read_blocks = []
    while entry <= writer.last_confirmed:
        read_blocks += await reader.read(entry, entries_max=1000, bytes_max=1 << 20)
        entry = read_blocks[-1].last_entry + 1
    assert [(block.header, block.count, bytes(block.data)) for block in read_blocks] == [
        (b"header %d" % number, len(payloads), b"".join(payloads)) for number, payloads in enumerate(blocks)
    ]
