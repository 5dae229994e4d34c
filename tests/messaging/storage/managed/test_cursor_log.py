"""The cursor log over stores in memory: what was durable is repeated after any end, and nothing is kept longer than needed."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.storage.ledger_store import (
    EARLIEST,
    AppendFailed,
    DiskFull,
    Position,
    StoreError,
    Unavailable,
)
from messaging.storage.managed import delta_batcher as delta_blocks
from messaging.storage.managed.cursor_log import KEY, CursorLog
from messaging.storage.managed.cursor_snapshots import SAVED_BYTES_MAX, SAVED_TOGETHER_MAX
from messaging.storage.managed.ledger import Storage
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore
from tests.support.waiting import eventually


class Deltas(list[bytes]):
    """A cursor here is the list of its deltas; a snapshot is those as text."""

    mark_delete = EARLIEST
    broken = False

    def snapshot(self) -> bytes:
        if self.broken:
            raise struct.error("int too large to convert")
        return b",".join(self)


class World:
    def __init__(
        self, memory: MemoryLedgerStore | None = None, meta: MemoryMetaStore | None = None, *, checkpoint_bytes: int = 1 << 20
    ):
        self.memory = memory or MemoryLedgerStore()
        self.meta = meta or MemoryMetaStore()
        self.checkpoint_bytes = checkpoint_bytes
        self.loaded: dict[int, Deltas] = {}
        self.failures: list[StoreError] = []
        self.mended: list[int] = []  # how many failures there had been

    async def start(self, damage: Sequence[tuple[int, int]] = ()) -> World:
        """`damage`: (ledger, entry) that cannot be read."""
        self.store = FaultyLedgerStore(self.memory)
        for ledger_id, entry_id in damage:
            self.store.damage(ledger_id, entry_id)
        fence = await self.store.start()
        storage = Storage(self.store, self.meta, fence, lambda: 1)
        self.log = CursorLog(storage, checkpoint_bytes=self.checkpoint_bytes, retry_s=0.001)
        self.log.on_repaired = lambda: self.mended.append(len(self.failures))
        self.log.on_failure = self.failures.append
        await self.log.start()
        return self

    def claim(self, subscription_id: int, deltas: Sequence[bytes] = ()) -> None:
        cursor = self.loaded[subscription_id] = Deltas(deltas)
        self.log.claim(subscription_id, cursor)

    async def unload(self) -> None:
        await self.log.release(list(self.loaded))
        self.loaded.clear()

    async def subscriptions(self, count: int) -> list[int]:
        ids = []
        for index in range(count):
            record = await self.meta.create_subscription(
                "persistent://a/b/t", f"s{index}", created_ms=0, mark_delete=EARLIEST, properties={}
            )
            self.claim(record.subscription_id)
            ids.append(record.subscription_id)
        return ids

    async def load(self) -> None:
        """Every topic is opened: snapshot first, then what the log repeats."""
        for record in await self.meta.subscriptions("persistent://a/b/t"):
            if record.subscription_id in self.loaded:
                continue
            held = self.log.states.cursors.get(record.subscription_id)
            if isinstance(held, Deltas):
                self.loaded[record.subscription_id] = held
                continue
            deltas = list_of(record.state)
            for delta in self.log.recovered_deltas(record.subscription_id):
                if delta not in deltas:
                    deltas.append(delta)
            self.claim(record.subscription_id, deltas)

    async def store_delta(self, subscription_id: int, delta: bytes) -> StoreError | None:
        self.loaded[subscription_id].append(delta)
        done: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        self.log.append(subscription_id, delta, done.set_result)
        return await done

    async def crash(self, damage: Sequence[tuple[int, int]] = ()) -> World:
        if self.log._checkpointing is not None:
            self.log._checkpointing.cancel()  # the dead do nothing more
            await asyncio.wait([self.log._checkpointing])
        after = World(MemoryLedgerStore(self.memory), self.meta, checkpoint_bytes=self.checkpoint_bytes)
        return await after.start(damage)

    async def ledgers(self) -> list[int]:
        return [info.ledger_id for info in await self.memory.ledgers()]

    async def named(self) -> list[int]:
        stored = await self.meta.get_value(KEY)
        assert stored is not None
        return list(json.loads(stored))


def list_of(state: bytes) -> list[bytes]:
    return state.split(b",") if state else []


async def test_deltas_of_one_turn_share_one_block() -> None:
    world = await World().start()
    one, two = await world.subscriptions(2)
    order: list[str] = []
    for index in range(50):
        world.log.append(one if index % 2 else two, b"%d" % index, lambda error, index=index: order.append(f"{index} {error}"))  # type: ignore[misc]
    assert order == []
    await eventually(lambda: len(order) == 50)
    assert order == [f"{index} None" for index in range(50)]
    (ledger,) = await world.ledgers()
    reader = await world.memory.open(ledger)
    (block,) = await reader.read(0, entries_max=100, bytes_max=1 << 20)
    assert block.count == 50


async def test_done_comes_after_the_block_is_durable() -> None:
    world = await World().start()
    (one,) = await world.subscriptions(1)
    world.store.hold()
    storing = asyncio.ensure_future(world.store_delta(one, b"a"))
    await eventually(lambda: bool(world.store._held))
    assert not storing.done()
    world.store.release()
    assert await storing is None


async def test_who_changed_nothing_waits_for_the_change_that_was_made_before() -> None:
    """The same acknowledgement a second time was answered while the first was on its way to the disk."""
    world = await World().start()
    (one,) = await world.subscriptions(1)
    order: list[str] = []
    world.log.when_durable(lambda error: order.append(f"nothing before {error}"))
    assert order == ["nothing before None"]
    world.store.hold()
    world.log.append(one, b"a", lambda error: order.append("first"))
    world.log.when_durable(lambda error: order.append("in the same turn"))
    await eventually(lambda: bool(world.store._held))
    world.log.when_durable(lambda error: order.append("under way"))
    assert len(order) == 1
    world.store.release()
    await eventually(lambda: len(order) == 4)
    assert order[1:] == ["first", "in the same turn", "under way"]
    world.store.fail_appends(DiskFull("full"))
    assert await world.store_delta(one, b"b") is not None
    refused: list[StoreError | None] = []
    world.log.when_durable(refused.append)
    assert isinstance(refused[0], DiskFull)


async def test_a_crash_gives_every_delta_back_in_order() -> None:
    world = await World().start()
    one, two = await world.subscriptions(2)
    for index in range(5):
        await world.store_delta(one, b"a%d" % index)
    await world.store_delta(two, b"b")
    after = await world.crash()
    assert after.log.recovered_deltas(one) == [b"a0", b"a1", b"a2", b"a3", b"a4"]
    assert after.log.recovered_deltas(two) == [b"b"]
    assert after.log.recovered_deltas(99) == []
    again = await after.crash()  # nothing was loaded in between
    assert again.log.recovered_deltas(one) == [b"a0", b"a1", b"a2", b"a3", b"a4"]


async def test_a_clean_stop_leaves_nothing_to_repeat() -> None:
    world = await World().start()
    (one,) = await world.subscriptions(1)
    await world.store_delta(one, b"a")
    await world.log.stop()
    assert len(await world.ledgers()) == 1
    after = await world.crash()
    assert after.log.recovered == {}
    await after.load()
    assert after.loaded[one] == [b"a"]


async def test_a_checkpoint_saves_what_changed_and_drops_the_old_ledger() -> None:
    world = await World(checkpoint_bytes=300).start()
    one, two = await world.subscriptions(2)
    first = await world.ledgers()
    index = 0
    while await world.ledgers() == first or len(await world.ledgers()) > 1:
        await world.store_delta(one, b"a%02d" % index)
        index += 1
        assert index < 1000
    assert await world.named() == await world.ledgers()
    await world.store_delta(two, b"b")
    after = await world.crash()
    await after.load()
    assert after.loaded[one] == world.loaded[one]
    assert after.loaded[two] == [b"b"]


async def test_deltas_of_topics_that_are_not_loaded_are_carried_over() -> None:
    world = await World().start()
    one, two = await world.subscriptions(2)
    await world.store_delta(one, b"a")
    await world.store_delta(two, b"b")
    after = await world.crash()
    after.claim(two, [b"b"])
    for _ in range(3):
        await after.log.checkpoint()
        assert len(await after.ledgers()) == 1
    again = await after.crash()
    assert again.log.recovered_deltas(one) == [b"a"]
    assert again.log.recovered_deltas(two) == []
    await again.load()
    assert again.loaded == {one: [b"a"], two: [b"b"]}


async def test_carried_deltas_do_not_cause_checkpoint_after_checkpoint() -> None:
    world = await World().start()
    (one,) = await world.subscriptions(1)
    await world.store_delta(one, b"x" * 1000)
    after = World(MemoryLedgerStore(world.memory), world.meta, checkpoint_bytes=200)
    await after.start()
    await after.log.checkpoint()
    ledgers = await after.ledgers()
    (two,) = [(await after.meta.create_subscription("persistent://a/b/u", "s", created_ms=0, mark_delete=EARLIEST, properties={}))]
    after.claim(two.subscription_id)
    await after.store_delta(two.subscription_id, b"y")
    assert await after.ledgers() == ledgers
    assert after.log._checkpointing is None


async def test_a_failed_append_is_told_to_everybody_who_waits() -> None:
    world = await World().start()
    one, two = await world.subscriptions(2)
    world.store.fail_appends(DiskFull("full"))
    outcomes = await asyncio.gather(world.store_delta(one, b"a"), world.store_delta(two, b"b"))
    assert [type(outcome) for outcome in outcomes] == [DiskFull, DiskFull]
    assert [type(failure) for failure in world.failures] == [DiskFull]
    assert isinstance(await world.store_delta(one, b"c"), StoreError)  # and later ones too, at once
    world.store.heal()
    await eventually(lambda: world.mended == [1])


@pytest.mark.parametrize("fault", [DiskFull("full"), AppendFailed("who knows"), Unavailable("away")])
async def test_a_store_that_takes_appends_again_is_used_again(fault: StoreError) -> None:
    """It took a restart, although nothing was wrong any more."""
    world = await World().start()
    one, two = await world.subscriptions(2)
    assert await world.store_delta(one, b"a") is None
    world.store.fail_appends(fault)
    assert await world.store_delta(one, b"b") is fault
    assert await world.store_delta(two, b"c") is not None
    await eventually(lambda: len(world.store.calls) > 4)  # tried again, in vain
    assert world.mended == []
    still = await world.crash()
    await still.load()
    assert still.loaded == {one: [b"a"], two: []}, "what was refused is not there, and what was durable is"

    world = await still.crash()
    await world.load()
    world.store.fail_appends(fault)
    await world.store_delta(one, b"b")
    world.store.heal()
    await eventually(lambda: world.mended == [1])
    assert await world.store_delta(two, b"d") is None
    after = await world.crash()
    await after.load()
    assert after.loaded == {one: [b"a", b"b"], two: [b"d"]}, "what was refused is durable too: the cursor in memory had it"
    await after.log.stop()
    assert len(await after.ledgers()) == 1


@pytest.mark.parametrize("call", ["create", "delete"])
async def test_a_call_that_fails_while_mending_is_tried_again(call: str) -> None:
    world = await World().start()
    (one,) = await world.subscriptions(1)
    world.store.fail_appends()
    world.store.fail_next(call, Unavailable("not yet"))
    assert await world.store_delta(one, b"a") is not None
    await eventually(lambda: call in world.store.calls or len(world.store.calls) > 5)
    world.store._fail = None
    await eventually(lambda: world.mended == [1])
    assert await world.store_delta(one, b"b") is None
    after = await world.crash()
    await after.load()
    assert after.loaded[one] == [b"a", b"b"]


@pytest.mark.parametrize("why", ["failed", "fenced"])
async def test_a_store_that_failed_for_good_is_left_alone(why: str) -> None:
    world = await World().start()
    (one,) = await world.subscriptions(1)
    if why == "failed":
        world.store.failed = error = AppendFailed("the disk reported an error")
        world.store.fail_appends(error)
    else:
        world.store.fence()
    calls = len(world.store.calls)
    for _ in range(3):
        assert isinstance(await world.store_delta(one, b"a"), StoreError)
    assert world.log._checkpointing is None
    assert world.store.calls[calls:] == []
    assert (len(world.failures), world.mended) == (1, [])


async def test_stopping_does_not_wait_for_a_store_that_refuses() -> None:
    world = await World().start()
    (one,) = await world.subscriptions(1)
    world.store.fail_appends()
    await world.store_delta(one, b"a")
    await world.log.stop()
    assert world.log._checkpointing is None


async def test_damage_costs_the_damaged_deltas_and_not_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """One bad block kept the broker from starting."""
    world = await World().start()
    one, two = await world.subscriptions(2)
    for delta in (b"a", b"b", b"c"):
        await world.store_delta(one, delta)
    await world.store_delta(two, b"d")
    (ledger,) = await world.ledgers()
    with caplog.at_level("CRITICAL"):
        after = await world.crash(damage=[(ledger, 1), (ledger, 2)])
    await after.load()
    assert after.loaded == {one: [b"a"], two: [b"d"]}
    assert "2 of 4 deltas are lost" in caplog.text
    assert await after.store_delta(two, b"e") is None


@pytest.mark.parametrize("passes", [True, False])
async def test_a_ledger_that_cannot_be_read_does_not_keep_the_broker_from_starting(passes: bool) -> None:
    """What was acknowledged there comes again; unless the next try succeeds."""
    world = await World().start()
    (one,) = await world.subscriptions(1)
    for number in range(3):
        world.log.append(one, b"%d" % number)
        await asyncio.sleep(0)
    reads = 0

    class Unreadable(FaultyLedgerStore):
        async def _do(self, name: str, work: object) -> object:  # type: ignore[override]
            nonlocal reads
            if name == "read":
                reads += 1
                if reads == 1 or not passes:
                    raise Unavailable("[Errno 5] Input/output error")
            return await super()._do(name, work)  # type: ignore[arg-type]

    store = Unreadable(MemoryLedgerStore(world.memory))
    storage = Storage(store, world.meta, await store.start(), lambda: 1)
    log = CursorLog(storage)
    await log.start()
    assert (log.recovered_deltas(one) != []) is passes
    assert (storage.damage["cursor"] > 0) is not passes
    await log.stop()


async def test_deltas_of_deleted_subscriptions_are_not_carried_for_ever() -> None:
    world = await World().start()
    one, two = await world.subscriptions(2)
    await world.store_delta(one, b"a")
    await world.store_delta(two, b"b")
    after = await world.crash()
    await after.meta.delete_subscription("persistent://a/b/t", "s0")
    await after.log.checkpoint()
    assert after.log.recovered == {two: [b"b"]}
    again = await after.crash()
    assert again.log.recovered == {two: [b"b"]}


async def test_stopping_with_a_dead_store_does_not_raise() -> None:
    world = await World().start()
    (one,) = await world.subscriptions(1)
    world.store.fail_next("create", Unavailable("gone"))
    await world.store_delta(one, b"a")
    await world.log.stop()
    assert [type(failure) for failure in world.failures] == [Unavailable]
    after = await world.crash()
    assert after.log.recovered_deltas(one) == [b"a"]


class RefusingMeta(MemoryMetaStore):
    refuse = False

    async def save_cursors(self, states: list[tuple[int, Position, bytes]]) -> None:
        if self.refuse:
            raise Unavailable("metadata is away")
        await super().save_cursors(states)


async def test_a_checkpoint_that_fails_forgets_no_cursor() -> None:
    """The next one dropped the ledger of the failed one without having saved the cursors in it."""
    meta = RefusingMeta()
    world = await World(meta=meta).start()
    one, two = await world.subscriptions(2)
    await world.store_delta(one, b"a")
    meta.refuse = True
    with pytest.raises(Unavailable):
        await world.log.checkpoint()
    meta.refuse = False
    await world.store_delta(two, b"b")
    await world.log.checkpoint()
    after = await world.crash()
    await after.load()
    assert after.loaded == {one: [b"a"], two: [b"b"]}


async def test_a_checkpoint_does_not_set_back_a_cursor_saved_meanwhile() -> None:
    """A topic is unloaded, which saves its cursor, while a checkpoint waits for the disk: its older snapshot came afterwards."""
    world = await World().start()
    (one,) = await world.subscriptions(1)
    await world.store_delta(one, b"a")
    world.store.hold()
    checkpoint = asyncio.ensure_future(world.log.checkpoint())
    await eventually(lambda: bool(world.store._held))
    world.loaded[one].append(b"late")
    world.log.append(one, b"late")
    await world.unload()
    world.store.release()
    await checkpoint
    await world.load()
    assert world.loaded[one] == [b"a", b"late"]


class Picky(MemoryMetaStore):
    """Refuses to save one cursor, as SQLite does a number beyond 64 bits; and counts what it is asked to save."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[int] = set()
        self.error: Exception = OverflowError("Python int too large to convert to SQLite INTEGER")
        self.calls: list[int] = []

    async def save_cursors(self, states: list[tuple[int, Position, bytes]]) -> None:
        self.calls.append(len(states))
        if any(state[0] in self.refused for state in states):
            raise self.error
        await super().save_cursors(states)


