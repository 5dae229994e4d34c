"""The three positions of a topic, in random order of everything that moves them: deliverable <= durable <= written."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from messaging.storage.ledger_store import EARLIEST, Position, StoreError
from tests.support.examples import examples
from tests.support.storage.managed_world import World

TURNS = 20  # of the loop, after which everything that does not wait for a test has happened


class Positions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.appended: list[tuple[str, Position]] = []  # name of a block and its last entry
        self.highest = EARLIEST  # that was durable

    def teardown(self) -> None:
        async def end() -> None:
            self.world.store.release()
            await asyncio.wait([asyncio.ensure_future(self.world.ledger.close())])

        self.loop.run_until_complete(end())
        self.loop.close()

    @initialize(entries_max=st.integers(5, 40))
    def begin(self, entries_max: int) -> None:
        async def begin() -> None:
            self.world = await World(entries_max=entries_max, surely=False).start()
            await self.world.ledger.writable()

        self.loop.run_until_complete(begin())

    def turns(self) -> None:
        async def turns() -> None:
            for _ in range(TURNS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    @rule(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6))
    def append(self, sizes: list[int]) -> None:
        async def append() -> None:
            for size in sizes:
                name = str(len(self.appended))
                try:
                    first = self.world.append(name.encode(), *[b"x"] * (size - 1))
                except StoreError:
                    return
                last = Position(first.ledger_id, first.entry_id + size - 1)
                assert self.world.ledger.written == last
                self.appended.append((name, last))

        self.loop.run_until_complete(append())

    @rule()
    def wait(self) -> None:
        self.turns()

    @rule()
    def answers_are_late(self) -> None:
        self.world.store.hold()

    @rule()
    def answers_come(self) -> None:
        async def release() -> None:
            self.world.store.release()

        self.loop.run_until_complete(release())
        self.turns()

    @rule()
    def roll_while_answers_are_late(self) -> None:
        """The next ledger is there, and still empty, when the answers from the last one come."""
        self.world.store.hold()
        self.append([4] * 10)
        self.turns()

    @rule(written=st.booleans(), often=st.integers(0, 4))
    def appends_fail(self, written: bool, often: int) -> None:
        if often:
            return
        if written:
            self.world.store.lose_outcomes()
        else:
            self.world.store.fail_appends()

    @precondition(lambda self: self.world.ledger.failed)
    @rule()
    def recover(self) -> None:
        async def recover() -> None:
            self.world.store.heal()
            self.world.store.release()
            await self.world.ledger.recover()
            await self.world.ledger.writable()

        self.loop.run_until_complete(recover())

    @rule(back=st.integers(0, 30))
    def withhold(self, back: int) -> None:
        """From a position that may be anywhere, also where nothing is yet."""
        written = self.world.ledger.written
        self.world.ledger.ledger_list.withheld_from = Position(written.ledger_id, max(0, written.entry_id + 5 - back))

    @rule()
    def withhold_nothing(self) -> None:
        self.world.ledger.ledger_list.withheld_from = None

    @invariant()
    def in_order(self) -> None:
        if not hasattr(self, "world"):
            return
        ledger_list = self.world.ledger.ledger_list
        assert ledger_list.deliverable <= ledger_list.last <= self.world.ledger.written
        assert ledger_list.last >= self.highest, "what was durable is durable"
        self.highest = ledger_list.last
        if ledger_list.withheld_from is None:
            assert ledger_list.deliverable == ledger_list.last
        else:
            assert ledger_list.deliverable < ledger_list.withheld_from

    @invariant()
    def receipts_follow_the_durable_position(self) -> None:
        if not hasattr(self, "world"):
            return
        outcomes = self.world.outcomes
        assert [name for name, _ in outcomes] == [name for name, _ in self.appended[: len(outcomes)]]
        confirmed = [last for (_, last), (_, error) in zip(self.appended, outcomes, strict=False) if error is None]
        assert max(confirmed, default=EARLIEST) <= self.world.ledger.ledger_list.last

    @invariant()
    def what_waits_is_written_and_not_durable(self) -> None:
        if not hasattr(self, "world") or self.world.ledger.failed:
            return
        durable, written = self.world.ledger.ledger_list.last, self.world.ledger.written
        assert (durable == written) == (not self.world.ledger.in_flight)
        waiting = self.appended[len(self.world.outcomes) :]
        assert all(durable < last <= written for _, last in waiting)


TestPositions = Positions.TestCase
TestPositions.settings = settings(
    max_examples=examples(60), stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
