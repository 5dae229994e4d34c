"""Sleep for background loops that a test lets go on one at a time."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from tests.support.waiting import eventually


class SteppedSleep:
    """Sleeps of the loops: each goes on when the test says so, by its name."""

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Event] = {}
        self.slept: defaultdict[str, int] = defaultdict(int)

    async def sleep(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        name = task.get_name()
        event = self.waiting[name] = asyncio.Event()
        self.slept[name] += 1
        await event.wait()

    async def next(self, name: str) -> None:
        """The loop does its work once and waits again."""
        before = self.slept[name]
        self.waiting[name].set()
        await eventually(lambda: self.slept[name] > before)
