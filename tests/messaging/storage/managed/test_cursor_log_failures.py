"""The cursor log when a store refuses, is away, is damaged, or belongs to another."""

from __future__ import annotations

import asyncio

import pytest

from messaging.storage.ledger_store import (
    AppendFailed,
    DiskFull,
    StoreError,
    Unavailable,
)
from messaging.storage.managed import delta_batcher
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.ledger import Storage
from tests.support.storage.cursor_world import World
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.memory_ledgers import MemoryLedgerStore
from tests.support.storage.owning import owned
from tests.support.waiting import eventually


async def test_a_failed_append_is_told_to_everybody_who_waits() -> None:
    world = await World().start()
    first_id, second_id = await world.subscriptions(2)
    world.store.fail_appends(DiskFull("full"))
    outcomes = await asyncio.gather(world.store_delta(first_id, b"a"), world.store_delta(second_id, b"b"))
    assert [type(outcome) for outcome in outcomes] == [DiskFull, DiskFull]
    assert [type(failure) for failure in world.failures] == [DiskFull]
    assert isinstance(await world.store_delta(first_id, b"c"), StoreError)  # and later ones too, at once
    world.store.heal()
    await eventually(lambda: world.repaired == [1])


@pytest.mark.parametrize("fault", [DiskFull("full"), AppendFailed("who knows"), Unavailable("away")])
async def test_a_store_that_takes_appends_again_is_used_again(fault: StoreError) -> None:
    """It took a restart, although nothing was wrong any more."""
    world = await World().start()
    first_id, second_id = await world.subscriptions(2)
    assert await world.store_delta(first_id, b"a") is None
    world.store.fail_appends(fault)
    assert await world.store_delta(first_id, b"b") is fault
    assert await world.store_delta(second_id, b"c") is not None
    await eventually(lambda: len(world.store.calls) > 4)  # tried again, in vain
    assert world.repaired == []
    still = await world.crash()
    await still.load()
    assert still.loaded == {first_id: [b"a"], second_id: []}, "what was refused is not there, and what was durable is"

    world = await still.crash()
    await world.load()
    world.store.fail_appends(fault)
    await world.store_delta(first_id, b"b")
    world.store.heal()
    await eventually(lambda: world.repaired == [1])
    assert await world.store_delta(second_id, b"d") is None
    after = await world.crash()
    await after.load()
    assert after.loaded == {first_id: [b"a", b"b"], second_id: [b"d"]}, (
        "what was refused is durable too: the cursor in memory had it"
    )
    await after.log.stop()
    assert len(await after.ledgers()) == 1


@pytest.mark.parametrize("call", ["create", "delete"])
async def test_a_call_that_fails_while_repairing_is_tried_again(call: str) -> None:
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    world.store.fail_appends()
    world.store.fail_next(call, Unavailable("not yet"))
    assert await world.store_delta(subscription_id, b"a") is not None
    await eventually(lambda: call in world.store.calls or len(world.store.calls) > 5)
    world.store.stop_failing()
    await eventually(lambda: world.repaired == [1])
    assert await world.store_delta(subscription_id, b"b") is None
    after = await world.crash()
    await after.load()
    assert after.loaded[subscription_id] == [b"a", b"b"]


@pytest.mark.parametrize("why", ["failed", "fenced"])
async def test_a_store_that_failed_for_good_is_left_alone(why: str) -> None:
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    if why == "failed":
        world.store.failed = error = AppendFailed("the disk reported an error")
        world.store.fail_appends(error)
    else:
        world.store.fence()
    calls = len(world.store.calls)
    for _ in range(3):
        assert isinstance(await world.store_delta(subscription_id, b"a"), StoreError)
    assert world.log.checkpointing is None
    assert world.store.calls[calls:] == []
    assert (len(world.failures), world.repaired) == (1, [])


async def test_stopping_does_not_wait_for_a_store_that_refuses() -> None:
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    world.store.fail_appends()
    await world.store_delta(subscription_id, b"a")
    await world.log.stop()
    assert world.log.checkpointing is None


