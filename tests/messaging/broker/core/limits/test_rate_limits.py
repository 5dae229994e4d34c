"""How much may be sent under rate limits: never more than allowed, never less than possible, and nobody starves."""

from __future__ import annotations

import math
from collections import deque
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.broker.core.limits.fair_shares import BURST_S
from messaging.broker.core.limits.rate_limits import (
    NO_LIMIT,
    NOTHING_ALLOWED,
    UNLIMITED,
    Allowance,
    LevelLimiter,
    RateLevel,
    RateLimit,
    Throttle,
)
from tests.support.examples import examples
from tests.support.worlds.rate_world import RateWorld, Sender, level


def test_a_policy_of_zero_or_less_is_no_limit() -> None:
    assert RateLimit.per_period(0, -1) == RateLimit.per_period(-1, 0, 30) == NO_LIMIT
    assert NO_LIMIT.unlimited and not RateLimit(messages=1).unlimited
    assert RateLimit.per_period(10, 300, 0) == RateLimit(10, 300)
    assert RateLimit.per_period(10, 300, 30) == RateLimit(10 / 30, 10)


def test_a_huge_limit_limits_nothing() -> None:
    limiter = level(RateLimit.per_period(2**53 - 1, 2**53 - 1))
    sender = Throttle("acme", [limiter], lambda: None, lambda error: None)
    for _ in range(1000):
        assert sender.allowance(0.0)
        sender.take(10**6, 10**9)


def test_an_allowance_of_both_kinds() -> None:
    assert not NOTHING_ALLOWED and not Allowance(5, 0) and not Allowance(-1, UNLIMITED) and Allowance(0.5, 1)
    assert Allowance(3, 9).least(Allowance(5, 2)) == Allowance(3, 2)


def test_a_debt_stays_where_the_limit_changes() -> None:
    limiter = level(RateLimit(messages=1))
    sender = Throttle("acme", [limiter], lambda: None, lambda error: None)
    sender.take(1001, 0)
    limiter.change(RateLimit(messages=100), 0.0)
    assert not sender.allowance(9.9)
    limiter.turn(10.1)
    limiter.change(NO_LIMIT, 9.9)
    assert [throttle is sender for throttle in limiter.turn(9.9)] == [True]
    assert sender.allowance(9.9) == Allowance()


def test_a_sender_knows_the_limit_it_waits_for() -> None:
    messages, size = level(RateLimit(messages=10), RateLevel.TOPIC), level(RateLimit(size_bytes=10), RateLevel.BROKER)
    waited: list[LevelLimiter] = []
    sender = Throttle("acme", [messages, size], lambda: None, waited.append)
    sender.take(1, 1000)
    assert not sender.allowance(0.0)
    assert (sender.blocked_by, waited) == (size, [size])
    assert not sender.allowance(0.1)
    assert sender.waits == {(RateLevel.BROKER, True): 1}
    sender.take(1000, 0)
    assert not sender.allowance(0.2)  # now it waits for the other level, and only for that
    assert (sender.blocked_by, size.waiting, messages.waiting) == (messages, False, True)
    assert sender.waits == {(RateLevel.BROKER, True): 1, (RateLevel.TOPIC, False): 1}
    sender.close()
    assert not messages.waiting and sender.allowance(0.2) == Allowance()


def test_a_limit_relative_to_a_rate_is_added_to_it() -> None:
    limiter = level(RateLimit(messages=10), added=lambda: (990.0, 5.0))
    sender = Sender(RateWorld(), [limiter], messages=20_000)
    sender.world.run(10.0)
    assert sum(count for _, count in sender.sent) == pytest.approx(10_000, rel=0.02)


@pytest.mark.parametrize("rate", [100, 1_000, 10_000])
@pytest.mark.parametrize("late_s", [0.0, 0.005, 0.1])
def test_exact_over_ten_seconds(rate: int, late_s: float) -> None:
    """Timers are late by up to `late_s`."""
    world = RateWorld(late_s)
    sender = Sender(world, [level(RateLimit(messages=rate))], messages=rate * 20)
    world.run(10.0)
    assert sum(count for _, count in sender.sent) == pytest.approx(rate * 10, rel=0.02)


