"""Labels of tenants, and of namespaces by their properties: who sets them, what the audit log says, and which month has which."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest
import time_machine

from tenants import actions
from tenants.models import AuditRecord, MonthLabels, Tenant
from tests.tenants.world import Caller, World

A = "/api/v1/tenants/acme/labels"
Call = Callable[[str], Caller]


def at(year: int, month: int, day: int = 15) -> Any:
    return time_machine.travel(datetime(year, month, day, 12, tzinfo=UTC), tick=False)


def months(namespace: str) -> dict[date, dict[str, str]]:
    uid = Tenant.unscoped.get(name="acme").uid
    return dict(MonthLabels.unscoped.filter(tenant_uid=uid, namespace=namespace).values_list("month", "labels"))


def test_owners_set_labels_and_others_do_not(world: World, caller: Call) -> None:
    assert caller("olga")("PUT", A, {"labels": {"team": "payments", "cost centre": "7"}}).status_code == 200
    assert caller("tom")("GET", A).json() == {"labels": {"cost centre": "7", "team": "payments"}}
    assert caller("tom")("PUT", A, {"labels": {}}).status_code == 403
    for method in ("GET", "PUT"):
        assert caller("sam")(method, A, {"labels": {}}).status_code == 404
    record = AuditRecord.unscoped.get(action="tenant.set_labels")
    assert (record.role, record.tenant, record.before) == ("user:olga", "acme", {"labels": {}})
    assert record.after == {"labels": {"cost centre": "7", "team": "payments"}}


WRONG = [{"": "x"}, {"x": ""}, {" x": "y"}, {"x": "a\nb"}, {"x": "y" * 256}, {str(number): "v" for number in range(51)}]


@pytest.mark.parametrize("labels", WRONG)
def test_labels_that_are_not_valid_change_nothing(world: World, caller: Call, labels: dict[str, str]) -> None:
    assert caller("olga")("PUT", A, {"labels": labels}).status_code == 400
    assert Tenant.unscoped.get(name="acme").labels == {} and not months("")


def test_a_change_counts_for_its_month_and_later_ones(world: World) -> None:
    olga = world.actor("olga")
    with at(2026, 3):
        actions.set_labels(olga, "acme", {"team": "a"})
        actions.set_labels(olga, "acme", {"team": "b"})
        actions.set_labels(olga, "acme", {"team": "b"})
    with at(2026, 4):
        actions.set_labels(olga, "acme", {"team": "b"})
    with at(2026, 5, 1):
        actions.set_labels(olga, "acme", {})
    assert months("") == {date(2026, 3, 1): {"team": "b"}, date(2026, 5, 1): {}}


def test_properties_of_a_namespace_are_its_labels_also_after_it_was_deleted(world: World) -> None:
    olga, name = world.actor("olga"), "acme/fresh"
    with at(2026, 3):
        actions.create_namespace(olga, name, {"properties": {"team": "a"}})
    with at(2026, 4):
        actions.set_property(olga, name, "env", "test")
        actions.set_policies(olga, name, {"message_ttl_s": 60})
        actions.delete_namespace(olga, name)
    assert months(name) == {date(2026, 3, 1): {"team": "a"}, date(2026, 4, 1): {"env": "test", "team": "a"}}
    with at(2026, 5):
        actions.create_namespace(olga, name)
    assert months(name)[date(2026, 5, 1)] == {} and not months("acme/orders")
