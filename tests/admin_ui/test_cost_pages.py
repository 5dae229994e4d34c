"""Costs and invoices in the console: whose they are, what they add up to, and the files to keep."""

from __future__ import annotations

import csv
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from admin_ui.cost_view import shown_name
from admin_ui.translation.languages import COOKIE
from tenants.models import Key, MonthLabels, Namespace, Tenant
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import Browse, text
from tests.support.billing.billing_rows import APRIL, GIB, HOUR, MARCH, PLAN, use, use_part, with_plan
from workers.billing import charts
from workers.billing.closing import finalize
from workers.billing.costs import FEE_TITLES, OURS
from workers.billing.drafts import refresh
from workers.billing.models import Invoice

CLOSE = APRIL + timedelta(hours=72)
SPAN = {"first": "2026-03-01", "last": "2026-03-31"}


@pytest.fixture
def march(world: ConsoleBroker) -> Invoice:
    """A final invoice of acme; usage of globex, which has no plan."""
    acme, globex = Tenant.unscoped.get(name="acme"), Tenant.unscoped.get(name="globex")
    with_plan(acme)
    use(acme, MARCH, bytes_in=12 * GIB, messages_in=3_000_000)
    use(acme, MARCH + 26 * HOUR, topic="archive/old", bytes_in=GIB)
    use(globex, MARCH, topic="edge/secret", bytes_in=99 * GIB)
    refresh(globex, MARCH, CLOSE)
    draft = refresh(acme, MARCH, CLOSE)
    assert draft is not None
    return finalize(draft.pk, CLOSE)


def costs(client: Client, **query: str) -> str:
    with time_machine.travel(datetime(2026, 4, 20, tzinfo=UTC), tick=False):
        return text(client, "/costs", **{**SPAN, **query})


def test_costs_show_sums_of_tenants_that_are_visible(march: Invoice, browse: Browse) -> None:
    mine = costs(browse("owner"))
    assert "35.70 EUR" in mine and "acme/orders" in mine and "acme/archive" in mine and "globex" not in mine
    assert "6.25" in mine and "29.00" in mine and "12 GiB" in mine
    assert "acme/orders/new" in costs(browse("teammate"), by="topic")
    assert "Bytes published" in costs(browse("owner"), by="meter") and "Base fee" in costs(browse("owner"), by="meter")
    theirs = costs(browse("stranger"))
    assert "globex/edge" in theirs and "acme" not in theirs and "99 GiB" in theirs
    assert "No costs in this span" in costs(browse("stranger"), tenant="acme", namespace="acme/orders")
    assert "globex" in costs(browse("superuser"), by="tenant", currency="")


def test_of_many_tenants_the_page_names_none_and_one_types_a_name(march: Invoice, browse: Browse) -> None:
    """For administrators the page held the name of every tenant, ten thousand of them."""
    Tenant.unscoped.bulk_create(Tenant(name=f"many-{number:03}", admin_roles=[]) for number in range(60))
    with CaptureQueriesContext(connection) as queries:
        page = costs(browse("superuser"))
    assert "many-0" not in page and '<input class="input" name="tenant"' in page
    assert not any("many-059" in query["sql"] for query in queries)
    assert "35.70 EUR" in costs(browse("superuser"), tenant="acme") and "globex" not in costs(browse("superuser"), tenant="acme")
    unknown = costs(browse("superuser"), tenant="any-05")
    assert "no tenant called any-05" in unknown and "tenant=many-051" in unknown and "many-041" not in unknown
    refused = browse("superuser").get("/costs/export", {**SPAN, "tenant": "any-05"}, follow=True).content.decode()
    assert "no tenant called any-05" in refused, "a file of all tenants is not what was asked for"
    assert "many-051" not in costs(browse("owner"), tenant="many-05")


def test_what_was_used_is_said_in_a_unit_that_shows_it_and_in_the_language_of_the_reader(march: Invoice, browse: Browse) -> None:
    acme, owner = Tenant.unscoped.get(name="acme"), browse("owner")
    use(acme, APRIL, topic="archive/little", messages_in=40, bytes_in=1_500, stored_byte_seconds=GIB * 360, messages_out=1)
    refresh(acme, APRIL, APRIL + HOUR)
    little = costs(owner, first="2026-04-01", last="2026-04-02", by="topic")
    for said in ("Messages published 40 messages", "Bytes published 1,500 bytes", "Storage 0.1 GiB-hours"):
        assert said in little
    german = browse("owner")
    german.post("/language", {"language": "de"})
    assert "Veröffentlichte Nachrichten 3 Millionen Nachrichten" in costs(german)
    assert "35,70 EUR" in costs(german) and "40 Nachrichten" in costs(german, first="2026-04-01", last="2026-04-02", by="topic")


