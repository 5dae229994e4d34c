"""When clients are let go, by what is heard of other brokers."""

from __future__ import annotations

from itertools import product

import pytest

from messaging.broker.core.ownership.letting_go import GAP_S, GAP_S_MAX, Go, Heard, LettingGo
from messaging.storage.ownership import BrokerSession

LIVE = BrokerSession("b2", 1, {}, live=True)
LATE = BrokerSession("b3", 1, {}, live=False)
CLOSED = BrokerSession("b4", 1, {}, live=False, closed=True)


@pytest.mark.parametrize("heard", list(product(Heard, repeat=3)))
def test_clients_go_to_who_says_that_the_session_is_over_or_away_if_nothing_is_heard(heard: tuple[Heard, Heard, Heard]) -> None:
    others = list(zip((LIVE, LATE, CLOSED), heard, strict=True))
    went = LettingGo().decide(others, 0.0)
    if Heard.OVER in heard:
        assert went == Go(next(other for other, answer in others if answer is Heard.OVER))
    else:
        silent = heard[:2] == (Heard.NOTHING, Heard.NOTHING) and heard[2] is not Heard.LIVES
        assert went == (Go(None) if silent else None)


@pytest.mark.parametrize("heard", [Heard.LIVES, Heard.LISTENS, Heard.NOTHING])
def test_clients_stay_where_all_others_had_ended(heard: Heard) -> None:
    assert LettingGo().decide([(CLOSED, heard)], 0.0) is None
    assert LettingGo().decide([], 0.0) is None
    assert LettingGo().decide([(CLOSED, Heard.OVER)], 0.0) == Go(CLOSED)


def test_the_gap_doubles_up_to_a_minute_also_if_something_was_heard_meanwhile() -> None:
    letting_go, now_s, gap_s = LettingGo(), 1_000.0, GAP_S
    for _ in range(10):
        assert letting_go.decide([(LIVE, Heard.NOTHING)], now_s) == Go(None)
        assert letting_go.decide([(LIVE, Heard.LISTENS)], now_s + gap_s / 2) is None
        assert letting_go.decide([(LIVE, Heard.NOTHING)], now_s + gap_s - 0.01) is None
        now_s, gap_s = now_s + gap_s, min(2 * gap_s, GAP_S_MAX)
    assert gap_s == GAP_S_MAX


def test_who_says_that_the_session_is_over_is_believed_at_once_and_each_time() -> None:
    letting_go = LettingGo()
    assert letting_go.decide([(LIVE, Heard.NOTHING)], 0.0) == Go(None)
    for second in range(3):
        assert letting_go.decide([(LIVE, Heard.OVER), (LATE, Heard.NOTHING)], float(second)) == Go(LIVE)
