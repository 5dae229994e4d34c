"""One tenant that changes its policies in a loop keeps the lock that all share, and fills the audit log: it is told to wait."""

from __future__ import annotations

import pytest

from messaging.errors import QuotaExceeded
from tenants import actions
from tenants.actions import rate
from tenants.actions.rate import BUCKETS_MAX, CHANGES_BURST, CHANGES_PER_SECOND, ChangeRates
from tenants.models import Namespace
from tests.tenants.world import World
from workers.billing import budget_actions

NOW_MS = 1_800_000_000_000


def test_a_burst_then_so_many_a_second_for_each_alone() -> None:
    rates = ChangeRates()
    for _ in range(CHANGES_BURST):
        rates.take("acme", NOW_MS)
    with pytest.raises(QuotaExceeded, match=r"acme makes more than .* try again in 200 ms"):
        rates.take("acme", NOW_MS)
    rates.take("globex", NOW_MS)
    rates.take("acme", NOW_MS + 1000 // CHANGES_PER_SECOND)


def test_what_is_remembered_is_bounded() -> None:
    rates = ChangeRates()
    for number in range(BUCKETS_MAX + 10):
        rates.take(f"tenant-{number}", NOW_MS)
    assert len(rates) == BUCKETS_MAX


def test_a_tenant_is_told_to_wait_and_the_superuser_is_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "CHANGES_BURST", 1)
    monkeypatch.setattr("tenants.actions.change.rates", ChangeRates())
    olga, sam = world.actor("olga"), world.actor("sam")
    actions.set_policies(olga, "acme/orders", {"message_ttl_s": 60})
    with pytest.raises(QuotaExceeded, match="user:olga"):
        actions.set_policies(olga, "acme/orders", {"message_ttl_s": 61})
    assert Namespace.unscoped.get(name="acme/orders").policies == {"message_ttl_s": 60}
    actions.set_policies(sam, "other/things", {"message_ttl_s": 60})
    for seconds in (61, 62, 63):
        actions.set_policies(world.admin, "acme/orders", {"message_ttl_s": seconds})


def test_changes_of_budgets_and_reports_count_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaves a record for good, and anybody who administers a tenant may make any number."""
    monkeypatch.setattr(rate, "CHANGES_BURST", 2)
    monkeypatch.setattr("tenants.actions.change.rates", ChangeRates())
    olga = world.actor("olga")
    budget = budget_actions.create_budget(olga, "acme", "All", "50", "EUR")
    schedule = budget_actions.create_schedule(olga, "acme", "Daily", "day", "topic")
    for refused in (
        lambda: budget_actions.change_budget(olga, "acme", budget.pk, {"name": "Other"}),
        lambda: budget_actions.change_schedule(olga, "acme", schedule.pk, {"name": "Other"}),
        lambda: budget_actions.delete_budget(olga, "acme", budget.pk),
        lambda: budget_actions.delete_schedule(olga, "acme", schedule.pk),
        lambda: budget_actions.create_budget(olga, "acme", "Second", "50", "EUR"),
        lambda: budget_actions.create_schedule(olga, "acme", "Weekly", "week", "topic"),
    ):
        with pytest.raises(QuotaExceeded):
            refused()