def test_a_sum_over_tenants_names_each_currency(march: Invoice, browse: Browse) -> None:
    globex = Tenant.unscoped.get(name="globex")
    with_plan(globex, {**PLAN, "plan": "dollars", "currency": "USD"})
    refresh(globex, MARCH, CLOSE)
    page = costs(browse("superuser"), by="tenant")
    assert "in all currencies 35.70 EUR and 60.70 USD, of which the table shows USD" in page
    assert "in all currencies" not in costs(browse("owner"))
    answer = browse("owner").get("/api/v1/tenants/acme/costs", SPAN).json()
    assert (answer["currency"], answer["total"], answer["totals"]) == ("EUR", "35.70", [{"currency": "EUR", "total": "35.70"}])


def test_costs_of_what_was_deleted_stay(march: Invoice, browse: Browse) -> None:
    assert not Namespace.unscoped.filter(name="acme/archive").exists()  # nor was it ever there: only its usage is
    assert "acme/archive" in costs(browse("owner"))


def test_costs_by_label_and_one_level_down(march: Invoice, browse: Browse) -> None:
    uid = Tenant.unscoped.get(name="acme").uid
    MonthLabels.unscoped.create(tenant_uid=uid, namespace="acme/orders", month=date(2026, 3, 1), labels={"team": "checkout"})
    labelled = costs(browse("owner"), by="label:team")
    assert "By label team" in labelled and "checkout" in labelled and "no label" in labelled
    one = costs(browse("owner"), by="topic", namespace="acme/orders")
    assert "only namespace acme/orders" in one and "archive/old" not in one and "6.25 EUR" in one


def exported(client: Client, **query: str) -> str:
    with time_machine.travel(datetime(2026, 4, 20, tzinfo=UTC), tick=False):
        return text(client, "/costs/export", **{**SPAN, **query})


def test_costs_as_files_add_up_to_what_the_page_shows(march: Invoice, browse: Browse) -> None:
    lines = [json.loads(line) for line in exported(browse("owner"), format="jsonl").splitlines()]
    assert {line["name"] for line in lines} >= {"acme/orders", "acme/archive"} and {line["currency"] for line in lines} == {"EUR"}
    assert f"{sum(Decimal(line['cost']) for line in lines):.2f}" == "35.70"
    rows = list(csv.DictReader(exported(browse("owner"), format="csv").splitlines()))
    assert [tuple(row.values()) for row in rows] == [tuple(line.values()) for line in lines]
    assert rows[0]["from_utc"].startswith("2026-03-"), "each line says in which zone its day begins"
    for who, other in (("owner", "globex"), ("stranger", "acme"), ("owner", "nobody")):
        refused = browse(who).get("/costs/export", {**SPAN, "tenant": other, "format": "csv"})
        assert refused.status_code == 302 and refused["Location"] == "/costs", "as for a tenant that does not exist"
    page = costs(browse("owner"), by="topic")
    assert "/costs/export?first=2026-03-01&amp;last=2026-03-31&amp;by=topic&amp;format=csv" in page


def test_spans_are_compared(march: Invoice, browse: Browse) -> None:
    both = costs(browse("owner"), first="2026-03-02", last="2026-03-02", compare="on")
    assert "2026-03-01 to 2026-03-01" in both and "0.45" in both and "-98.7 %" in both


@pytest.mark.parametrize(
    "query", [{"first": "x"}, {"first": "2020-01-01"}, {"by": "colour"}, {"step": "year"}, {"span": "decade"}, {"currency": "XXX"}]
)
def test_an_address_that_is_wrong_shows_something_right(march: Invoice, browse: Browse, query: dict[str, str]) -> None:
    assert "Costs" in costs(browse("owner"), **query)


def test_an_invoice_leads_down_to_hours_and_runs(march: Invoice, browse: Browse) -> None:
    owner = browse("owner")
    listed = text(owner, "/tenants/acme/invoices")
    assert "2026-000001" in listed and "35.70 EUR" in listed
    where = f"/tenants/acme/invoices/{march.pk}"
    page = text(owner, where)
    assert "Base fee, standard" in page and "10 at 0.5 EUR" in page and "Please pay 35.70 EUR by 2026-05-04" in page
    assert "has not been computed" in page
    down = text(owner, where, line="bytes_in@2026-03-01T00")
    assert "persistent://acme/orders/new" in down and "run-1" in down and "2026-03-01T00:00:00Z" in down
    assert owner.get(where, {"line": "nothing"}).status_code == 404


