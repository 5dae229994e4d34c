"""The clock that things are deleted by: never ahead of what can be believed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from messaging.clock import BELIEVED_AFTER_MS, JUMP_MS, ExpiryClock, boottime_ms, wall_ms

START_MS = 1_700_000_000_000


class Times:
    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.boottime_ms = 50
        self.clock = ExpiryClock(lambda: self.wall_ms, lambda: self.boottime_ms)

    def run(self, time_ms: int, wall_ms: int | None = None) -> int:
        self.boottime_ms += time_ms
        self.wall_ms += time_ms if wall_ms is None else wall_ms
        return self.clock.safe_expiry_ms()


def test_it_goes_with_the_wall_clock() -> None:
    times = Times()
    assert times.run(10_000) == START_MS + 10_000
    for _ in range(100):  # NTP slews it
        times.run(60_000, 60_030)
    assert times.clock.safe_expiry_ms() == times.wall_ms
    assert times.run(10 * 86_400_000, 10 * 86_400_000 - 400_000) == times.wall_ms  # and nobody asked for days


def test_a_jump_is_believed_when_it_stands() -> None:
    for jump_ms in (3_600_000, -3_600_000, -START_MS, 10**12):
        times = Times()
        times.wall_ms += jump_ms
        assert times.run(1_000) == min(times.wall_ms, START_MS + 1_000)
        assert times.run(BELIEVED_AFTER_MS - 1) == min(times.wall_ms, START_MS + 1_000 + BELIEVED_AFTER_MS - 1)
        assert times.run(1) == times.wall_ms
        assert times.run(5) == times.wall_ms


def test_a_jump_back_in_time_begins_the_wait_anew() -> None:
    times = Times()
    for _ in range(10):
        times.wall_ms += 3_600_000
        times.run(1_000)
        times.wall_ms -= 3_600_000
        assert times.run(BELIEVED_AFTER_MS) == times.wall_ms


@given(st.lists(st.tuples(st.integers(0, 400_000), st.integers(-(10**13), 10**13)), max_size=20))
def test_it_is_never_ahead_of_the_wall_clock(steps: list[tuple[int, int]]) -> None:
    times = Times()
    for time_ms, jump_ms in steps:
        times.wall_ms += jump_ms
        assert times.run(time_ms) <= times.wall_ms


JUMPS = st.one_of(st.integers(-(10**13), -10_000), st.integers(10_000, 10**13))


@given(st.lists(st.tuples(st.integers(1, 60_000), JUMPS), max_size=4))
def test_jumps_that_do_not_stand_change_nothing(steps: list[tuple[int, int]]) -> None:
    times = Times()
    for time_ms, jump_ms in steps:
        times.wall_ms += jump_ms
        assert times.run(time_ms) <= START_MS + times.boottime_ms - 50
        times.wall_ms -= jump_ms
    assert times.clock.safe_expiry_ms() == START_MS + times.boottime_ms - 50


def test_the_clocks_of_the_machine() -> None:
    assert boottime_ms() <= boottime_ms()
    assert abs(ExpiryClock().safe_expiry_ms() - wall_ms()) < JUMP_MS
