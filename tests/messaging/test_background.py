"""Loops that outlive what they did not expect."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from messaging import background
from messaging.background import LOG_EVERY_MS, ONE_OFF, RETRY_S_MAX, BackgroundLoops
from tests.support.waiting import eventually


class Clock:
    """Sleeps take no time; `end` cancels the loop at its next one."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.runs_max = 0

    async def sleep(self, seconds: float) -> None:
        if len(self.slept) == self.runs_max:
            await asyncio.get_running_loop().create_future()
        self.slept.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loops(clock: Clock) -> BackgroundLoops:
    return BackgroundLoops(clock.sleep)


async def runs(clock: Clock, task: asyncio.Task[None], count: int) -> None:
    clock.runs_max = count
    await eventually(lambda: len(clock.slept) == count)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def raising(errors: list[BaseException | None]) -> Callable[[], None]:
    def act() -> None:
        error = errors.pop(0) if errors else None
        if error is not None:
            raise error

    return act


async def test_a_loop_goes_on_after_whatever_its_work_raises(loops: BackgroundLoops, clock: Clock) -> None:
    errors: list[BaseException | None] = [ValueError("one"), AssertionError("two"), MemoryError(), RecursionError(), None]
    await runs(clock, loops.every(5.0, "sweep", raising(errors)), 7)
    loop = loops.loops["sweep"]
    assert not errors
    assert loop.failures == 4 and not loop.failing and loop.last_success_ms


async def test_work_that_is_a_coroutine_is_awaited(loops: BackgroundLoops, clock: Clock) -> None:
    async def act() -> None:
        await asyncio.sleep(0)
        raise OSError("disk")

    await runs(clock, loops.every(1.0, "pull", act), 3)
    assert loops.loops["pull"].failures == 3
    assert loops.loops["pull"].last_error == "OSError: disk"


async def test_a_cancelled_future_within_the_work_is_a_failure_and_not_the_end_of_the_loop(
    loops: BackgroundLoops, clock: Clock
) -> None:
    async def act() -> None:
        cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        await cancelled

    await runs(clock, loops.every(1.0, "pull", act), 3)
    assert loops.loops["pull"].failures == 3


async def test_from_failure_to_failure_it_waits_longer_and_after_a_success_as_before(loops: BackgroundLoops, clock: Clock) -> None:
    errors: list[BaseException | None] = [ValueError()] * 8 + [None, None]
    await runs(clock, loops.every(2.0, "sweep", raising(errors)), 11)
    assert clock.slept == [2.0, 2.0, 2.0, 4.0, 8.0, 16.0, RETRY_S_MAX, RETRY_S_MAX, RETRY_S_MAX, 2.0, 2.0]


async def test_when_it_cannot_be_said_how_long_to_wait_the_loop_waits_anyway(loops: BackgroundLoops, clock: Clock) -> None:
    def seconds() -> float:
        raise ValueError("no clock")

    await runs(clock, loops.every(seconds, "usage", lambda: None, first_s=0.0), 3)
    assert clock.slept == [0.0, RETRY_S_MAX, RETRY_S_MAX]
    assert loops.loops["usage"].failures >= 2


async def test_a_loop_that_is_urgent_waits_no_longer_than_it_says_after_failures(loops: BackgroundLoops, clock: Clock) -> None:
    await runs(clock, loops.every(3.0, "renew", raising([ValueError()] * 6), retry_s_max=3.0), 6)
    assert clock.slept == [3.0] * 6


async def test_until_done_tries_until_it_succeeds_and_no_longer(loops: BackgroundLoops, clock: Clock) -> None:
    clock.runs_max = 100
    await loops.until_done("checkpoint", raising([ValueError(), ValueError(), None]), retry_s=0.5)
    assert clock.slept == [0.5, 1.0]
    assert not loops.loops["checkpoint"].failing