def test_an_invoice_as_files(march: Invoice, browse: Browse) -> None:
    owner, where = browse("owner"), f"/tenants/acme/invoices/{march.pk}"
    pdf = owner.get(f"{where}/pdf")
    assert pdf["Content-Type"] == "application/pdf" and pdf["Content-Disposition"] == 'attachment; filename="2026-000001.pdf"'
    assert pdf.content.startswith(b"%PDF-") and pdf.content == owner.get(f"{where}/pdf").content
    page = owner.get(f"{where}/html").content.decode()
    assert "2026-000001" in page and "35.70 EUR" in page and "acme/orders" in page
    assert owner.get(f"{where}/json").json() == march.document


def test_invoices_of_others_are_not_there(march: Invoice, browse: Browse) -> None:
    for path in ("", "/pdf", "/html", "/json"):
        assert browse("stranger").get(f"/tenants/acme/invoices/{march.pk}{path}").status_code == 404
        assert browse("stranger").get(f"/tenants/globex/invoices/{march.pk}{path}").status_code == 404
        assert browse("teammate").get(f"/tenants/acme/invoices/{march.pk}{path}").status_code == 403


def test_stacked_columns_fill_their_height() -> None:
    days = [date(2026, 3, 1), date(2026, 3, 2)]
    chart = charts.stacked(days, ["a", "b"], {("a", days[0]): 30, ("b", days[0]): 10, ("a", days[1]): 20, ("b", days[1]): -5}, {})
    assert chart.highest == 40
    assert [(bar.series, bar.y, bar.height) for bar in chart.bars] == [
        (1, 55.0, 165.0), (2, 0.0, 55.0), (1, 110.0, 110.0),
    ]  # fmt: skip
    assert [label.text for label in chart.labels] == ["03-01", "03-02"]
    assert charts.stacked([], ["a"], {}, {}).bars == () and charts.stacked(days, [], {}, {}).highest == 0


def test_days_before_all_calendars_are_those_of_this_month(march: Invoice, browse: Browse) -> None:
    for query in ({}, {"step": "month"}, {"compare": "on"}):
        assert 'value="2026-04-01"' in costs(browse("owner"), first="0001-01-01", last="0001-01-01", **query)


def test_labels_of_a_tenant_are_set_on_its_page(world: ConsoleBroker, browse: Browse) -> None:
    owner, address = browse("owner"), "/tenants/acme/labels"
    assert owner.post(address, {"labels": "team=payments\n\n cost centre = 7 "}).status_code == 302
    assert Tenant.unscoped.get(name="acme").labels == {"team": "payments", "cost centre": "7"}
    assert "team=payments" in text(owner, "/tenants/acme") and "cost centre=7" in text(owner, address)
    for wrong, why in (("team", "is not like"), ("a=1\na=2", "is there twice"), ("a=" + 300 * "x", "255 are allowed")):
        assert why in owner.post(address, {"labels": wrong}).content.decode()
    assert browse("teammate").post(address, {"labels": ""}).status_code == 403
    assert Tenant.unscoped.get(name="acme").labels["team"] == "payments"


def test_costs_by_key_are_shown_by_role_one_level_above_topics(world: ConsoleBroker, browse: Browse) -> None:
    acme = Tenant.unscoped.get(name="acme")
    with_plan(acme)
    use(acme, MARCH, bytes_in=12 * GIB, api_calls=40)
    key = Key.unscoped.create(id="f" * 32, name="app", role="app@acme", tenant_id="acme")
    use_part(acme, MARCH, "", key.id, bytes_in=12 * GIB, api_calls=30)
    refresh(acme, MARCH, CLOSE)
    page = costs(browse("owner"), by="key")
    assert "app@acme (ffffffff)" in page and "nobody in particular" in page and "30 call" in page
    assert f"by=topic&amp;key={key.id}" in page
    assert "12 GiB" in costs(browse("owner"), by="topic", key=key.id)


def test_names_of_ours_among_costs_are_german(march: Invoice, browse: Browse) -> None:
    """Fees, what has no name, titles of fees and the word between two sums were English."""
    with translation.override("de"):
        for name in (*OURS, *FEE_TITLES):
            by = "meter" if name in FEE_TITLES else "namespace"
            assert shown_name(name, by, {}) not in (name, FEE_TITLES.get(name)), name
        assert shown_name("acme/orders", "namespace", {}) == "acme/orders"
    with_plan(Tenant.unscoped.get(name="globex"), {**PLAN, "plan": "dollars", "currency": "USD"})
    refresh(Tenant.unscoped.get(name="globex"), MARCH, CLOSE)
    german = browse("superuser")
    german.cookies[COOKIE] = "de"
    page = costs(german)
    assert "Gebühren und anderes" in page and "fees and other" not in page
    assert "35,70 EUR und 60,70 USD" in page