@pytest.mark.parametrize("why", ["packing", "saving", "store"])
async def test_a_cursor_that_cannot_be_saved_keeps_no_other_from_it_and_loses_nothing(why: str) -> None:
    """Seen: `struct.pack` raised for one mark-delete position, and from then on no checkpoint of any topic succeeded."""
    meta = Picky()
    world = await World(meta=meta).start()
    one, bad, three = await world.subscriptions(3)
    for index in range(3):
        for key in (one, bad, three):
            await world.store_delta(key, b"%d" % index)
    if why == "packing":
        world.loaded[bad].broken = True
    else:
        meta.refused = {bad}
        meta.error = Unavailable("too large") if why == "store" else meta.error
    for index in range(3, 6):
        await world.log.checkpoint()
        assert len(await world.ledgers()) == 2, "what only repeats the others is gone, whatever happens to this one"
        assert world.log.states.unsaved == {bad}
        assert world.log.health.failing
        await world.store_delta(bad, b"%d" % index)
        await world.store_delta(one, b"%d" % index)
    await world.log.checkpoint()
    after = await world.crash()
    assert after.log.recovered == {bad: [b"%d" % index for index in range(6)]}, "in order, and no other's"
    meta.refused = set()
    await after.load()
    assert after.loaded[three] == [b"0", b"1", b"2"]
    assert after.loaded[one] == after.loaded[bad] == [b"%d" % index for index in range(6)]
    await after.log.checkpoint()
    assert len(await after.ledgers()) == 1 and not after.log.states.unsaved


