"""A log and its metadata name each other's generation: one that was restored from an older backup, or lost, is refused."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest

from messaging.storage.ledger_store import WHOLE, Fence, Unavailable
from messaging.storage.managed import generations
from messaging.storage.managed.generations import GenerationConflict
from tests.simulation.interleaving import Order, Turns, every_order, in_virtual_time
from tests.support.storage.memory_meta import MemoryMetaStore


class Crash(Exception):
    pass


class World:
    """A log that is only a name, and metadata. `writes_left`: a crash comes before the write after those."""

    def __init__(self) -> None:
        self.generation = ""
        self.meta = MemoryMetaStore()
        self.fence = Fence(WHOLE, 0)
        self.writes_left = 99

    async def begin(self) -> bool:
        certain = await generations.match(self, self.meta)
        self.fence = await self.meta.acquire(WHOLE)
        await self.renew()
        return certain

    async def renew(self, *, stopped: bool = False) -> None:
        await generations.renew(self, self._Counted(self), self.fence, stopped=stopped)  # type: ignore[arg-type]

    async def name_generation(self, generation: str) -> None:
        self.write()
        self.generation = generation

    async def read_generation(self) -> str:
        return self.generation

    def write(self) -> None:
        if not self.writes_left:
            raise Crash
        self.writes_left -= 1

    class _Counted:
        def __init__(self, world: World) -> None:
            self._world = world

        async def put_value(self, fence: Fence, key: str, value: bytes) -> None:
            self._world.write()
            await self._world.meta.put_value(fence, key, value)


async def test_after_a_clean_stop_it_is_certain_and_after_a_crash_it_is_not() -> None:
    world = World()
    assert not await world.begin(), "a log of an earlier release"
    assert not await world.begin(), "after a crash"
    await world.renew(stopped=True)
    assert await world.begin()


@pytest.mark.parametrize(("writes", "stopped"), [*product(range(3), (False, True))])
async def test_a_crash_between_two_writes_parts_nothing(writes: int, stopped: bool) -> None:
    world = World()
    await world.begin()
    world.writes_left = writes
    with pytest.raises(Crash):
        await world.renew(stopped=stopped)
    world.writes_left = 99
    assert not await world.begin()


async def test_everything_of_another_generation_is_refused() -> None:
    world = World()
    backups = [("", dict(world.meta.values))]
    for _ in range(3):
        await world.begin()
        backups.append((world.generation, dict(world.meta.values)))
        await world.renew(stopped=True)
        backups.append((world.generation, dict(world.meta.values)))
    for (name, _), (other, values) in product(backups, backups):
        world.generation, world.meta.values = name, dict(values)
        if name == other:
            await generations.match(world, world.meta)
        else:
            with pytest.raises(GenerationConflict, match="generation"):
                await generations.match(world, world.meta)


async def test_an_operator_may_accept_the_metadata_there_is() -> None:
    world = World()
    await world.begin()
    world.generation = generations.ACCEPTED
    assert not await world.begin()
    assert world.generation != generations.ACCEPTED
    await world.renew(stopped=True)
    assert await world.begin()


async def test_a_failed_write_leaves_both_generations_matching() -> None:
    world = World()
    await world.begin()

    async def refuse(generation: str) -> None:
        raise Unavailable("the disk is full")

    named, world.name_generation = world.name_generation, refuse  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        await world.renew()
    world.name_generation = named  # type: ignore[method-assign]
    assert not await world.begin()


class SharedLog:
    """What several brokers have in one place, as one of them sees it that began when it was called `began_as`."""

    def __init__(self, began_as: str = "", stored: str = "") -> None:
        self.generation = began_as
        self.stored = stored
        self.named: list[str] = []

    async def name_generation(self, generation: str) -> None:
        self.named.append(generation)
        self.generation = self.stored = generation

    async def read_generation(self) -> str:
        self.generation = self.stored
        return self.stored


async def with_metadata_called(name: str, *, ledgers: bool) -> MemoryMetaStore:
    meta = MemoryMetaStore()
    await meta.put_value(await meta.acquire(generations.SHARED_KEY), generations.SHARED_KEY, name.encode())
    if ledgers:
        await meta.next_ledger_id(await meta.acquire(WHOLE))
    return meta


async def test_a_broker_that_begins_beside_the_first_one_takes_the_name_that_this_one_gives() -> None:
    """It had looked at the log before that was named, and refused to start, for a person to repair."""
    meta = await with_metadata_called("first", ledgers=True)
    log = SharedLog(began_as="", stored="first")
    await generations.match_shared(log, meta)
    assert log.generation == "first" and log.named == []


async def test_a_broker_that_ended_between_the_two_names_leaves_nothing_that_cannot_start() -> None:
    meta = await with_metadata_called("first", ledgers=False)
    log = SharedLog()
    await generations.match_shared(log, meta)
    assert log.named == ["first"]


async def test_a_shared_log_that_was_lost_is_refused() -> None:
    meta = await with_metadata_called("first", ledgers=True)
    with pytest.raises(GenerationConflict, match=r"the log is of generation \(none\), the metadata of first"):
        await generations.match_shared(SharedLog(), meta)
    with pytest.raises(GenerationConflict, match="the log is of generation other, the metadata of first"):
        await generations.match_shared(SharedLog("other", "other"), meta)


@pytest.mark.parametrize("called", ["", generations.ACCEPTED])
def test_brokers_that_begin_at_once_give_both_one_name(called: str) -> None:
    """One gave the metadata a name after another one had, and both then named the log: no broker could start any more."""

    async def begin(broker: str, turns: Turns, meta: MemoryMetaStore, stored: list[str]) -> None:
        await generations.match_shared(SteppedLog(broker, turns, stored), SteppedMeta(broker, turns, meta))

    def run(order: Order) -> None:
        async def work() -> None:
            turns, meta, stored = Turns(), MemoryMetaStore(), [called]
            await turns.play({broker: begin(broker, turns, meta, stored) for broker in ("one", "other")}, order)
            assert stored == [meta.values[generations.SHARED_KEY].decode()], f"after {order}"
            await generations.match_shared(SharedLog(stored[0], stored[0]), meta)

        in_virtual_time(work)

    assert sum(1 for _ in every_order(run, changes_max=3)) > 20


class SteppedLog(SharedLog):
    """Each call is a step of its broker."""

    def __init__(self, broker: str, turns: Turns, of_all: list[str]) -> None:
        super().__init__(began_as=of_all[0])
        self._step, self._of_all = partial(turns.step, broker), of_all

    async def name_generation(self, generation: str) -> None:
        async def act() -> None:
            self._of_all[:] = [generation]
            self.generation = generation

        await self._step(act)

    async def read_generation(self) -> str:
        async def act() -> str:
            (self.generation,) = self._of_all
            return self.generation

        return await self._step(act)


class SteppedMeta(MemoryMetaStore):
    def __init__(self, broker: str, turns: Turns, of_all: MemoryMetaStore) -> None:
        super().__init__()
        self._step, self._of_all = partial(turns.step, broker), of_all

    async def acquire(self, scope: str, *, after: int = 0) -> Fence:
        return await self._step(partial(self._of_all.acquire, scope, after=after))

    async def get_value(self, key: str) -> bytes | None:
        return await self._step(partial(self._of_all.get_value, key))

    async def put_value(self, fence: Fence, key: str, value: bytes) -> None:
        await self._step(partial(self._of_all.put_value, fence, key, value))

    async def first_free_ledger_id(self) -> int:
        return await self._step(self._of_all.first_free_ledger_id)
