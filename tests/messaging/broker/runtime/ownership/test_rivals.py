"""For how long a broker leaves it to another one to recover a third."""

from __future__ import annotations

from messaging.broker.runtime.ownership.rivals import RIVAL_S, RIVAL_S_MAX, Rivals
from tests.support.clock import Clock


def test_a_rival_has_twice_the_time_after_each_attempt_that_was_too_short() -> None:
    clock = Clock(0)
    rivals = Rivals(lambda: clock.now_ms / 1000)
    assert not rivals.known("b", 1) and not rivals.at_work("b", 1)
    for patience_s in (RIVAL_S, 2 * RIVAL_S, 4 * RIVAL_S):
        rivals.leave("b", 1)
        clock.now_ms += round(patience_s * 1000) - 1
        assert rivals.at_work("b", 1)
        clock.now_ms += 1
        assert not rivals.at_work("b", 1) and rivals.known("b", 1)
    for _ in range(10):
        rivals.leave("b", 1)
    clock.now_ms += round(RIVAL_S_MAX * 1000)
    assert not rivals.at_work("b", 1)


def test_each_session_is_recovered_anew() -> None:
    rivals = Rivals(lambda: 0.0)
    rivals.leave("b", 1)
    assert not rivals.at_work("b", 2) and not rivals.known("b", 2) and not rivals.at_work("c", 1)
    rivals.leave("b", 2)
    assert rivals.at_work("b", 2) and not rivals.known("b", 1)
