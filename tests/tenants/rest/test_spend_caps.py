"""Spend caps over our API, as each person has them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from tenants.models import Tenant
from tests.support.billing.billing_rows import GIB, HOUR, MARCH, use, with_plan
from tests.tenants.world import World
from workers.billing.drafts import refresh

AT = "/api/v1/tenants/acme/spend-caps"
CAP = {"amount": "50.00", "currency": "EUR", "action": "stop"}
TENTH = MARCH + timedelta(days=10)


@pytest.fixture
def acme(world: World) -> Any:
    tenant = Tenant.unscoped.get(name="acme")
    with_plan(tenant)
    for day in range(10):
        use(tenant, MARCH + day * 24 * HOUR, bytes_in=10 * GIB)
    refresh(tenant, MARCH, TENTH)
    with time_machine.travel(TENTH + HOUR, tick=False):
        yield tenant


def test_a_tenant_sets_its_own_and_cannot_lift_the_platforms(acme: Tenant, caller: Any, call: Any) -> None:
    olga, tom, stranger = caller("olga"), caller("tom"), caller("sam")
    assert olga("GET", AT).json() == {
        "month": "2026-03-01", "spent": "61.00", "currency": "EUR", "usage_until": "2026-03-10T01:00:00Z", "unknown": "",
        "stopped": "", "throttled_to": {}, "caps": [],
    }  # fmt: skip
    set_by_platform = call("PUT", f"{AT}/platform", CAP)
    assert set_by_platform.status_code == 200 and set_by_platform.json()["reached"] is True
    for method, body in (("PUT", {**CAP, "amount": "500.00"}), ("DELETE", None)):
        assert olga(method, f"{AT}/platform", body).status_code == 403
        assert tom(method, f"{AT}/tenant", body).status_code == 403
        assert stranger(method, f"{AT}/tenant", body).status_code == 404
    assert tom("GET", AT).status_code == 403 and stranger("GET", AT).status_code == 404
    throttles = {**CAP, "action": "throttle", "amount": "100", "publish_rate_messages": 7}
    own = olga("PUT", f"{AT}/tenant", throttles)
    assert own.status_code == 200 and (own.json()["set_by"], own.json()["publish_rate_messages"]) == ("tenant", 7)
    assert olga("GET", f"{AT}/tenant").json() == own.json() and olga("GET", f"{AT}/platform").json()["amount"] == "50.00"
    shown = olga("GET", AT).json()
    assert [(cap["set_by"], cap["used_percent"], cap["reached"]) for cap in shown["caps"]] == [
        ("platform", 122, True),
        ("tenant", 61, False),
    ]
    assert "spend cap of 50.00 EUR for March 2026, set by the platform" in shown["stopped"]
    assert olga("DELETE", f"{AT}/tenant").status_code == 204 and olga("DELETE", f"{AT}/tenant").status_code == 404
    assert call("DELETE", f"{AT}/platform").status_code == 204
    assert olga("GET", AT).json()["stopped"] == ""


@pytest.mark.parametrize(
    "wrong", [{"amount": "0"}, {"currency": "XXX"}, {"action": "warn"}, {"publish_rate_messages": 5}, {"rate": 1}]
)
def test_what_is_wrong_is_refused(acme: Tenant, caller: Any, wrong: dict[str, Any]) -> None:
    assert caller("olga")("PUT", f"{AT}/tenant", {**CAP, **wrong}).status_code == 400


def test_what_is_not_known_is_said_to_be(world: World, caller: Any) -> None:
    olga = caller("olga")
    assert olga("PUT", f"{AT}/tenant", CAP).json()["used_percent"] is None
    shown = olga("GET", AT).json()
    assert (shown["spent"], shown["usage_until"], shown["stopped"]) == (None, None, "")
    assert shown["unknown"] == "nothing of the month has been billed yet" == shown["caps"][0]["unknown"]