async def test_a_deleted_cursor_that_could_not_be_saved_is_carried_no_longer() -> None:
    world = await World().start()
    one, bad = await world.subscriptions(2)
    await world.store_delta(bad, b"a")
    world.loaded[bad].broken = True
    await world.log.checkpoint()
    world.log.forget(bad)
    await world.store_delta(one, b"b")
    await world.log.checkpoint()
    assert len(await world.ledgers()) == 1 and not world.log.states.unsaved


async def test_unloading_saves_what_can_be_saved_and_keeps_the_rest_for_the_next_load() -> None:
    """Seen: unload answered 500, and the answered acknowledgements of the topic's other subscriptions were gone."""
    world = await World().start()
    one, bad, three = await world.subscriptions(3)
    for key in (one, bad, three):
        await world.store_delta(key, b"a")
    world.loaded[bad].broken = True
    broken = world.loaded[bad]
    await world.unload()
    assert set(world.log.states.cursors) == {bad}
    assert not world.log.is_saved(bad) and world.log.is_saved(one)
    await world.load()
    assert world.loaded == {one: [b"a"], bad: [b"a"], three: [b"a"]}
    assert world.loaded[bad] is broken


async def test_unloading_while_the_store_is_away_keeps_every_cursor_until_a_checkpoint_saves_them() -> None:
    meta = RefusingMeta()
    world = await World(meta=meta).start()
    one, two = await world.subscriptions(2)
    await world.store_delta(one, b"a")
    meta.refuse = True
    await world.unload()
    assert set(world.log.states.cursors) == {one, two} and world.log.health.failing
    await eventually(lambda: bool(world.failures))
    meta.refuse = False
    await eventually(lambda: world.log._checkpointing is None)
    assert not world.log.health.failing and not world.log.states.unsaved
    await world.load()
    assert world.loaded == {one: [b"a"], two: []}


