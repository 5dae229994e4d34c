"""10,000 steps of each type in every run of the tests, and the simulation itself: it is repeatable, and it notices a subscription
that breaks its word. `make simulate` runs any number.
"""

from __future__ import annotations

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.dispatch.draining import DrainingSlots
from messaging.broker.core.dispatch.holding import HoldingDispatch
from messaging.broker.core.dispatch.redeliveries import Redeliveries
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import DELAYING, SubscriptionType
from tests.simulation.subscriptions.model import Fate
from tests.simulation.subscriptions.operations import OPERATIONS
from tests.simulation.subscriptions.run import simulate

STEPS = 10_000
SEEDS = (5, 6, 7)
NOT_OF_SINGLE_READERS = {"change_dead_letter_policy", "move_dead_letters", Fate.DEAD_LETTERED}
NOT_OF_OTHERS = {"acknowledge_cumulatively"}


@pytest.mark.parametrize("kind", SubscriptionType)
def test_a_subscription_keeps_its_promises(kind: SubscriptionType) -> None:
    missing = {*OPERATIONS, *map(str, Fate)} - (NOT_OF_OTHERS if kind in DELAYING else NOT_OF_SINGLE_READERS)
    for seed in SEEDS:  # what is rare may not happen with the first one
        result = simulate(kind, seed, STEPS)
        assert not result.violation, result.described
        missing -= {str(what) for what, count in result.counts.items() if count}
        if not missing:
            return
    assert not missing, f"never happened: {missing}"


def test_the_same_seed_gives_the_same_run() -> None:
    first = simulate(SubscriptionType.KEY_SHARED, 5, 500)
    assert simulate(SubscriptionType.KEY_SHARED, 5, 500) == first
    assert simulate(SubscriptionType.KEY_SHARED, 6, 500).trace != first.trace


def found(kind: SubscriptionType, seed: int = 3) -> str:
    result = simulate(kind, seed, 3_000)
    assert f"--seed {seed} --steps {result.steps}" in result.described
    return result.violation


def test_an_entry_that_is_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a consumer gives back is forgotten."""
    monkeypatch.setattr(Redeliveries, "add", lambda redeliveries, ledger_id, entries: None)
    assert "sent to nobody" in found(SubscriptionType.SHARED)


def test_an_acknowledgement_that_is_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart forgets what was acknowledged out of order."""
    monkeypatch.setattr(Cursor, "apply", lambda cursor, delta, ledger_list: None)
    assert "are the backlog" in found(SubscriptionType.EXCLUSIVE)


def test_a_key_at_two_consumers_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DrainingSlots, "begin_search", lambda slots, consumers, owner: None)
    assert "has_its_key_to_itself" in found(SubscriptionType.KEY_SHARED)


def test_permits_that_are_lost_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Consumer.flow
    monkeypatch.setattr(Consumer, "flow", lambda consumer, permits, now_ms: flow(consumer, permits - 1, now_ms))
    assert "its client gave" in found(SubscriptionType.SHARED)


def test_a_redelivery_that_is_not_counted_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Redeliveries, "count", lambda redeliveries, ledger_id, entries: None)
    assert "with redelivery count 0" in found(SubscriptionType.SHARED)


def test_a_strategy_that_does_not_recover_from_an_exception_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HoldingDispatch, "recover", lambda dispatch: None)
    assert found(SubscriptionType.SHARED, 4)
    assert found(SubscriptionType.KEY_SHARED)


def test_a_consumer_that_is_never_active_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subscription, "can_dispatch", lambda subscription: False)
    assert "nobody_waits" in found(SubscriptionType.FAILOVER)