@pytest.mark.parametrize("size", [100, 10_000, 100_000])
def test_exact_in_bytes(size: int) -> None:
    world = RateWorld()
    sender = Sender(world, [level(RateLimit(size_bytes=10_000_000))], messages=200_000_000 // size, message_bytes=size)
    world.run(10.0)
    assert sum(count for _, count in sender.sent) * size == pytest.approx(100_000_000, rel=0.02)


def test_exact_under_several_levels_together() -> None:
    """Two topics of a tenant, one with a limit of its own: together they use the whole limit of the tenant."""
    world = RateWorld(0.005)
    tenant, broker = level(RateLimit(messages=1000), RateLevel.TENANT), level(RateLimit(messages=5000), RateLevel.BROKER)
    slow = Sender(world, [level(RateLimit(messages=100)), tenant, broker], messages=50_000)
    fast = Sender(world, [tenant, broker], messages=50_000)
    other = Sender(world, [broker], messages=100_000, tenant="globex")
    world.run(10.0)
    totals = [sum(count for _, count in sender.sent) for sender in (slow, fast, other)]
    assert totals == pytest.approx([1000, 9000, 40_000], rel=0.02)


def test_a_level_is_shared_fairly_whatever_each_sends_at_once() -> None:
    world = RateWorld()
    shared = level(RateLimit(messages=1000), RateLevel.TENANT)
    senders = [Sender(world, [shared], messages=50_000, batch=batch) for batch in (1, 1, 7, 50)]
    world.run(20.0)
    totals = [sum(count for _, count in sender.sent) for sender in senders]
    assert sum(totals) == pytest.approx(20_000, rel=0.02)
    assert totals == pytest.approx([5_000] * 4, rel=0.1)


def test_a_sender_that_has_to_read_first_does_not_starve() -> None:
    """Whenever its turn has come, its messages are not in memory yet, and the other takes what there is."""
    world = RateWorld()
    shared = level(RateLimit(messages=50), RateLevel.TOPIC)
    quick = Sender(world, [shared], messages=10_000)
    reading = Sender(world, [shared], messages=10_000, reads_s=0.004)
    world.run(20.0)
    assert sum(count for _, count in reading.sent) >= 0.9 * sum(count for _, count in quick.sent)


def test_many_senders_at_a_low_rate_all_have_their_turn() -> None:
    world = RateWorld()
    shared = level(RateLimit(messages=100), RateLevel.BROKER)
    crowd = [Sender(world, [shared], messages=1000, tenant="crowd") for _ in range(300)]
    alone = Sender(world, [shared], messages=1000, tenant="alone")
    world.run(10.0)
    assert sum(count for _, count in alone.sent) == pytest.approx(500, rel=0.1)
    assert sorted(sum(count for _, count in sender.sent) for sender in crowd)[0] >= 1


@settings(max_examples=examples(60))
@given(
    rate=st.sampled_from([0.5, 1, 10, 333, 5_000]),
    batches=st.lists(st.integers(1, 40), min_size=1, max_size=60),
    gaps=st.lists(st.floats(0, 0.7), min_size=1, max_size=60),
    late_s=st.floats(0, 0.3),
)
def test_never_over_the_limit_in_any_window(rate: float, batches: list[int], gaps: list[float], late_s: float) -> None:
    world = RateWorld(late_s)
    sender = Sender(world, [level(RateLimit(messages=rate))])
    at_s = 0.0
    for batch, gap in zip(batches, gaps, strict=False):
        at_s += gap
        world.at(at_s, lambda batch=batch: sender.add(batch))  # type: ignore[misc]
    world.run(at_s + sum(batches) / rate + 10)
    assert not sender.queue, "what waits is sent in the end"
    slack = max(1.0, rate * BURST_S) + max(batches)
    for index, (begin_s, _) in enumerate(sender.sent):
        for end_s, total in zip(
            (at for at, _ in sender.sent[index:]), accumulate(count for _, count in sender.sent[index:]), strict=True
        ):
            assert total <= rate * (end_s - begin_s) + slack + 1e-6


@settings(max_examples=examples(60))
@given(
    limits=st.lists(st.tuples(st.sampled_from([20, 300, 4000, 0]), st.sampled_from([2_000, 90_000, 0])), min_size=1, max_size=4),
    late_s=st.sampled_from([0.0, 0.02]),
)
def test_the_strictest_of_all_levels_is_used_up_and_never_exceeded(limits: list[tuple[int, int]], late_s: float) -> None:
    world = RateWorld(late_s)
    levels = [level(RateLimit(messages, size)) for messages, size in limits]
    sender = Sender(world, levels, messages=60_000, message_bytes=100)
    world.run(10.0)
    strictest = min(min(messages or 1e9, size / 100 or 1e9) for messages, size in limits)
    expected = min(60_000, strictest * 10)
    assert sum(count for _, count in sender.sent) == pytest.approx(expected, rel=0.02, abs=4)


def test_changes_of_a_limit_take_effect_at_once() -> None:
    world = RateWorld()
    limiter = level(RateLimit(messages=10))
    sender = Sender(world, [limiter], messages=100_000)
    world.run(10.0)
    slow = sum(count for _, count in sender.sent)
    world.change(limiter, RateLimit(messages=1000))
    world.run(20.0)
    fast = sum(count for _, count in sender.sent) - slow
    assert (slow, fast) == (pytest.approx(100, rel=0.02), pytest.approx(10_000, rel=0.02))
    world.change(limiter, NO_LIMIT)
    world.run(20.02)
    assert sender.queue == deque()


# --- senders that drop what they may not send


class Dropping:
    """Sends bursts at a steady rate, and drops what it may not send."""

    def __init__(self, world: RateWorld, limiter: LevelLimiter, *, tenant: str, burst: int, every_s: float, until_s: float) -> None:
        self.sent = self.dropped = 0
        self._world = world
        self._burst = burst
        self._throttle = Throttle(tenant, [limiter], lambda: None, world.begin, drops=True)
        for number in range(int(until_s / every_s)):
            world.at(number * every_s, self._send)

    def _send(self) -> None:
        left = self._burst
        while left and (allowed := self._throttle.allowance(self._world.now_s)):
            count = min(left, math.ceil(allowed.messages))
            self._throttle.take(count, count)
            self.sent, left = self.sent + count, left - count
        self.dropped += left


@pytest.mark.parametrize("waiting", [False, True])
def test_a_sender_of_little_drops_nothing_beside_one_of_too_much(waiting: bool) -> None:
    """Of another tenant, and of the same; beside others that wait."""
    world, limiter = RateWorld(), level(RateLimit(messages=1000))
    floods = [Dropping(world, limiter, tenant=tenant, burst=50, every_s=0.01, until_s=10) for tenant in ("acme", "other")]
    few = [Dropping(world, limiter, tenant=tenant, burst=2, every_s=0.05, until_s=10) for tenant in ("acme", "third")]
    stored = [Sender(world, [limiter], messages=20_000, tenant="acme")] if waiting else []
    world.run(10.0)
    assert [(sender.sent, sender.dropped) for sender in few] == [(400, 0)] * 2
    queued = sum(count for sender in stored for _, count in sender.sent)
    assert sum(sender.sent for sender in [*floods, *few]) + queued == pytest.approx(10_000, rel=0.02)
    assert floods[1].sent > 3000
    assert queued > 1000 or not waiting


def test_a_silent_sender_has_no_share() -> None:
    world, limiter = RateWorld(), level(RateLimit(messages=1000))
    Dropping(world, limiter, tenant="other", burst=1, every_s=0.5, until_s=1)
    sender = Dropping(world, limiter, tenant="acme", burst=50, every_s=0.01, until_s=12)
    world.run(12.0)
    assert sender.sent == pytest.approx(12_000, rel=0.02)


def test_a_dropping_sender_waits_nowhere() -> None:
    limiter = level(RateLimit(messages=10))
    sender = Throttle("acme", [limiter], lambda: None, lambda error: None, drops=True)
    sender.take(100, 1)
    for _ in range(3):
        assert not sender.allowance(0.0)
    assert sender.blocked_by is limiter and not limiter.waiting
    assert sender.waits == {(RateLevel.TOPIC, False): 1}
    assert sender.allowance(10.0) and sender.blocked_by is None
