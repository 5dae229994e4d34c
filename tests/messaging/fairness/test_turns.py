"""Turns are given one tenant after the other, whatever one of them asks for."""

from __future__ import annotations

import asyncio

from messaging.fairness.turns import FairTurns


class Work:
    def __init__(self, turns: FairTurns) -> None:
        self.turns = turns
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, *names: str) -> None:
        """The tenant of a name is its first letter."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._work(name))
            await self.settle()

    async def _work(self, name: str) -> None:
        async with self.turns.turn(name[0]):
            self.begun.append(name)
            await self._ends[name].wait()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await self.settle()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.gather(self._tasks[name], return_exceptions=True)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_tenant_has_one_turn_at_a_time() -> None:
    work = Work(FairTurns(2))
    await work.ask("a1", "a2", "a3", "b1")
    assert work.begun == ["a1", "b1"]
    await work.end("b1")
    assert work.begun == ["a1", "b1"], "nobody else waits, and this one has its turn"
    await work.end("a1")
    assert work.begun == ["a1", "b1", "a2"]
    await work.cancel("a2")
    await work.end("a3")


async def test_a_tenant_that_asks_for_much_waits_behind_one_that_asks_for_little() -> None:
    work = Work(FairTurns(1))
    await work.ask("a1", "a2", "a3", "b1", "c1")
    for name in ("a1", "a2", "b1"):
        await work.end(name)
    assert work.begun == ["a1", "a2", "b1", "c1"]
    await work.end("c1")
    await work.end("a3")


async def test_a_caller_that_stops_waiting_takes_no_turn() -> None:
    work = Work(FairTurns(1))
    await work.ask("a1", "b1", "c1")
    await work.cancel("b1")
    await work.cancel("a1")
    assert work.begun == ["a1", "c1"]
    await work.end("c1")
    await work.ask("d1")
    assert work.begun[-1] == "d1"
    await work.end("d1")
