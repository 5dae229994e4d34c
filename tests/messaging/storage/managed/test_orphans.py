"""What a crash leaves and nobody names goes; whatever anybody names stays, and all that this run makes."""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.storage.ledger_store import WHOLE, Fenced, Position, StoreError, Unavailable
from messaging.storage.managed import orphans
from messaging.storage.managed.cursor_log import KEY, CursorLog
from messaging.storage.managed.ledger import ManagedLedger, Storage
from messaging.storage.managed.orphans import Collected, collect_orphans
from messaging.storage.managed.owned_range import OwnedRange
from messaging.storage.managed.retention import NOTHING
from messaging.storage.meta_store import LedgerRecord, PartitionedRecord, TopicRecord
from messaging.storage.recycled_topic import RecycledTopic
from tests.support.examples import examples
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.managed_world import NAME, World
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore
from tests.support.storage.owning import owned
from tests.support.waiting import eventually


class Meta(MemoryMetaStore):
    """Small pages. `between`: runs before each of them."""

    fails: StoreError | None = None
    between: Callable[[], Awaitable[None]] | None = None

    async def referenced_ledgers(self, *, after: str = "", limit: int = 1000) -> tuple[list[int], str | None]:
        if self.between:
            await self.between()
        if after and self.fails:
            raise self.fails
        return await super().referenced_ledgers(after=after, limit=2)


@dataclass
class Run:
    """One run of a broker, as far as ledgers go."""

    store: FaultyLedgerStore
    meta: Meta
    storage: Storage
    cursors: CursorLog

    @classmethod
    async def start(cls, memory: MemoryLedgerStore, meta: Meta) -> Run:
        store = FaultyLedgerStore(memory)
        storage = Storage(store, meta, await owned(store, meta), lambda: 0)
        cursors = CursorLog(storage)
        await cursors.start()
        if cursors.checkpointing:  # which merges what many crashes left
            await cursors.checkpointing
        return cls(store, meta, storage, cursors)

    async def after_crash(self) -> Run:
        assert isinstance(self.store.store, MemoryLedgerStore)
        return await Run.start(MemoryLedgerStore(self.store.store), self.meta)

    async def make(self, size: int = 10) -> int:
        """A ledger with one entry of so many bytes, that nobody names."""
        ledger_id = await self.meta.next_ledger_id(self.storage.fence)
        writer = await self.store.create(self.storage.fence, ledger_id, {})
        writer.append(b"", bytes(size), array("I", [size]), lambda _: None)
        await writer.close()
        return ledger_id

    async def name(self, topic: str, *ledger_ids: int) -> None:
        record = await self.meta.get_topic(topic) or TopicRecord(topic)
        await self.meta.cas_topic(
            self.storage.fence, record.with_ledgers(tuple(LedgerRecord(ledger_id, 0, 10) for ledger_id in ledger_ids))
        )

    async def collect(self) -> Collected:
        return await collect_orphans(self.storage)

    async def ids(self) -> set[int]:
        return set(await self.store.ledger_ids(WHOLE))


@pytest.fixture
async def run() -> Run:
    return await Run.start(MemoryLedgerStore(), Meta())


async def test_a_ledger_made_and_not_named_goes_with_its_space(run: Run) -> None:
    named = [await run.make(10) for _ in range(7)]
    lost = [await run.make(size) for size in (1000, 200)]
    await run.meta.cas_partitioned(run.storage.fence, PartitionedRecord(NAME, len(named)))
    for number, ledger_id in enumerate(named):
        await run.name(f"{NAME}-partition-{number}", ledger_id)
    after = await run.after_crash()
    cursor_ledgers = set(json.loads(await run.meta.get_value(KEY) or b""))
    assert len(cursor_ledgers) == 2, "this run's and the one before"
    fresh = await after.make()
    stored_bytes = after.store.statistics().stored_bytes
    assert await after.collect() == Collected(2, 1200)
    assert await after.ids() == {*named, *cursor_ledgers, fresh}
    assert not await after.ids() & set(lost)
    left_bytes = after.store.statistics().stored_bytes
    assert stored_bytes is not None and left_bytes is not None and stored_bytes - left_bytes == 1200
    assert await after.collect() == Collected(0, 0)


