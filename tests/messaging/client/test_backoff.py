from __future__ import annotations

import pytest

from messaging.client.backoff import Backoff, GiveUp, ReconnectPolicy, Retry
from messaging.client.failures import ChannelClosed, Refused
from messaging.errors import AuthenticationFailed, MagnetarError, NotReady, ProducerBusy, TopicNotFound


def policy(open_timeout_s: float = 10) -> ReconnectPolicy:
    return ReconnectPolicy(Backoff(lambda: 0.0), open_timeout_s, now_s=0)


def test_delays_double_up_to_the_longest_and_begin_again_after_success() -> None:
    backoff = Backoff(lambda: 1.0, initial_s=1, max_s=10)
    assert [backoff.next_delay_s() for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    backoff.reset()
    assert backoff.next_delay_s() == 1
    for _ in range(2000):
        backoff.next_delay_s()
    assert backoff.next_delay_s() == 10


def test_chance_takes_up_to_half_of_a_delay() -> None:
    assert Backoff(lambda: 0.0, initial_s=1).next_delay_s() == 0.5
    assert Backoff(lambda: 0.5, initial_s=1).next_delay_s() == 0.75


def test_opening_goes_on_for_its_time_and_says_what_stood_in_the_way() -> None:
    opening = policy(open_timeout_s=10)
    assert isinstance(opening.after(ConnectionRefusedError("refused"), 0), Retry)
    decision = opening.after(ConnectionRefusedError("refused"), 9.95)
    assert isinstance(decision, GiveUp) and isinstance(decision.error, NotReady)
    assert "within 10 s: refused" in decision.error.message


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "authentication_failed", AuthenticationFailed),
        (404, "topic_not_found", TopicNotFound),
        (409, "producer_busy", ProducerBusy),
        (418, "no code we know", MagnetarError),
    ],
)
def test_a_refusal_of_the_first_connection_is_final(status: int, code: str, kind: type[MagnetarError]) -> None:
    decision = policy().after(Refused(status, code, "why"), 0)
    assert isinstance(decision, GiveUp) and type(decision.error) is kind and decision.error.message == "why"


def test_a_broker_that_is_not_ready_is_tried_again() -> None:
    assert isinstance(policy().after(Refused(503, "not_ready", "starting"), 0), Retry)
    decision = policy().after(Refused(503, "not_ready", "starting"), 100)
    assert isinstance(decision, GiveUp) and isinstance(decision.error, NotReady) and decision.error.message == "starting"


def test_later_connections_are_tried_for_ever_unless_the_broker_forbids() -> None:
    later = policy()
    later.connected()
    for failure in (
        ConnectionResetError(),
        TimeoutError(),
        ChannelClosed(1006, ""),
        ChannelClosed(1012, "restart"),
        ChannelClosed(1008, "the token has expired"),
        ChannelClosed(1009, "too large"),
        Refused(409, "producer_busy", "the broker has not noticed yet that we were gone"),
        Refused(503, "not_ready", ""),
    ):
        assert isinstance(later.after(failure, 1e9), Retry), failure
    for refused in (
        Refused(401, "authentication_failed", ""),
        Refused(403, "not_authorized", ""),
        Refused(404, "topic_not_found", ""),
    ):
        assert isinstance(later.after(refused, 1e9), GiveUp)
    assert isinstance(later.after(ChannelClosed(1007, "3: bad frame"), 1e9), GiveUp)


def test_only_a_connection_of_use_makes_delays_short_again() -> None:
    later = policy()
    delays = []
    for _ in range(3):
        later.connected()
        decision = later.after(ChannelClosed(1012, ""), 0)
        assert isinstance(decision, Retry)
        delays.append(decision.delay_s)
    assert delays == [0.05, 0.1, 0.2]
    later.healthy()
    decision = later.after(ChannelClosed(1012, ""), 0)
    assert isinstance(decision, Retry) and decision.delay_s == 0.05
