"""Points of history: packing, and what two of them are together."""

from __future__ import annotations

import random

import pytest

from messaging.history.points import COLUMNS, HOUR_MS, VALUE_MAX, Point, pack, share, side_by_side, together, unpack, values_of


def point(seed: random.Random, chunk_ms: int) -> Point:
    until_ms = chunk_ms + seed.randrange(1, 3_601) * 1000
    values = tuple(seed.choice((0, 1, 127, 128, 40_000, 1_764_000_000_000, VALUE_MAX)) for _ in COLUMNS)
    return Point(until_ms - seed.randrange(HOUR_MS), until_ms, values)


def test_what_is_packed_comes_out_as_it_was() -> None:
    seed, chunk_ms = random.Random(7), 490_000 * HOUR_MS
    points = [point(seed, chunk_ms) for _ in range(200)]
    assert list(unpack(b"".join(pack(each, chunk_ms) for each in points), chunk_ms)) == points


def test_a_busy_minute_takes_some_40_bytes_and_a_quiet_value_none() -> None:
    busy = values_of(
        messages_in=60_000, bytes_in=60_000_000, messages_out=60_000, bytes_out=60_000_000, timed_publishes=20_000,
        publish_us=30_000_000, backlog_entry_ms=6_000_000, in_peak=1_200, out_peak=1_200, publish_us_max=9_000, backlog_max=100,
        age_max_ms=900, backlog_entries=100, oldest_ms=1_764_000_000_000, stored_bytes=1 << 30, producers=3, consumers=3,
    )  # fmt: skip
    assert len(pack(Point(0, 60_000, busy), 0)) <= 60
    assert len(pack(Point(0, 60_000, values_of()), 0)) <= 6


@pytest.mark.parametrize("damaged", [b"\x80", b"\x01\x01\x01", b"\x3c\x01\xff\xff\xff\xff\x7f"])
def test_what_was_not_packed_here_is_refused(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="a point"):
        list(unpack(damaged, 0))


def test_together_adds_counters_keeps_the_higher_peak_and_the_later_state() -> None:
    earlier = values_of(messages_in=2, in_peak=9, backlog_entries=5, oldest_ms=4)
    later = values_of(messages_in=3, in_peak=1, backlog_entries=1)
    assert together(earlier, later) == values_of(messages_in=5, in_peak=9, backlog_entries=1)


@pytest.mark.parametrize(("one", "other", "oldest"), [(0, 0, 0), (9, 0, 9), (9, 7, 7), (1, 7, 1), (0, 1, 1)])
def test_side_by_side_the_oldest_counts_and_is_unknown_if_one_is(one: int, other: int, oldest: int) -> None:
    values = side_by_side(values_of(stored_bytes=1, oldest_ms=one), values_of(stored_bytes=2, oldest_ms=other))
    assert values == values_of(stored_bytes=3, oldest_ms=oldest)


def test_shares_of_an_interval_add_up() -> None:
    values = values_of(messages_in=7, in_peak=5)
    assert [share(values, part, 3)[0] for part in (0, 1, 2, 3)] == [0, 2, 4, 7]
    assert share(values, 1, 3) == values_of(messages_in=2, in_peak=5)