async def test_a_ledger_that_lost_its_name_and_was_not_deleted_goes() -> None:
    """The record names it no more; the crash came before the store heard of it."""
    world = await World().start()
    for entry in (b"a", b"b"):
        await world.ledger.writable()
        world.append(entry)
        await eventually(lambda: world.ledger.in_flight == 0)
        await world.ledger.roll()
    first, second, last = [ledger.ledger_id for ledger in world.ledger.record.ledgers]
    world.store.fail_next("delete", Unavailable("crash"))
    with pytest.raises(Unavailable):
        await world.ledger.trim(Position(first, 0), NOTHING)
    after = await world.crash()
    assert await collect_orphans(after.storage) == Collected(1, 1)
    assert set(await after.store.ledger_ids(WHOLE)) == {second} | {ledger.ledger_id for ledger in after.ledger.record.ledgers}
    assert [data for _, data in await after.read_all()] == [b"b"]
    assert first not in await after.store.ledger_ids(WHOLE) and last < after.storage.owned.first_ledger_id


async def test_a_crash_in_the_middle_of_deleting_a_topic_or_of_a_checkpoint(run: Run) -> None:
    topic = [await run.make(), await run.make()]
    await run.name(NAME, *topic)
    await run.meta.delete_topic(run.storage.fence, NAME)
    (old,) = json.loads(await run.meta.get_value(KEY) or b"")
    run.store.fail_next("delete", Unavailable("crash"))
    with pytest.raises(Unavailable):
        await run.cursors.checkpoint()
    assert old in await run.ids()
    after = await run.after_crash()
    assert (await after.collect()).ledgers == 3
    assert await after.ids() == set(json.loads(await after.meta.get_value(KEY) or b""))
    await after.cursors.checkpoint()


async def test_names_that_cannot_be_read_are_no_reason_to_delete(run: Run) -> None:
    for number in range(5):
        await run.name(f"{NAME}-{number}", await run.make())
    await run.make()
    after = await run.after_crash()
    before = await after.ids()
    run.meta.fails = Unavailable("the disk is gone")  # from the second page on
    with pytest.raises(Unavailable):
        await after.collect()
    run.meta.fails = None
    after.store.fail_next("ledger_ids", Unavailable("the disk is gone"))
    with pytest.raises(Unavailable):
        await after.collect()
    await run.meta.put_value(after.storage.fence, KEY, b"not json")
    with pytest.raises(StoreError, match=f"{KEY} is damaged"):
        await after.collect()
    assert await after.ids() == before
    assert "delete" not in after.store.calls


async def test_metadata_older_than_the_log_collects_nothing(run: Run) -> None:
    """Put back from a backup, it knows nothing of the newest ledgers: they would all pass for orphans."""
    ledger_ids = [await run.make() for _ in range(10)]
    await run.name(NAME, *ledger_ids)
    old = Meta()
    fence = await old.acquire(WHOLE)
    for _ in range(5):
        await old.next_ledger_id(fence)
    with pytest.raises(StoreError, match="metadata is older"):
        await collect_orphans(Storage(run.store, old, OwnedRange(fence, await old.next_ledger_id(fence)), lambda: 0))
    assert {*ledger_ids} <= await run.ids()


async def test_a_store_that_has_another_owner_is_left_alone(run: Run) -> None:
    for _ in range(3):
        await run.make()
    after = await run.after_crash()
    before = await after.ids()
    after.store.fence()
    with pytest.raises(Fenced):
        await after.collect()
    assert await after.ids() == before


async def test_an_orphan_that_cannot_be_deleted_now_is_found_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "DELETES_MAX", 2)
    lost = {await run.make() for _ in range(5)}
    after = await run.after_crash()
    after.store.fail_next("delete", Unavailable("not now"))
    with pytest.raises(Unavailable):
        await after.collect()
    left = await after.ids() & lost
    assert left
    assert (await (await after.after_crash()).collect()).ledgers >= len(left)
    assert not await after.ids() & lost


