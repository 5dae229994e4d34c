"""Costs by label: those of each month, of tenants and of namespaces, in the explorer, in reports and over the API."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from tenants.access import platform_actor
from tenants.models import MonthLabels
from tests.support.billing.billing_rows import APRIL, GIB, MARCH, MAY, tenant_of, use, with_plan
from workers.billing import actions, costs, drafts, reports

pytestmark = pytest.mark.django_db


def label(tenant_uid: str, namespace: str, month: date, **labels: str) -> None:
    MonthLabels.unscoped.create(tenant_uid=tenant_uid, namespace=namespace, month=month, labels=labels)


def test_a_month_keeps_the_labels_that_it_ended_with() -> None:
    acme, globex = tenant_of("acme"), tenant_of("globex")
    with_plan(acme)
    actions.assign_plan(platform_actor(), "globex", "standard", MARCH)
    for tenant in (acme, globex):
        for month in (MARCH, APRIL):
            use(tenant, month + timedelta(days=3), bytes_in=2 * GIB)
            drafts.refresh(tenant, month, MAY + timedelta(days=9))
    label(acme.uid, "acme/orders", date(2000, 1, 1), team="old")
    label(acme.uid, "acme/orders", date(2026, 4, 1), team="new")
    label(acme.uid, "acme/orders", date(2026, 5, 1), team="newest")
    label(globex.uid, "globex/orders", date(2026, 5, 1), team="newest")
    label(acme.uid, "", date(2026, 3, 1), unit="east")
    label(globex.uid, "", date(2026, 4, 1), unit="east", env="prod")

    def by(level: str, step: str) -> dict[tuple[str, int], str]:
        question = costs.Question([acme.uid, globex.uid], date(2026, 3, 1), date(2026, 4, 30), level, step, "EUR")
        answer = costs.ask(question)
        assert sum(answer.totals.values()) == sum(answer.cells.values()) == sum(cell[3] for cell in costs.cells_of(question))
        months: dict[tuple[str, int], int] = {}
        for (name, day), nano in answer.cells.items():
            months[name, day.month] = months.get((name, day.month), 0) + nano
        return {key: costs.nano_text(nano, "EUR") for key, nano in months.items()}

    for step in (costs.DAY, costs.MONTH):
        assert by("label:team", step) == {
            ("old", 3): "1.00", ("new", 4): "1.00", (costs.UNLABELLED, 3): "59.00", (costs.UNLABELLED, 4): "59.00",
        }  # fmt: skip
        assert by("tenant-label:unit", step) == {("east", 3): "30.00", (costs.UNLABELLED, 3): "30.00", ("east", 4): "60.00"}
    assert costs.label_keys([acme.uid, globex.uid]) == ["label:team", "tenant-label:env", "tenant-label:unit"]
    assert [costs.label_title(key) for key in costs.label_keys([acme.uid])] == ["label team", "tenant label unit"]
    rows = reports.rows_of(costs.Question([acme.uid], date(2026, 4, 1), date(2026, 4, 30), "label:team", currency="EUR"))
    assert {(row.name, row.meter): row.cost for row in rows} == {("new", "bytes_in"): "1", (costs.UNLABELLED, "base_fee"): "29"}


@pytest.mark.parametrize("taken", costs.OURS)
def test_a_name_that_is_called_like_one_of_ours_hides_no_costs(taken: str) -> None:
    """Whoever sums up several tenants would miss what one of them labels so."""
    acme = tenant_of()
    with_plan(acme)
    for number, value in enumerate((taken, "a", "b")):
        use(acme, MARCH + timedelta(days=number), topic=f"n{number}/t", bytes_in=2 * GIB)
        label(acme.uid, f"acme/n{number}", date(2026, 3, 1), team=value)
    drafts.refresh(acme, MARCH, MAY)
    question = costs.Question([acme.uid], date(2026, 3, 1), date(2026, 3, 31), "label:team", currency="EUR")
    for names_max in (1, 2, 12):
        answer = costs.ask(question, names_max)
        assert costs.nano_text(answer.total, "EUR") == "32.00" and sum(answer.cells.values()) == answer.total
    assert answer.totals[f'"{taken}"'] == answer.totals["a"] == answer.totals["b"]


FITTING = [("label:x", True), ("tenant-label:x", True), ("key", True), ("label:", False), ("x", False)]


@pytest.mark.parametrize(("by", "fits"), FITTING)
def test_costs_are_summed_by_known_groups_alone(by: str, fits: bool) -> None:
    assert costs.groups_by(by) is fits
