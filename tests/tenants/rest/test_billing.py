"""The billing API as each person has it, from a price plan to an invoice that its customer checks with what they downloaded."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from controlplane.cli import main
from tenants.models import AuditRecord, Tenant
from tests.support.billing.billing_rows import APRIL, GIB, HOUR, MARCH, PLAN, run_of, tenant_of, use
from tests.tenants.world import World
from workers.billing import drilldown
from workers.billing.closing import finalize
from workers.billing.drafts import refresh
from workers.billing.models import Invoice
from workers.models import TaskRun
from workers.schedule import MAKE_INVOICES

A = "/api/v1/tenants/acme"
CLOSE = APRIL + timedelta(hours=72)


@pytest.fixture
def invoice(world: World, caller: Any) -> Invoice:
    """A final invoice of acme for March, made over the API as far as it goes."""
    admin = caller("admin")
    assert admin("POST", "/api/v1/price-plans", {"document": PLAN}).status_code == 201
    assert admin("POST", f"{A}/billing/plans", {"plan": "standard", "starts_at": MARCH.isoformat()}).status_code == 201
    assert (
        admin("PATCH", f"{A}/billing", {"details": {"name": "Acme GmbH"}, "tax_label": "VAT", "tax_rate": "19"}).status_code == 200
    )
    assert admin("POST", f"{A}/billing/credits", {"title": "Welcome", "currency": "EUR", "amount": "5.00"}).status_code == 201
    assert admin("PUT", "/api/v1/billing/issuer", {"details": {"name": "Magnetar Ltd"}}).status_code == 200
    acme = Tenant.unscoped.get(name="acme")
    use(acme, MARCH, bytes_in=12 * GIB, messages_in=3_000_000)
    use(acme, MARCH + HOUR, topic="sensors/heat", bytes_in=GIB)
    use(Tenant.unscoped.get(name="other"), MARCH, bytes_in=99 * GIB)
    draft = refresh(acme, MARCH, CLOSE)
    assert draft is not None
    return finalize(draft.pk, CLOSE)


def test_an_owner_reads_their_invoices_and_nobody_else_does(invoice: Invoice, caller: Any) -> None:
    owner = caller("olga")
    [row] = owner("GET", f"{A}/invoices").json()["items"]
    assert (row["number"], row["state"], row["total"], row["currency"]) == ("2026-000001", "final", "36.53", "EUR")
    document = owner("GET", f"{A}/invoices/2026-000001").json()
    assert document == owner("GET", f"{A}/invoices/{row['id']}").json() == invoice.document
    assert document["customer"]["name"] == "Acme GmbH" and document["supplier"]["name"] == "Magnetar Ltd"
    assert caller("tom")("GET", f"{A}/invoices").status_code == 403
    assert caller("sam")("GET", f"{A}/invoices/2026-000001").status_code == 404
    assert caller("sam")("GET", f"/api/v1/tenants/other/invoices/{row['id']}").status_code == 404
    assert caller("sam")("GET", "/api/v1/tenants/other/invoices").json()["items"] == []


def test_a_line_leads_to_its_topics_hours_and_runs(invoice: Invoice, caller: Any) -> None:
    found = caller("olga")("GET", f"{A}/invoices/{invoice.pk}/lines/bytes_in@2026-03-01T00/usage").json()
    assert [(one["topic"], one["quantity"], one["amount"]) for one in found["topics"]] == [
        ("persistent://acme/orders/new", 12 * GIB, "5.45"), ("persistent://acme/sensors/heat", GIB, "0.45"),
    ]  # fmt: skip
    assert [(one["hour"], one["run"], one["quantity"]) for one in found["hours"]] == [
        ("2026-03-01T00:00:00Z", "run-1", 12 * GIB), ("2026-03-01T01:00:00Z", "run-1", GIB),
    ]  # fmt: skip
    assert [one["run"] for one in found["runs"]] == ["run-1"]
    with patch.object(drilldown, "TOPICS_MAX", 1):
        cut = caller("olga")("GET", f"{A}/invoices/{invoice.pk}/lines/bytes_in@2026-03-01T00/usage").json()
    assert (len(cut["topics"]), cut["topics_left"], found["topics_left"]) == (1, 1, 0)
    fee = caller("olga")("GET", f"{A}/invoices/{invoice.pk}/lines/base_fee@2026-03-01T00/usage").json()
    assert fee == {"line": "base_fee@2026-03-01T00", "hours": [], "topics": [], "topics_left": 0, "runs": []}
    assert caller("olga")("GET", f"{A}/invoices/{invoice.pk}/lines/x/usage").status_code == 404


def test_a_customer_checks_an_invoice_with_what_they_downloaded(invoice: Invoice, caller: Any, tmp_path: Path) -> None:
    owner = caller("olga")
    response = owner("GET", f"{A}/usage/parquet?first=2026-03-01&last=2026-03-31")
    assert response["Content-Type"] == "application/vnd.apache.parquet"
    usage, paper, plan = (tmp_path / name for name in ("usage.parquet", "invoice.json", "plan.json"))
    usage.write_bytes(b"".join(response.streaming_content))
    paper.write_bytes(owner("GET", f"{A}/invoices/2026-000001").content)
    plan.write_text(json.dumps(PLAN))

    def verify(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["usage", "verify", "--invoice", str(paper), *arguments])
        return done.exit_code, done.output

    code, said = verify("--plan", str(plan), str(usage))
    assert code == 0, said
    assert "The invoice is right." in said and "2 rows of usage" in said
    document = json.loads(paper.read_text())
    document["lines"][1]["amount"] = "7.00"
    paper.write_text(json.dumps(document))
    code, said = verify(str(usage))
    assert code == 1 and "differs: bytes_in@2026-03-01T00: it bills 7.00 EUR, 5.90 EUR is due; the line was changed" in said
    assert verify(str(plan))[0] == 2  # no Parquet
    assert verify(str(tmp_path / "none.parquet"))[0] == 2


def test_usage_of_each_day_sums_to_what_was_billed_to_the_last_byte(invoice: Invoice, caller: Any) -> None:
    march = "first=2026-03-01&last=2026-03-31"

    def lines(query: str = "", who: str = "tom") -> list[dict[str, Any]]:
        answer = caller(who)("GET", f"{A}/usage/days?{march}&format=jsonl{query}")
        assert (answer.status_code, answer["Content-Type"]) == (200, "application/jsonl")
        return [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]

    billed = {line["meter"]: line["quantity"] for line in invoice.document["lines"] if line.get("meter")}
    for level in ("tenant", "namespace", "topic"):
        found = lines(f"&by={level}")
        assert {meter: sum(line[meter] for line in found) for meter in billed} == {key: int(text) for key, text in billed.items()}
        assert {line["hours_computed"] for line in found} == {1}, "of the 24 hours of the day; the run began with the second"
    assert [(line["namespace"], line["topic"]) for line in lines()] == [("acme/orders", ""), ("acme/sensors", "")]
    use(Tenant(name="acme", uid=Tenant.unscoped.get(name="acme").uid), MARCH + 24 * HOUR, topic="orders/=SUM(A1)", bytes_in=1)
    csv = b"".join(caller("tom")("GET", f"{A}/usage/days?{march}&by=topic").streaming_content).decode()
    assert csv.startswith("day_utc,hours_computed,tenant,namespace,topic,messages_in,bytes_in")
    assert f"2026-03-01,1,acme,acme/orders,persistent://acme/orders/new,3000000,{12 * GIB}" in csv
    for wrong in ("by=key", "format=xml", "first=x"):
        assert caller("tom")("GET", f"{A}/usage/days?{wrong}").status_code == 400
    assert caller("sam")("GET", f"{A}/usage/days").status_code == 404
    assert lines(who="olga") and "other" not in csv


def test_drafts_are_computed_when_somebody_asks_one_run_at_a_time(world: World, caller: Any) -> None:
    at, owner = f"{A}/billing/drafts", caller("olga")
    assert owner("GET", at).json()["under_way"] is False
    answer = owner("POST", at)
    assert (answer.status_code, answer.json()["under_way"]) == (202, True), answer.content
    assert owner("POST", at).json() == answer.json(), "the run that waits is the answer"
    run = TaskRun.objects.get(name=MAKE_INVOICES)
    assert run.requested_by == "user:olga" and AuditRecord.unscoped.filter(action="invoice.compute").count() == 2
    now = datetime.now(UTC)
    TaskRun.objects.filter(pk=run.pk).update(outcome="running", progress={"drafts": 7})
    assert owner("GET", at).json()["drafts_done"] == 7 and owner("POST", at).status_code == 202
    TaskRun.objects.filter(pk=run.pk).update(outcome="succeeded", finished_at=now)
    again = owner("POST", at)
    assert again.status_code == 412 and "ask again in" in again.json()["detail"]
    TaskRun.objects.filter(pk=run.pk).update(finished_at=now - timedelta(minutes=2), started_at=now - timedelta(minutes=3))
    assert owner("POST", at).json()["under_way"] and TaskRun.objects.filter(name=MAKE_INVOICES).count() == 2
    assert caller("tom")("POST", at).status_code == 403 and caller("sam")("POST", at).status_code == 404


def test_usage_of_a_former_tenant_of_the_name_is_not_in_the_file(invoice: Invoice, caller: Any) -> None:
    former = Tenant(name="acme", uid="0" * 32)
    use(former, MARCH, topic="orders/secret", bytes_in=7)
    assert b"secret" not in b"".join(caller("olga")("GET", f"{A}/usage/parquet?first=2026-03-01&last=2026-03-31").streaming_content)


@pytest.mark.parametrize(
    "query", ["first=2026-03-32", "first=2026-03-02&last=2026-03-01", "first=2020-01-01&last=2026-01-01", "last=9999-12-31"]
)
def test_a_span_that_is_wrong_is_refused(world: World, caller: Any, query: str) -> None:
    assert caller("olga")("GET", f"{A}/usage/parquet?{query}").status_code == 400


def test_costs_by_what_they_are_for(invoice: Invoice, caller: Any) -> None:
    teammate = caller("tom")
    march = "first=2026-03-01&last=2026-03-31&step=month"

    def costs(by: str) -> dict[str, str]:
        return {one["name"]: one["cost"] for one in teammate("GET", f"{A}/costs?{march}&by={by}").json()["items"]}

    assert costs("namespace") == {"acme/orders": "6.25", "acme/sensors": "0.45", "fees and other": "29.00"}
    assert costs("meter") == {"bytes_in": "5.90", "messages_in": "0.80", "base_fee": "29.00"}
    assert costs("label:team") == {"no label": "35.70"}
    assert teammate("GET", f"{A}/costs?{march}").json()["total"] == "35.70"
    assert teammate("GET", f"{A}/costs?by=colour").status_code == 400
    assert teammate("GET", f"{A}/costs?step=year").status_code == 400


def test_administrators_take_back_what_was_wrong(invoice: Invoice, caller: Any) -> None:
    body = {"note": "An outage", "amounts": {"bytes_in@2026-03-01T00": "1.00"}}
    assert caller("olga")("POST", f"{A}/invoices/2026-000001/credit-notes", body).status_code == 403
    note = caller("admin")("POST", f"{A}/invoices/2026-000001/credit-notes", body).json()
    # 1.00 of 35.70, of which a credit paid 5.00: 0.14 come back as credit, and 0.86 with 19 % of tax.
    assert (note["kind"], note["number"], note["total"]) == ("credit_note", "2026-000002", "-1.02")
    actions = set(AuditRecord.unscoped.values_list("action", flat=True))
    assert {"price_plan.publish", "price_plan.assign", "billing.account", "billing.credit", "invoice.take_back"} <= actions


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/v1/price-plans", {"document": {**PLAN, "prices": "x"}}, 400),
        ("/api/v1/price-plans", {"document": {**PLAN, "version": 2}}, 409),
        (f"{A}/billing/plans", {"plan": "none", "starts_at": "2026-03-01T00:00:00Z"}, 404),
        (f"{A}/billing/plans", {"plan": "standard", "starts_at": "2026-03-01T00:30:00Z"}, 400),
        (f"{A}/billing/plans", {"plan": "standard", "starts_at": "0001-01-01T00:00:00+14:00"}, 400),
        (f"{A}/billing/credits", {"title": "t", "currency": "XXX", "amount": "1"}, 400),
        (f"{A}/billing/credits", {"title": "t", "currency": "EUR", "amount": "0"}, 400),
        (f"{A}/billing/credits", {"title": "t", "currency": "EUR", "amount": "0.001"}, 400),
    ],
)
def test_what_is_wrong_is_refused(world: World, caller: Any, path: str, body: Any, status: int) -> None:
    assert caller("admin")("POST", path, body).status_code == status


def test_an_account_takes_only_what_is_printed(world: World, caller: Any) -> None:
    admin = caller("admin")
    assert "unknown" in admin("PATCH", f"{A}/billing", {"details": {"colour": "red"}}).json()["detail"]
    assert admin("PATCH", f"{A}/billing", {"tax_rate": "101"}).status_code == 400
    assert admin("PATCH", f"{A}/billing", {"tax_rate": "a"}).status_code == 400
    run_of("run", MARCH)
    tenant_of("third")
    assert admin("GET", "/api/v1/tenants/third/billing").json()["tax_rate"] == "0"
