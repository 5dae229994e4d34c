"""What a policy would have done: bounds that hold whatever came when within a step."""

from __future__ import annotations

import random

import pytest

from messaging.history.cells import Cell
from messaging.history.points import MINUTE_MS, values_of
from messaging.history.what_if import (
    REPLAYED,
    Outcome,
    held_by_rate,
    is_relative,
    kept_bytes,
    known_ms,
    over_age,
    over_count,
    over_stored,
    replayed_of,
    throttled_ms,
    unused,
)
from messaging.policies.registry import ENFORCED

MINUTE_S = MINUTE_MS // 1000


def cell(index: int, *, known_ms: int = MINUTE_MS, held: bool = True, **values: int) -> Cell:
    start = index * MINUTE_MS
    return Cell(start, start + MINUTE_MS, known_ms, known_ms if held else 0, values_of(**values))


def test_what_is_beyond_a_rate_is_carried_on_until_it_is_done() -> None:
    # Ten minutes at 200 a second, then nothing: at 100 a second it takes twenty.
    cells = [cell(index, messages_in=200 * MINUTE_S, in_peak=200) for index in range(10)]
    cells += [cell(index) for index in range(10, 30)]
    bounds = held_by_rate(cells, 100, "messages_in", "in_peak")
    assert bounds.most_seen == 200
    assert bounds.at_least_ms == 19 * MINUTE_MS, "all but the first: its excess may have come at its very end"
    assert bounds.at_most_ms == 20 * MINUTE_MS


def test_what_stays_below_its_peak_is_never_held() -> None:
    cells = [cell(index, messages_in=50 * MINUTE_S, in_peak=90) for index in range(60)]
    assert held_by_rate(cells, 90, "messages_in", "in_peak") == (0, 0, 90)
    burst = held_by_rate(cells, 80, "messages_in", "in_peak")
    assert burst.at_least_ms == 0 < burst.at_most_ms < 60 * MINUTE_MS


def test_without_a_peak_it_may_all_have_come_at_once() -> None:
    bounds = held_by_rate([cell(0, bytes_in=6_000)], 1_000, "bytes_in")
    assert bounds == (0, 6_000, 100), "6 s of work, at most, and a mean of 100 a second"


def test_what_is_not_known_counts_for_nothing() -> None:
    cells = [cell(0, messages_in=12_000, in_peak=200), cell(1, known_ms=0, messages_in=99), cell(2)]
    bounds = held_by_rate(cells, 100, "messages_in", "in_peak")
    assert (bounds.at_least_ms, bounds.at_most_ms) == (0, 2 * MINUTE_MS), "in the hole it may have been done, or not"
    assert known_ms(cells) == 2 * MINUTE_MS
    assert held_by_rate([cell(0, known_ms=0)], 1, "messages_in") == (0, 0, None)


@pytest.mark.parametrize("seed", range(40))
def test_the_bounds_hold_for_every_order_in_which_it_can_have_come(seed: int) -> None:
    """A queue that is served at the limit, second by second, against what history keeps of it."""
    chance, limit = random.Random(seed), 10
    seconds = [chance.choice((0, 0, chance.randrange(4), chance.randrange(60))) for _ in range(10 * MINUTE_S)]
    waiting = held = 0
    for came in seconds:
        waiting = max(0, waiting + came - limit)
        held += waiting > 0
    cells = []
    for index in range(10):
        part = seconds[index * MINUTE_S : (index + 1) * MINUTE_S]
        cells.append(cell(index, messages_in=sum(part), in_peak=max(part)))
    bounds = held_by_rate(cells, limit, "messages_in", "in_peak")
    assert bounds.at_least_ms <= (held + 1) * 1000
    assert held * 1000 <= bounds.at_most_ms + 1000
    assert held, "something was held, or the test says nothing"