async def test_a_load_that_fails_leaves_what_was_recovered_to_the_next() -> None:
    """Seen: 8 of 9 answered acknowledgements came back, because the first load failed after it had claimed them."""
    world = await World().start()
    (one,) = await world.subscriptions(1)
    for index in range(9):
        await world.store_delta(one, b"%d" % index)
    after = await world.crash()
    assert len(after.log.recovered_deltas(one)) == 9  # a load begins, and ends in an error
    await after.log.checkpoint()
    await after.load()
    assert len(after.loaded[one]) == 9


async def test_one_who_waits_for_an_answer_and_raises_keeps_no_other_from_theirs() -> None:
    world = await World().start()
    one, two = await world.subscriptions(2)
    answered: list[StoreError | None] = []

    def raises(error: StoreError | None) -> None:
        raise ValueError("its connection is in no state to be written to")

    world.log.append(one, b"a", raises)
    world.log.append(two, b"b", answered.append)
    await eventually(lambda: answered == [None])


async def test_what_a_writer_raises_unexpectedly_is_answered_and_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await World().start()
    (one,) = await world.subscriptions(1)
    with monkeypatch.context() as patched:
        patched.setattr(delta_blocks, "block_of", lambda *_: 1 // 0)
        assert isinstance(await world.store_delta(one, b"a"), Unavailable)
    await eventually(lambda: world.mended == [1])
    after = await world.crash()
    await after.load()
    assert after.loaded == {one: [b"a"]}


async def test_a_checkpoint_costs_as_many_steps_as_cursors_changed_in_slices() -> None:
    """Seen: 0.65 s of the loop for a topic with 5,000 subscriptions: each was searched among all."""
    meta = Picky()
    world = await World(meta=meta).start()
    ids = await world.subscriptions(5_000)
    packed = 0

    class Counting(Deltas):
        def snapshot(self) -> bytes:
            nonlocal packed
            packed += 1
            return super().snapshot()

    for key in ids:
        world.log.claim(key, Counting())
        world.log.append(key, b"a")
    await world.log.checkpoint()
    assert packed == 5_000
    assert max(meta.calls) == SAVED_TOGETHER_MAX, "what one turn of the loop does has a bound"
    assert len(meta.calls) == 5_000 / SAVED_TOGETHER_MAX


async def test_large_snapshots_are_packed_few_at_a_time() -> None:
    meta = Picky()
    world = await World(meta=meta).start()
    for key in await world.subscriptions(6):
        world.log.claim(key, Deltas([b"x" * (SAVED_BYTES_MAX // 2)]))
        world.log.append(key, b"a")
    await world.log.checkpoint()
    assert meta.calls == [2, 2, 2]


async def test_a_ledger_that_was_named_and_never_made_is_passed_over() -> None:
    world = await World().start()
    (one,) = await world.subscriptions(1)
    await world.store_delta(one, b"a")
    world.store.fail_next("create", Unavailable("crash"))
    with pytest.raises(Unavailable):
        await world.log.checkpoint()
    after = await world.crash()
    assert after.log.recovered_deltas(one) == [b"a"]


async def test_an_unknown_outcome_may_come_back() -> None:
    world = await World().start()
    (one,) = await world.subscriptions(1)
    world.store.lose_outcomes(AppendFailed("who knows"))
    assert isinstance(await world.store_delta(one, b"a"), AppendFailed)
    after = await world.crash()
    assert after.log.recovered_deltas(one) == [b"a"]  # it was written after all; repeating an acknowledgement harms nobody


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("delta"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["checkpoint", "crash", "stop", "load", "outage"]), st.just(0)),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=150)
@given(STEPS)
def test_no_end_loses_what_was_durable(steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        world = await World(checkpoint_bytes=120).start()
        ids = await world.subscriptions(3)
        durable: dict[int, list[bytes]] = {one: [] for one in ids}
        crashes = 1 + sum(what in ("crash", "stop") for what, _ in steps)
        for number, (what, which) in enumerate(steps):
            if what == "delta" and ids[which] in world.loaded:
                delta = b"%d" % number
                assert await world.store_delta(ids[which], delta) is None
                durable[ids[which]].append(delta)
            elif what == "checkpoint" and world.log._checkpointing is None:
                await world.log.checkpoint()
            elif what == "crash":
                world = await world.crash()
            elif what == "stop":
                await world.log.stop()
                world = await world.crash()
            elif what == "load":
                await world.load()
            elif what == "outage" and world.loaded:
                world.store.fail_appends(DiskFull("full"))
                for key in world.loaded:
                    delta = b"%d-%d" % (number, key)
                    assert await world.store_delta(key, delta) is not None
                    durable[key].append(delta)
                world.store.heal()
                await eventually(lambda: len(world.mended) == len(world.failures))  # noqa: B023
        world = await world.crash()
        await world.load()
        assert world.loaded == durable
        await world.log.stop()
        assert len(await world.named()) == 1
        assert len(await world.ledgers()) <= 1 + crashes, "a crash may leave one that was made and not named, nothing else does"

    asyncio.run(run())
