"""A topic's log and its subscriptions' cursors against a model, in random order: append, acknowledge, seek, roll by age, trim,
truncate, checkpoint, jumps of the clock, and every kind of end: reopening, crash, an outage.

The model: entries in order with their time, and for each cursor the set of acknowledged ones. Whatever happens, the log holds what
was confirmed and not dropped, in order, under ids that rise; a cursor knows what it was told durably; time falls nowhere.
"""

from __future__ import annotations

from array import array

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from messaging.clock import BELIEVED_AFTER_MS
from messaging.storage.block_header import BlockHeader
from messaging.storage.ledger_store import EARLIEST, DiskFull, Position
from messaging.storage.managed.retention import NOTHING, Retention
from messaging.storage.meta_store import TopicRecord
from tests.support.examples import examples
from tests.support.storage.log_and_cursors_model import HOUR_MS, NAME, SUBSCRIPTIONS, Block, Entry, LogAndCursorsModel
from tests.support.storage.memory_ledgers import MemoryLedgerStore
from tests.support.waiting import eventually


class LogAndCursors(LogAndCursorsModel):
    """Everything is answered before the next step, so that the model knows what must be there."""

    @initialize()
    def begin(self) -> None:
        async def begin() -> None:
            await self.open_store()
            fence = self.storage.fence
            await self.meta.cas_topic(fence, TopicRecord(NAME, created_ms=self.wall_ms))
            for name in SUBSCRIPTIONS:
                made = await self.meta.create_subscription(fence, NAME, name, created_ms=0, mark_delete=EARLIEST, properties={})
                self.ids[name] = made.subscription_id
            await self.open_topic()

        self.run(begin())

    # --- opening and ending

    @rule()
    def reload_the_topic(self) -> None:
        async def reload() -> None:
            await self.close_topic()
            await self.open_topic()

        self.run(reload())

    @rule()
    def restart(self) -> None:
        async def restart() -> None:
            await self.close_topic()
            await self.cursor_log.stop()
            await self.store.stop()
            await self.open_store()
            await self.open_topic()

        self.run(restart())

    @rule()
    def crash(self) -> None:
        async def crash() -> None:
            self.memory = MemoryLedgerStore(self.memory)
            await self.open_store()
            await self.open_topic()

        self.run(crash())

    # --- writing

    @rule(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def append(self, sizes: list[int]) -> None:
        async def append() -> None:
            await self.ledger.writable()
            for size in sizes:
                before, now_ms = self.ledger.stamped_ms, self.ledger.stamp()
                assert now_ms >= max(before, self.wall_ms)
                data = [b"%d" % (self.number + index) for index in range(size)]
                self.number += size
                end_offsets = array("I", [sum(map(len, data[: index + 1])) for index in range(size)])
                block = Block(self.loop.create_future())
                first = self.ledger.append(BlockHeader(now_ms, size, 0, 0, b"p").encode(), b"".join(data), end_offsets, block)
                assert first > self.last, "ids rise, and are never used again"
                assert await block.outcome is None
                for index, payload in enumerate(data):
                    self.last = Position(first.ledger_id, first.entry_id + index)
                    self.entries[self.last] = Entry(payload, now_ms)

        self.run(append())

    @rule()
    def outage(self) -> None:
        """Nothing can be stored for a while; then it goes on in a new ledger."""

        async def outage() -> None:
            await self.ledger.writable()
            self.store.fail_appends(DiskFull("full"))
            block = Block(self.loop.create_future())
            self.ledger.append(b"", b"x", array("I", [1]), block)
            assert isinstance(await block.outcome, DiskFull)
            self.store.heal()
            await self.ledger.recover()
            await self.ledger.writable()

        self.run(outage())

    # --- cursors

    @precondition(lambda self: self.entries)
    @rule(data=st.data(), name=st.sampled_from(SUBSCRIPTIONS), refused=st.booleans())
    def acknowledge(self, data: st.DataObject, name: str, refused: bool) -> None:
        """Some entries of one ledger; while the log refuses them they count from its recovery on."""
        some = data.draw(st.sampled_from(sorted(self.entries)))
        others = [entry for entry in self.entries if entry.ledger_id == some.ledger_id]
        chosen = data.draw(st.lists(st.sampled_from(others), min_size=1, max_size=5))
        delta = self.cursors[name].acknowledge(some.ledger_id, [entry.entry_id for entry in chosen], self.ledger.ledger_list)

        async def store() -> None:
            if refused and delta:
                self.store.fail_appends(DiskFull("full"))
                assert await self.stored(name, delta) is not None
                self.store.heal()
                await eventually(lambda: self.cursor_log.checkpointing is None)
            else:
                assert await self.stored(name, delta) is None

        self.run(store())
        self.acknowledged[name].update(chosen)

    @precondition(lambda self: self.entries)
    @rule(data=st.data(), name=st.sampled_from(SUBSCRIPTIONS), back=st.booleans())
    def move(self, data: st.DataObject, name: str, back: bool) -> None:
        """Skip up to an entry, or seek to it."""
        to = data.draw(st.sampled_from(sorted(self.entries)))
        cursor = self.cursors[name]
        delta = cursor.reset(to, self.ledger.ledger_list) if back else cursor.acknowledge_up_to(to, self.ledger.ledger_list)
        assert self.run(self.stored(name, delta)) is None
        before = {entry for entry in self.entries if entry <= to}
        self.acknowledged[name] = before if back else self.acknowledged[name] | before

    @rule()
    def checkpoint(self) -> None:
        async def checkpoint() -> None:
            await eventually(lambda: self.cursor_log.checkpointing is None)
            await self.cursor_log.checkpoint()

        self.run(checkpoint())

    # --- forgetting, and time

    @rule(keep_h=st.sampled_from([-1, 0, 1, 24]))
    def maintenance(self, keep_h: int) -> None:
        """Retention by time: only what every cursor acknowledged goes, and nothing younger than it keeps."""
        before = min(cursor.mark_delete for cursor in self.cursors.values())
        safe_expiry_ms = self.storage.safe_expiry_ms()
        retention = Retention(0 if keep_h < 0 else safe_expiry_ms - keep_h * HOUR_MS, -1)
        expected = dict(self.entries)
        self.run(self.ledger.trim(before, retention))
        self.forget()
        for position in expected.keys() - self.entries.keys():
            assert all(position in acknowledged for acknowledged in self.acknowledged.values())
            assert keep_h >= 0 and expected[position].stamped_ms <= safe_expiry_ms - keep_h * HOUR_MS

    @rule()
    def maintenance_again_and_again(self) -> None:
        """Time stands still: whatever there was to roll was rolled by the first, so that it does not go on for ever."""

        async def twice() -> int:
            await self.ledger.trim(EARLIEST, NOTHING)
            calls = self.store.calls.count("create")
            for _ in range(3):
                await self.ledger.trim(EARLIEST, NOTHING)
            return self.store.calls.count("create") - calls

        assert self.run(twice()) == 0

    @rule()
    def truncate(self) -> None:
        async def truncate() -> None:
            await self.ledger.roll()
            last = self.ledger.ledger_list.last
            for name, cursor in self.cursors.items():
                assert await self.stored(name, cursor.acknowledge_up_to(last, self.ledger.ledger_list)) is None
            await self.ledger.trim(last, NOTHING)

        self.run(truncate())
        self.forget()
        assert not self.entries

    @rule(time_ms=st.sampled_from([1_000, HOUR_MS // 6, HOUR_MS, 5 * HOUR_MS]))
    def time_passes(self, time_ms: int) -> None:
        self.storage.safe_expiry_ms()  # maintenance asks every minute
        self.wall_ms += time_ms
        self.boottime_ms += time_ms
        self.storage.safe_expiry_ms()

    @rule(to_ms=st.sampled_from([0, 10**9, -HOUR_MS, HOUR_MS, -30 * HOUR_MS, 30 * HOUR_MS, 10**12]))
    def the_clock_jumps(self, to_ms: int) -> None:
        """To 1970, or by hours, or far ahead."""
        self.wall_ms = to_ms if to_ms in (0, 10**9) else self.wall_ms + to_ms
        assert self.storage.safe_expiry_ms() <= self.wall_ms

    @rule()
    def the_jump_is_believed(self) -> None:
        for _ in range(2):
            self.storage.safe_expiry_ms()
            self.wall_ms += BELIEVED_AFTER_MS
            self.boottime_ms += BELIEVED_AFTER_MS
        assert self.storage.safe_expiry_ms() == self.wall_ms

    # --- what always holds

    @invariant()
    def the_log_is_the_models(self) -> None:
        if not hasattr(self, "ledger"):
            return
        stored = self.run(self.read_all())
        assert stored == [(position, entry.data, entry.stamped_ms) for position, entry in self.entries.items()]
        times = [entry.stamped_ms for entry in self.entries.values()]
        assert times == sorted(times), "time falls nowhere along the log"
        assert self.ledger.ledger_list.entries == len(self.entries)

    @invariant()
    def cursors_know_what_they_were_told(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for name, cursor in self.cursors.items():
            expected = {entry for entry in self.acknowledged[name] if entry in self.entries}
            assert {entry for entry in self.entries if cursor.acknowledged(entry)} == expected
            assert cursor.backlog_entries(self.ledger.ledger_list) == len(self.entries) - len(expected)


TestLogAndCursors = LogAndCursors.TestCase
TestLogAndCursors.settings = settings(
    max_examples=examples(40),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