async def test_stopping_does_not_wait_for_metadata_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deltas are stored, but no checkpoint succeeds: it was tried for ever, and a stop waited for it."""
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)

    async def refuse(*values: object) -> None:
        raise Unavailable("away")

    assert await world.store_delta(subscription_id, b"a") is None
    monkeypatch.setattr(world.meta, "save_cursors", refuse)
    world.log.begin_checkpoint()
    await eventually(lambda: world.log.health.failures > 0)
    assert world.log.refusing is None
    await asyncio.wait_for(world.log.stop(), 5)
    monkeypatch.undo()
    after = await world.crash()
    await after.load()
    assert after.loaded == {subscription_id: [b"a"]}


async def test_stopping_after_a_start_that_failed_forgets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    assert await world.store_delta(subscription_id, b"a") is None

    async def refuse(key: str) -> bytes:
        raise Unavailable("away")

    world.memory = MemoryLedgerStore(world.memory)
    failed = CursorLog(Storage(world.memory, world.meta, await owned(world.memory, world.meta), lambda: 1))
    with monkeypatch.context() as patched:
        patched.setattr(world.meta, "get_value", refuse)
        with pytest.raises(Unavailable):
            await failed.start()
    await failed.stop()
    after = await world.crash()
    await after.load()
    assert after.loaded == {subscription_id: [b"a"]}


async def test_damage_costs_the_damaged_deltas_and_not_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """One bad block kept the broker from starting."""
    world = await World().start()
    first_id, second_id = await world.subscriptions(2)
    for delta in (b"a", b"b", b"c"):
        await world.store_delta(first_id, delta)
    await world.store_delta(second_id, b"d")
    (ledger,) = await world.ledgers()
    with caplog.at_level("CRITICAL"):
        after = await world.crash(damage=[(ledger, 1), (ledger, 2)])
    await after.load()
    assert after.loaded == {first_id: [b"a"], second_id: [b"d"]}
    assert "2 of 4 deltas are lost" in caplog.text
    assert await after.store_delta(second_id, b"e") is None


@pytest.mark.parametrize("passes", [True, False])
async def test_a_ledger_that_cannot_be_read_does_not_keep_the_broker_from_starting(passes: bool) -> None:
    """What was acknowledged there comes again; unless the next try succeeds."""
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    for number in range(3):
        world.log.append(subscription_id, b"%d" % number)
        await asyncio.sleep(0)
    reads = 0

    class Unreadable(FaultyLedgerStore):
        async def call(self, name: str, work: object) -> object:  # type: ignore[override]
            nonlocal reads
            if name == "read":
                reads += 1
                if reads == 1 or not passes:
                    raise Unavailable("[Errno 5] Input/output error")
            return await super().call(name, work)  # type: ignore[arg-type]

    store = Unreadable(MemoryLedgerStore(world.memory))
    storage = Storage(store, world.meta, await owned(store, world.meta), lambda: 1)
    log = CursorLog(storage)
    await log.start()
    assert (log.recovered_deltas(subscription_id) != []) is passes
    assert (storage.damage["cursor"] > 0) is not passes
    await log.stop()


async def test_stopping_with_a_dead_store_does_not_raise() -> None:
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    world.store.fail_next("create", Unavailable("gone"))
    await world.store_delta(subscription_id, b"a")
    await world.log.stop()
    assert world.log.health.failing
    after = await world.crash()
    assert after.log.recovered_deltas(subscription_id) == [b"a"]


async def test_a_callback_that_raises_keeps_no_other_from_its_answer() -> None:
    world = await World().start()
    first_id, second_id = await world.subscriptions(2)
    answered: list[StoreError | None] = []

    def raises(error: StoreError | None) -> None:
        raise ValueError("its connection is in no state to be written to")

    world.log.append(first_id, b"a", raises)
    world.log.append(second_id, b"b", answered.append)
    await eventually(lambda: answered == [None])


async def test_an_unexpected_error_of_a_writer_is_answered_and_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    with monkeypatch.context() as patched:
        patched.setattr(delta_batcher, "block_of", lambda *_: 1 // 0)
        assert isinstance(await world.store_delta(subscription_id, b"a"), Unavailable)
    await eventually(lambda: world.repaired == [1])
    after = await world.crash()
    await after.load()
    assert after.loaded == {subscription_id: [b"a"]}


async def test_a_ledger_that_was_named_and_never_made_is_passed_over() -> None:
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    await world.store_delta(subscription_id, b"a")
    world.store.fail_next("create", Unavailable("crash"))
    with pytest.raises(Unavailable):
        await world.log.checkpoint()
    after = await world.crash()
    assert after.log.recovered_deltas(subscription_id) == [b"a"]


async def test_an_unknown_outcome_may_come_back() -> None:
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    world.store.lose_outcomes(AppendFailed("who knows"))
    assert isinstance(await world.store_delta(subscription_id, b"a"), AppendFailed)
    after = await world.crash()
    assert after.log.recovered_deltas(subscription_id) == [
        b"a"
    ]  # it was written after all; repeating an acknowledgement harms nobody


async def test_a_start_on_a_full_disk_refuses_acknowledgements_until_there_is_space() -> None:
    """Seen: a broker killed while its disk was full did not start again: the space kept for cursors was used up."""
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    await world.store_delta(subscription_id, b"a")
    full = DiskFull("the disk is full")
    after = await World(MemoryLedgerStore(world.memory), world.meta).start(full=full)
    space = after.store.delay("create")
    assert after.log.refusing is full
    await after.load()
    assert isinstance(await after.store_delta(subscription_id, b"b"), DiskFull)
    space.set()
    await eventually(lambda: after.log.refusing is None)
    assert await after.store_delta(subscription_id, b"c") is None
    last = await after.crash()
    await last.load()
    assert last.loaded == {subscription_id: [b"a", b"b", b"c"]}
