"""A peer that is refused a thousand times a second wrote as many lines of the log."""

from __future__ import annotations

from messaging.log_rate_limit import A_SECOND, BURST, EVENTS_MAX, LogRateLimit


def test_an_event_has_a_burst_and_then_a_rate_and_says_what_was_left_out() -> None:
    rates = LogRateLimit()
    assert [rates.suppressed("refused", 10.0) for _ in range(BURST)] == [0] * BURST
    assert [rates.suppressed("refused", 10.0) for _ in range(1000)] == [None] * 1000
    assert rates.suppressed("other", 10.0) == 0
    assert rates.suppressed("refused", 10.0 + 1.5 / A_SECOND) == 1000
    assert rates.suppressed("refused", 10.0 + 1.5 / A_SECOND) is None
    assert rates.suppressed("refused", 1000.0) == 1
    assert [rates.suppressed("refused", 1000.0) for _ in range(BURST)] == [0] * (BURST - 1) + [None]


def test_names_without_end_are_not_remembered_without_end() -> None:
    rates = LogRateLimit()
    for number in range(3 * EVENTS_MAX):
        assert rates.suppressed(f"event {number}", 1.0) == 0
    assert len(rates.events) == EVENTS_MAX