async def test_a_failure_of_single_work_counts_for_its_loop_or_for_all_that_have_none(loops: BackgroundLoops) -> None:
    async def work() -> None:
        raise KeyError("gone")

    loops.register("orphans")
    await loops.spawn(work(), "orphans")
    await loops.spawn(work(), "recover a topic")
    assert loops.loops["orphans"].failures == 1 and loops.loops[ONE_OFF].failures == 1
    assert not loops.tasks


async def test_an_item_that_raises_keeps_no_other_from_being_served(loops: BackgroundLoops, clock: Clock) -> None:
    served: list[int] = []

    def act(item: int) -> None:
        if item == 1:
            raise ValueError(item)
        served.append(item)

    loop = loops.register("keep_alive")
    await runs(clock, loops.every(30.0, "keep_alive", lambda: loop.each([0, 1, 2], act)), 2)
    assert served == [0, 2, 0, 2]
    assert loop.failures == 2 and loop.failing and not loop.last_success_ms
    assert clock.slept == [30.0, 30.0], "the others do not wait for longer because of one"


async def test_a_failure_that_repeats_is_logged_once_a_minute_with_how_often(
    loops: BackgroundLoops, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = 1_000
    monkeypatch.setattr(background, "boottime_ms", lambda: now_ms)
    loop = loops.register("sweep")
    with capture_logs() as logs:
        for _ in range(100):
            loop.failed(ValueError("x" * 10_000))
        now_ms += LOG_EVERY_MS
        loop.failed(ValueError("again"), topic="t")
        loop.succeeded()
    first, second, recovered = logs
    assert first["event"] == second["event"] == "background.failed" and isinstance(first["exc_info"], ValueError)
    assert (first["unlogged"], second["unlogged"], second["failures"], second["topic"]) == (0, 99, 101, "t")
    assert recovered["event"] == "background.recovered"
    assert len(loop.last_error) <= background.ERROR_CHARACTERS_MAX


async def test_an_exception_of_a_callback_of_the_event_loop_is_counted(loops: BackgroundLoops) -> None:
    running = asyncio.get_running_loop()
    loops.watch(running)

    def raises() -> None:
        raise ValueError("callback")

    running.call_soon(raises)
    await asyncio.sleep(0)
    running.set_exception_handler(None)
    assert loops.loops[background.CALLBACKS].failures == 1


async def test_cancel_ends_every_loop(loops: BackgroundLoops, clock: Clock) -> None:
    tasks = [loops.every(1.0, "a", lambda: None), loops.every(1.0, "b", lambda: None)]
    await asyncio.sleep(0)
    loops.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks) and not loops.tasks


async def test_cancel_leaves_the_loops_that_are_named(loops: BackgroundLoops) -> None:
    kept, ended = loops.every(1.0, "kept", lambda: None), loops.every(1.0, "ended", lambda: None)
    await asyncio.sleep(0)
    loops.cancel(but=("kept",))
    await asyncio.wait([ended])
    assert ended.cancelled() and not kept.done() and loops.tasks == {kept}
    loops.cancel()
    await asyncio.wait([kept])


async def test_a_failure_of_a_loop_that_does_not_recur_is_forgiven_after_a_while(
    loops: BackgroundLoops, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = 1_000
    monkeypatch.setattr(background, "boottime_ms", lambda: now_ms)
    once, again = loops.register("once", recurs=False), loops.register("again")
    for loop in (once, again):
        loop.failed(ValueError())
    assert loops.failing == [once, again]
    now_ms += background.FORGIVEN_MS
    assert loops.failing == [again]


async def test_work_that_is_cancelled_before_it_begins_is_closed() -> None:
    """Else Python warns, at some later time, that nobody awaited it."""

    async def work() -> None:
        raise AssertionError("it was cancelled")

    loops, coroutine = BackgroundLoops(), work()
    task = loops.spawn(coroutine, "work")
    loops.cancel()
    await asyncio.wait([task])
    assert task.cancelled() and inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