async def test_topics_live_on_while_their_names_are_read(run: Run) -> None:
    """Trimmed, deleted, made anew and made for the first time: before pages that were read, and after them."""
    names = [f"{NAME}-{number}" for number in range(8)]
    ledgers_of = {name: [await run.make(), await run.make()] for name in names}
    for name, ledger_ids in ledgers_of.items():
        await run.name(name, *ledger_ids)
    lost = await run.make()
    after = await run.after_crash()
    pages = 0

    async def live() -> None:
        nonlocal pages
        for name in (names[pages % 8], names[-1 - pages % 8]):
            topic = await ManagedLedger.open(after.storage, await run.meta.get_topic(name) or TopicRecord(name), {})
            if pages % 2:
                await topic.trim(Position(topic.record.ledgers[0].ledger_id, 0), NOTHING)
            else:
                await topic.delete()
                topic = await ManagedLedger.open(
                    after.storage, await run.meta.cas_topic(after.storage.fence, TopicRecord(name)), {}
                )
                await topic.writable()
        await after.name(f"{NAME}-new-{pages}", await after.make())
        pages += 1

    run.meta.between = live
    assert await after.collect() == Collected(1, 10)
    assert pages >= 4
    left = await after.ids()
    named, _ = await MemoryMetaStore.referenced_ledgers(run.meta)
    assert lost not in left
    assert left == {*named, *json.loads(await run.meta.get_value(KEY) or b"")}


async def test_a_topic_that_another_broker_brings_back_behind_the_reader_keeps_its_ledgers(run: Run) -> None:
    """Its name lies on a page that was read, and its place on one that comes later."""
    names = [f"persistent://acme/orders/{letter}" for letter in "abcd"]
    ledgers = [await run.make() for _ in names]
    for name, ledger_id in zip(names, ledgers, strict=True):
        await run.name(name, ledger_id)
    deleted = RecycledTopic("0001", names[0], deleted_ms=10, expires_ms=20)
    await run.meta.recycle(run.storage.fence, names[0], deleted, values=(), listed=True)
    after = await run.after_crash()
    pages = 0

    async def back() -> None:
        nonlocal pages
        pages += 1
        if pages == 2:
            await after.meta.restore(after.storage.fence, names[0], deleted, values=(), listed=True)

    after.meta.between = back
    assert await after.collect() == Collected(0, 0)
    assert pages > 4, "everything was read again"
    assert set(ledgers) <= await after.ids()


async def test_an_orphan_that_its_owner_deletes_meanwhile_may_be_deleted_twice(run: Run) -> None:
    ledger_ids = [await run.make(), await run.make()]
    await run.name(NAME, *ledger_ids)
    after = await run.after_crash()
    topic = await ManagedLedger.open(after.storage, await run.meta.get_topic(NAME) or TopicRecord(NAME), {})
    gate = after.store.delay("delete")
    deleting = asyncio.ensure_future(topic.delete())
    await eventually(lambda: "delete" in after.store.calls)  # its name is gone, its ledgers are not
    collecting = asyncio.ensure_future(after.collect())
    await eventually(lambda: after.store.calls.count("delete") >= 3)
    gate.set()
    await asyncio.gather(deleting, collecting)
    assert not await after.ids() & set(ledger_ids)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["named", "orphan", "cursor", "gone"])), max_size=40),
    st.lists(st.sampled_from(["named", "orphan"]), max_size=10),
)
async def test_only_orphans_of_earlier_runs_go(earlier: list[tuple[int, str]], later: list[str]) -> None:
    """Whatever topics there are: what is left is what was there before without the orphans."""
    run = await Run.start(MemoryLedgerStore(), Meta())
    topics: dict[str, list[int]] = {}
    cursors = json.loads(await run.meta.get_value(KEY) or b"")
    orphaned = set()
    for topic, fate in earlier:
        ledger_id = await run.make()
        if fate == "cursor":
            cursors.append(ledger_id)
        elif fate == "orphan":
            orphaned.add(ledger_id)
        else:
            topics.setdefault(f"{NAME}-{topic}", []).append(ledger_id)
            if fate == "gone":  # lost: named all the same
                await run.store.delete(run.storage.fence, ledger_id)
    for name, ledger_ids in topics.items():
        await run.name(name, *ledger_ids)
    await run.meta.put_value(run.storage.fence, KEY, json.dumps(cursors).encode())
    after = await run.after_crash()
    for fate in later:
        ledger_id = await after.make()
        if fate == "named":
            await after.name(f"{NAME}-later-{ledger_id}", ledger_id)
    before = await after.ids()
    assert (await after.collect()).ledgers == len(orphaned)
    assert await after.ids() == before - orphaned
