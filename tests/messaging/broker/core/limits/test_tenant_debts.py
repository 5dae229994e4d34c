"""One SEND that holds far more messages than a shared limit allows: its tenant waits for it, the others do not."""

from __future__ import annotations

import pytest

from messaging.broker.core.limits.rate_limits import RateLevel, RateLimit
from tests.support.worlds.rate_world import RateWorld, Sender, level

CLAIMED = 131_072  # messages that one SEND may say that it holds


def sent(sender: Sender, since_s: float = 0.0) -> int:
    return sum(count for at_s, count in sender.sent if at_s >= since_s)


def test_others_get_their_share_at_once() -> None:
    world, limiter = RateWorld(), level(RateLimit(messages=1000), RateLevel.BROKER)
    greedy = Sender(world, [limiter], messages=10 * CLAIMED, batch=CLAIMED, tenant="greedy")
    others = [Sender(world, [limiter], messages=20_000, tenant=name) for name in ("acme", "other")]
    world.run(10.0)
    assert sent(greedy) == CLAIMED
    for other in others:
        assert sent(other) == pytest.approx(10_000 / 3, rel=0.05)
        assert min(at_s for at_s, _ in other.sent) < 0.5


def test_the_limit_is_exact_over_the_time_that_the_debt_takes() -> None:
    world, limiter = RateWorld(), level(RateLimit(messages=1000), RateLevel.BROKER)
    greedy = Sender(world, [limiter], messages=2 * CLAIMED, batch=CLAIMED, tenant="greedy")
    other = Sender(world, [limiter], messages=1_000_000, tenant="acme")
    world.run(400.0)
    second_s = greedy.sent[1][0]
    assert sent(other) - sent(other, second_s) + CLAIMED == pytest.approx(second_s * 1000, rel=0.02)
    assert second_s == pytest.approx(CLAIMED / 500, rel=0.05), "its share pays it"


def test_other_senders_of_the_tenant_wait_with_it() -> None:
    world, limiter = RateWorld(), level(RateLimit(messages=1000), RateLevel.BROKER)
    Sender(world, [limiter], messages=CLAIMED, batch=CLAIMED, tenant="greedy")
    same = Sender(world, [limiter], messages=100, tenant="greedy")
    other = Sender(world, [limiter], messages=1_000_000, tenant="acme")
    world.run(10.0)
    assert sent(same) == 0 and sent(other) == pytest.approx(5000, rel=0.05)


def test_unused_rate_pays_while_the_debtor_is_silent() -> None:
    """Time passes before it sends again; and a tenant that sends little beside it."""
    world, limiter = RateWorld(), level(RateLimit(messages=1000, size_bytes=1e9), RateLevel.BROKER)
    greedy = Sender(world, [limiter], messages=CLAIMED, batch=CLAIMED, tenant="greedy")
    other = Sender(world, [limiter], tenant="acme")
    for second in range(150):
        world.at(float(second), lambda: other.add(100))
    world.at(CLAIMED / 900 - 3, lambda: greedy.add(1))
    world.run(CLAIMED / 900 - 2)
    assert sent(greedy) == CLAIMED
    world.run(160.0)
    assert sent(greedy) == CLAIMED + 1 and sent(other) == 15_000
    assert greedy.sent[-1][0] < CLAIMED / 900 + 2


def test_bytes_are_owed_too() -> None:
    world, limiter = RateWorld(), level(RateLimit(size_bytes=100_000), RateLevel.BROKER)
    greedy = Sender(world, [limiter], messages=2, message_bytes=5_000_000, tenant="greedy")
    other = Sender(world, [limiter], messages=10_000, message_bytes=1000, tenant="acme")
    world.run(10.0)
    assert sent(greedy) == 1 and sent(other) * 1000 == pytest.approx(500_000, rel=0.1)


@pytest.mark.parametrize("at", [RateLevel.TENANT, RateLevel.TOPIC])
def test_the_debt_of_a_limit_of_one_tenant_is_that_of_all_its_senders(at: RateLevel) -> None:
    world, limiter = RateWorld(), level(RateLimit(messages=1000), at)
    Sender(world, [limiter], messages=CLAIMED, batch=CLAIMED)
    same = Sender(world, [limiter], messages=100)
    world.run(100.0)
    assert sent(same) == 0
    world.run(140.0)
    assert sent(same) == 100
