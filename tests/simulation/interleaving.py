"""All orders in which the steps of several actors may follow one another, up to a number of changes between them.

    def run(order: Order) -> None:
        async def work() -> None:
            ...                              # builds a world, and its actors, whose steps wait for their turns
            await turns.play({"one": one(), "other": other()}, order)

        in_virtual_time(work)

    for order in every_order(run, changes_max=2): ...

A *step* is whatever an actor does without waiting for another one: a call of a store, in a transaction of its own. An actor that
was begun goes on until it ends, but for *changes*: places where another one goes on although it could. Most faults of concurrent
code need one or two of them, and their number, not the length of the work, decides how many orders there are.

With `ends_max` an actor may also be gone for good after any step: what that did is done, and nobody hears of it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from random import Random
from typing import Any, NamedTuple, TypeVar

from tests.simulation.virtual_time import VirtualClock, VirtualLoop

T = TypeVar("T")

IDLE_S = 1e-3  # of virtual time, which passes only when nothing is left to do
STUCK_AFTER = 10_000


class Choice(NamedTuple):
    """Whose step comes next. `ends`: it is the last one that this actor takes."""

    actor: str
    ends: bool = False


class Made(NamedTuple):
    """One choice of a run, and who else might have gone on."""

    choice: Choice
    ready: tuple[str, ...]


class Order:
    """`begin`: the first choices; after them whoever was at work goes on. `made`: what became of it."""

    def __init__(self, begin: tuple[Choice, ...] = ()) -> None:
        self.begin = begin
        self.made: list[Made] = []

    def choose(self, ready: tuple[str, ...]) -> Choice:
        at = len(self.made)
        last = self.made[-1].choice.actor if self.made else ""
        choice = self.begin[at] if at < len(self.begin) else Choice(last if last in ready else ready[0])
        assert choice.actor in ready, f"{choice.actor} cannot go on after {at} steps: the work is not the same in each run"
        self.made.append(Made(choice, ready))
        return choice

    @property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(made.choice for made in self.made)

    def __str__(self) -> str:
        """Runs of steps, such as "one 3, other 5 and gone, one 4"."""
        runs: list[tuple[str, int, bool]] = []
        for choice in self.choices:
            if runs and runs[-1][0] == choice.actor and not runs[-1][2]:
                runs[-1] = (choice.actor, runs[-1][1] + 1, choice.ends)
            else:
                runs.append((choice.actor, 1, choice.ends))
        return ", ".join(f"{actor} {count}{' and gone' if ends else ''}" for actor, count, ends in runs)


def every_order(
    run: Callable[[Order], None], *, changes_max: int, ends_max: int = 0, random: Random | None = None
) -> Iterator[Order]:
    """Each once, after it was run. `random`: not one after the other, so that some of them are of all kinds."""
    waiting = [Order()]
    while waiting:
        if random is not None:
            at = random.randrange(len(waiting))
            waiting[at], waiting[-1] = waiting[-1], waiting[at]
        order = waiting.pop()
        run(order)
        yield order
        begun = len(order.begin)
        changes = _changes(order.made[:begun])
        ends = sum(choice.ends for choice in order.begin)
        for at in range(begun, len(order.made)):
            choice, ready = order.made[at]
            before = order.choices[:at]
            others = [Choice(actor) for actor in ready if actor != choice.actor]
            if ends < ends_max:
                others.append(Choice(choice.actor, ends=True))
            last = before[-1].actor if before else ""
            for other in others:
                if changes + (other.actor != last and last in ready) <= changes_max:
                    waiting.append(Order((*before, other)))


def _changes(made: list[Made]) -> int:
    """How often one went on although another one, which was at work, could."""
    last, changes = "", 0
    for choice, ready in made:
        changes += last not in ("", choice.actor) and last in ready
        last = choice.actor
    return changes


class Turns:
    """The steps of actors, on a loop of virtual time. Before `play`, and after it, they wait for nothing. `ended`: those that were
    ended. `when_ended` is told of each at once."""

    def __init__(self, when_ended: Callable[[str], None] = lambda actor: None) -> None:
        self.ended = set[str]()
        self._when_ended = when_ended
        self._waiting: defaultdict[str, deque[asyncio.Future[bool]]] = defaultdict(deque)
        self._playing = False

    async def step(self, actor: str, act: Callable[[], Awaitable[T]]) -> T:
        """What `act` returns, once it is this actor's turn."""
        if not self._playing:
            return await act()
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[actor].append(turn)
        try:
            ends = await turn
        finally:
            self._waiting[actor].remove(turn)
        try:
            return await act()
        finally:
            if ends:
                await asyncio.get_running_loop().create_future()  # nobody hears of it

    async def play(self, actors: Mapping[str, Coroutine[Any, Any, None]], order: Order) -> None:
        """Until all have ended, or were. Raises what one of them raises."""
        self._playing = True
        tasks = {actor: asyncio.ensure_future(work) for actor, work in actors.items()}
        try:
            for _ in range(STUCK_AFTER):
                await asyncio.sleep(IDLE_S)
                for actor, task in tasks.items():
                    if task.done() and actor not in self.ended:
                        task.result()
                if all(task.done() for task in tasks.values()):
                    return
                ready = tuple(actor for actor in actors if self._waiting[actor] and actor not in self.ended)
                if ready:
                    self._go_on(order.choose(ready), tasks)
            raise AssertionError(f"nothing goes on after {order}")
        finally:
            self._playing = False
            for task in tasks.values():
                task.cancel()
            await asyncio.wait(tasks.values())

    def _go_on(self, choice: Choice, tasks: Mapping[str, asyncio.Task[None]]) -> None:
        turn = self._waiting[choice.actor][0]
        turn.set_result(choice.ends)
        if choice.ends:
            self.ended.add(choice.actor)
            asyncio.get_running_loop().call_later(IDLE_S / 2, self._end, choice.actor, tasks[choice.actor])

    def _end(self, actor: str, task: asyncio.Task[None]) -> None:
        task.cancel()
        self._when_ended(actor)


def in_virtual_time(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """On a loop of its own, of which nothing is left."""
    loop = VirtualLoop(VirtualClock())
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(work())
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()
