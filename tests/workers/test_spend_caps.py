"""Spend caps: what was spent is what the bill says so far; a cap is enforced while it is reached."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from messaging.errors import InvalidValue, NotFound
from messaging.settings import Settings
from tenants.access import platform_actor
from tenants.models import AuditRecord, OutboxChange, Tenant
from tests.support.billing.billing_rows import APRIL, GIB, HOUR, MARCH, PLAN, tenant_of, use, with_plan
from tests.support.brokers.control_plane import connected
from workers.alerts.models import Notice
from workers.billing import actions as billing
from workers.billing.budgets import month_ahead
from workers.billing.drafts import refresh
from workers.billing.models import NANO, Invoice
from workers.environment import Environment
from workers.spend_caps.actions import remove_cap, set_cap
from workers.spend_caps.enforcement import demanded, look_at_spend
from workers.spend_caps.models import SpendCap
from workers.spend_caps.spent import NO_DRAFT, NO_PLAN, Spent, spent_of

pytestmark = pytest.mark.django_db
TENTH = MARCH + timedelta(days=10)
RATE = "tenant_publish_rate_messages"
FIVE: dict[str, Any] = {RATE: 5}
Look = Callable[[datetime], int]


@pytest.fixture
def acme(db: None) -> Tenant:
    """Ten days of 10 GiB each: 61.00 EUR with the fees."""
    tenant = tenant_of()
    with_plan(tenant)
    for day in range(10):
        use(tenant, MARCH + day * 24 * HOUR, bytes_in=10 * GIB)
    refresh(tenant, MARCH, TENTH)
    return tenant


@pytest.fixture
def look(settings_of: Callable[..., Settings]) -> Look:
    no_rpc: Any = None  # the control plane tells the broker
    return lambda now: look_at_spend(Environment(settings_of(), no_rpc, now=lambda: now), lambda **progress: None)


@pytest.fixture(autouse=True)
def on_the_tenth() -> Any:
    with connected(), time_machine.travel(TENTH + HOUR, tick=False):
        yield


def spend(tenant: Tenant) -> dict[str, Any]:
    """What brokers do, and are told to do."""
    state = Tenant.unscoped.get(uid=tenant.uid).spend
    told = OutboxChange.objects.filter(kind="tenant", key=tenant.name).order_by("-version").first()
    assert (told.state or {} if told else {}).get("spend", {}) == state
    return dict(state)


def cap(set_by: str = "platform", amount: str = "50.00", action: str = "stop", currency: str = "EUR", **rates: Any) -> SpendCap:
    return set_cap(platform_actor(), "acme", set_by, amount, currency, action, rates)


def test_what_was_spent_is_the_subtotal_of_the_draft_and_the_sum_of_charges(acme: Tenant) -> None:
    spent = spent_of(acme.uid, TENTH)
    draft = Invoice.unscoped.get()
    assert (spent.text, draft.document["subtotal"]) == ("61.00 EUR", "61.00")
    assert month_ahead(acme.uid, "EUR", TENTH).so_far == (spent.minor or 0) * NANO // 100
    assert spent.until == MARCH + 9 * 24 * HOUR + HOUR  # how old it is


def test_a_credit_does_not_change_what_was_spent(acme: Tenant) -> None:
    billing.grant_credit(platform_actor(), "acme", "Welcome", "EUR", "60.00", None)
    refresh(acme, MARCH, TENTH)
    assert Invoice.unscoped.get().document["total"] == "1.00"
    assert spent_of(acme.uid, TENTH).text == "61.00 EUR"


def test_a_cap_that_is_reached_stops_at_once_and_is_lifted_when_it_is_raised_or_removed(acme: Tenant) -> None:
    cap(amount="61.01")
    assert spend(acme) == {}
    cap(amount="61.00")
    assert spend(acme) == {
        "stopped": "tenant acme has reached its spend cap of 61.00 EUR for March 2026, set by the platform: nothing more can be "
        "published until the cap is raised or removed, or the month is over (UTC); what is stored can be consumed"
    }
    cap(amount="62.00")
    assert spend(acme) == {}
    cap(amount="10.00")
    assert spend(acme) != {}
    remove_cap(platform_actor(), "acme", "platform")
    assert spend(acme) == {} and not SpendCap.unscoped.exists()
    records = AuditRecord.unscoped.filter(action__startswith="spend_cap.").order_by("id")
    assert list(records.values_list("action", flat=True)) == [
        "spend_cap.set", "spend_cap.set", "spend_cap.enforce", "spend_cap.set", "spend_cap.enforce",
        "spend_cap.set", "spend_cap.enforce", "spend_cap.remove", "spend_cap.enforce",
    ]  # fmt: skip


def test_late_usage_reaches_a_cap_and_the_turn_of_the_month_lifts_it(acme: Tenant, look: Look) -> None:
    cap(amount="62.00")
    assert look(TENTH) == 0 and spend(acme) == {}
    use(acme, MARCH + HOUR, bytes_in=10 * GIB)  # came late
    assert look(TENTH) == 0  # it is not rated yet
    refresh(acme, MARCH, TENTH + HOUR)
    assert look(TENTH + HOUR) == 1 and "62.00 EUR for March 2026" in spend(acme)["stopped"]
    assert look(TENTH + HOUR) == 0
    assert look(APRIL) == 1 and spend(acme) == {}  # nothing of April is billed yet
    refresh(acme, APRIL, APRIL + HOUR)
    assert look(APRIL + HOUR) == 0 and spend(acme) == {}  # 29.00 of fees


def test_each_threshold_is_told_once_a_month(acme: Tenant, look: Look) -> None:
    cap(amount="70.00")
    assert [look(TENTH), look(TENTH)] == [0, 0]
    (notice,) = Notice.unscoped.all()
    assert (notice.kind, notice.title) == ("spend_cap", "Spend cap of 70.00 EUR: 87 % used")
    assert notice.text == (
        "Tenant acme has spent 61.00 EUR in March 2026 (usage up to 2026-03-10 01:00 UTC, before credits and tax), which is at "
        "least 80 % of the spend cap of 70.00 EUR that the platform has set. At 100 % producers are refused, and what is stored "
        "can be consumed."
    )
    cap("tenant", "30.00", "throttle", **FIVE)
    look(TENTH)
    texts = sorted(Notice.unscoped.values_list("text", flat=True))
    assert len(texts) == 2 and "the tenant is throttled to tenant_publish_rate_messages = 5 a second" in texts[1] + texts[0]


def test_two_caps_count_each_by_itself(acme: Tenant) -> None:
    cap("tenant", "10.00", "throttle", tenant_dispatch_rate_bytes=100, **FIVE)
    assert spend(acme) == {"rates": {RATE: 5, "tenant_dispatch_rate_bytes": 100}}
    cap("platform", "20.00", "throttle", tenant_publish_rate_messages=3)
    assert spend(acme) == {"rates": {RATE: 3, "tenant_dispatch_rate_bytes": 100}}
    cap("platform", "20.00", "stop")
    assert spend(acme).keys() == {"stopped", "rates"}


def test_what_is_not_known_throttles_nothing(look: Look) -> None:
    tenant = tenant_of()
    cap(amount="0.01")
    assert spent_of(tenant.uid, TENTH) == Spent(MARCH, unknown=NO_DRAFT) and spend(tenant) == {}
    use(tenant, MARCH, bytes_in=10 * GIB)
    refresh(tenant, MARCH, TENTH)  # there is no plan
    assert look(TENTH) == 0 and spend(tenant) == {} and spent_of(tenant.uid, TENTH).minor is None
    with_plan(tenant)
    refresh(tenant, MARCH, TENTH)
    assert look(TENTH) == 1 and spend(tenant) != {}
    cap(amount="1", currency="JPY")  # not compared with euros
    assert spend(tenant) == {}
    spent = spent_of(tenant.uid, TENTH)
    assert spent.percent_of(SpendCap.unscoped.get()) is None
    assert spent.unknown_for(SpendCap.unscoped.get()) == "the month is billed in EUR, and the cap is in JPY"


def test_a_draft_of_corrections_alone_is_not_the_month(acme: Tenant) -> None:
    Invoice.unscoped.update(document={**Invoice.unscoped.get().document, "segments": []})
    assert spent_of(acme.uid, TENTH) == Spent(MARCH, unknown=NO_PLAN)


def test_a_currency_without_minor_units(look: Look) -> None:
    tenant = tenant_of()
    prices = [{"meter": "bytes_in", "unit": "GiB", "model": "graduated", "tiers": [{"price": "7"}]}]
    with_plan(tenant, {**PLAN, "plan": "yen", "currency": "JPY", "base_fee": "100", "prices": prices})
    use(tenant, MARCH, bytes_in=100 * GIB)
    refresh(tenant, MARCH, TENTH)
    cap(amount="801", currency="JPY")
    assert spent_of(tenant.uid, TENTH).text == "800 JPY" and spend(tenant) == {}
    cap(amount="800", currency="JPY")
    assert "spend cap of 800 JPY" in spend(tenant)["stopped"]
    with pytest.raises(InvalidValue, match="more than 0 digits"):
        cap(amount="800.5", currency="JPY")


def test_what_was_taken_back_is_below_zero(acme: Tenant) -> None:
    row = cap(amount="10.00")
    back = Spent(MARCH, "EUR", -500)
    assert (back.percent_of(row), back.reaches(row), demanded([row], back)) == (0, False, {})


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"amount": "0"}, "not above 0"),
        ({"amount": "-5"}, "not above 0"),
        ({"amount": "x"}, "not a number"),
        ({"currency": "XXX"}, "not known"),
        ({"action": "warn"}, "throttle, stop"),
        ({"action": "throttle"}, "needs one rate"),
        ({RATE: 5}, "needs one rate"),
        ({"action": "throttle", RATE: -5}, "from 1 to"),
        ({"action": "throttle", "publish_rate": 5}, "no such rate"),
    ],
)
def test_a_cap_that_is_wrong_is_refused(acme: Tenant, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidValue, match=says):
        cap(**wrong)
    with pytest.raises(NotFound, match="no spend cap"):
        remove_cap(platform_actor(), "acme", "tenant")
    assert not SpendCap.unscoped.exists()


def test_one_that_is_gone_holds_up_no_other(acme: Tenant, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Tenant.unscoped.create(name="abc")
    set_cap(platform_actor(), "abc", "platform", "1", "EUR", "stop")
    cap(amount="62.00")
    use(acme, MARCH + HOUR, bytes_in=10 * GIB)
    refresh(acme, MARCH, TENTH + HOUR)
    real = spent_of

    def spent(tenant_uid: str, now: datetime) -> Spent:
        if tenant_uid == other.uid:
            raise NotFound("its draft cannot be read")
        return real(tenant_uid, now)

    monkeypatch.setattr("workers.spend_caps.enforcement.spent_of", spent)
    assert look(TENTH + HOUR) == 1 and spend(acme) != {}