def test_an_age_is_over_its_limit_as_long_as_the_oldest_message_says() -> None:
    minute = MINUTE_MS
    cells = [cell(index, oldest_ms=minute // 2, age_max_ms=(index + 1) * minute - minute // 2) for index in range(4)]
    bounds = over_age(cells, 2 * minute)
    assert bounds == (minute // 2 + minute, 2 * minute, 3.5 * minute)
    assert over_age(cells, 4 * minute).at_most_ms == 0
    caught_up = [*cells, cell(4, age_max_ms=4 * minute)]  # it was acknowledged within the minute
    assert over_age(caught_up, 2 * minute)[:2] == (minute // 2 + minute, 3 * minute)
    unknown = over_age([cell(0, oldest_ms=1, backlog_entries=3)], minute)
    assert unknown == (0, minute, None), "how old it was is not known"


def test_a_backlog_is_no_larger_than_what_is_stored() -> None:
    cells = [cell(0, stored_bytes=500), cell(1, stored_bytes=500, backlog_max=1), cell(2, stored_bytes=50, backlog_max=1)]
    assert over_stored(cells, 100) == (0, MINUTE_MS, 500), "where nothing waits, the quota counts nothing"
    assert over_stored(cells, 500).at_most_ms == MINUTE_MS, "a quota that is reached is used up"
    assert over_stored(cells, 501).at_most_ms == 0
    assert over_stored([cell(0, held=False, stored_bytes=500, backlog_max=1)], 100) == (0, 0, None)


def test_who_is_counted_is_counted_at_the_ends_of_steps() -> None:
    cells = [cell(index, producers=count) for index, count in enumerate((1, 5, 6, 2, 2))]
    assert over_count(cells, 4, "producers") == (MINUTE_MS, 3 * MINUTE_MS, 6)
    assert over_count(cells, 6, "producers").at_most_ms == 0
    assert over_count([], 1, "producers") == (0, 0, None)
    apart = [cells[1], cells[4]]
    assert over_count(apart, 4, "producers") == (0, MINUTE_MS, 5), "what was between is not known"


def test_nobody_was_there_for_the_longest_time_without_members_and_messages() -> None:
    cells = [cell(0, consumers=1), *(cell(index) for index in range(1, 6)), cell(6, messages_out=1), cell(7)]
    bounds = unused(cells, 3 * MINUTE_MS, ("messages_out",), ("consumers",))
    assert bounds == (0, 2 * MINUTE_MS, 5 * MINUTE_MS)


def test_sums_of_what_was_kept_back_and_came_in() -> None:
    cells = [cell(0, throttled_ms=500, bytes_in=7), cell(1, bytes_in=5)]
    assert (throttled_ms(cells), kept_bytes(cells)) == (500, 12)


def test_every_limit_says_when_there_is_none_and_what_it_does() -> None:
    assert REPLAYED.keys() <= ENFORCED.keys()
    quota = REPLAYED["backlog_quota_age_s"]
    assert quota.limit({"backlog_quota_age_s": -1}) is None and quota.limit({"backlog_quota_age_s": 0}) == 0
    assert quota.outcome({"backlog_quota_age_policy": "consumer_backlog_eviction"}) is Outcome.EVICTED
    assert quota.outcome({"backlog_quota_age_policy": "producer_exception"}) is Outcome.PUBLISHING_REFUSED
    dispatch = REPLAYED["dispatch_rate_messages"]
    assert dispatch.limit({"dispatch_rate_messages": 60, "dispatch_rate_period_s": 10}) == 6
    assert dispatch.limit({"dispatch_rate_messages": -1, "dispatch_rate_period_s": 10}) is None
    inactive = REPLAYED["inactive_topic_after_s"]
    assert inactive.limit({"inactive_topic_after_s": 60, "inactive_topic_delete": False}) is None
    assert is_relative("dispatch_rate_bytes", {"dispatch_rate_relative": True})
    assert not is_relative("publish_rate_bytes", {})


def test_what_decides_about_a_limit_is_held_against_history_with_it() -> None:
    assert replayed_of(["backlog_quota_age_policy", "schema_enforced"]) == (["backlog_quota_age_s"], ["schema_enforced"])
    assert replayed_of(["dispatch_rate_period_s"])[0] == ["dispatch_rate_messages", "dispatch_rate_bytes"]
