"""What figures are based on: reached from costs and invoices; everybody sees findings of their own tenants alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from spark_jobs.inputs import write_inputs
from spark_jobs.plan import Manifest
from tenants.models import Tenant
from tests.admin_ui.pages import Browse, text
from workers.billing.models import Invoice
from workers.findings.models import UsageFinding
from workers.models import UsagePartition, UsageRun

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
MARCH = {"first": "2026-03-01", "last": "2026-03-31"}


def finding(run: UsageRun, tenant: str, **fields: Any) -> None:
    uid = Tenant.unscoped.get(name=tenant).uid if tenant else ""
    defaults = {"hour": NOON, "source": "b1", "boot_epoch": 7, "topic": f"persistent://{tenant}/orders/new", "meter": "bytes_in"}
    UsageFinding.unscoped.create(run=run, tenant=tenant, tenant_uid=uid, **(defaults | fields))


def quarantine(run: UsageRun, tenant: str, row: int) -> None:
    finding(
        run, tenant, kind="quarantined", reason="invalid: a negative number", file="date=2026-03-04/hour=12/f.parquet",
        row=row, record={"value": -5, "tenant": tenant, "key": f"key-of-{tenant}-{row}"},
    )  # fmt: skip


@pytest.fixture
def run(world: object) -> UsageRun:
    found = UsageRun.objects.create(
        run_id="run-17", outcome="succeeded", requested_at=NOON, finished_at=NOON, quarantined=3, holes=3, files=60,
        message="what all tenants had", requested_by="user:somebody",
        detail={"rows_read": 4711, "rejected_files": {"bad.parquet": "x"}},
    )  # fmt: skip
    UsagePartition.objects.create(hour=NOON, run=found, checksum="c", inputs="i", rows=3, updated_at=NOON)
    quarantine(found, "acme", 12)
    quarantine(found, "globex", 13)
    quarantine(found, "", 14)
    finding(found, "acme", kind="hole", from_at=NOON, until_at=NOON + timedelta(minutes=2), first_missing=3, last_missing=4,
            missing_value=987_654)  # fmt: skip
    finding(found, "globex", kind="hole", until_at=NOON, first_missing=0, last_missing=1, missing_value=123_456)
    finding(found, "", kind="outage", topic="", meter="", from_at=NOON - timedelta(minutes=1), until_at=NOON + timedelta(minutes=1))
    folder = Path(django_settings.MAGNETAR.data_dir).absolute() / "usage" / "hours"
    minute_ms = int(NOON.timestamp() * 1000)
    manifests = [
        Manifest(
            Path("gone"), f"hour=12/{at:03}.parquet", f"{at:064x}", 1_000 + at, minute_ms, minute_ms + 60_000, {}, "b1", 7, ()
        )
        for at in range(60)
    ]  # fmt: skip
    write_inputs(manifests, str(folder), "run-17")
    return found


def test_an_administrator_sees_every_row(run: UsageRun, browse: Browse) -> None:
    page = text(browse("superuser"), "/usage/runs/run-17")
    for shown in (
        "key-of-acme-12", "key-of-globex-13", "key-of--14", "987654", "123456", "4,711", "bad.parquet", "user:somebody",
        "everything on the broker", "what all tenants had", "hour=12/000.parquet", "1,000", "hour=12/049.parquet",
    ):  # fmt: skip
        assert shown in page, shown
    assert "hour=12/050.parquet" not in page
    second = text(browse("superuser"), "/usage/runs/run-17", files="2")
    assert "hour=12/050.parquet" in second and "hour=12/049.parquet" not in second and "Page 2 of 2" in second
    assert "hour=12/050.parquet" in text(browse("superuser"), "/usage/runs/run-17", files="99999", records="no", holes="-1")


@pytest.mark.parametrize("person", ["owner", "teammate"])
def test_others_see_the_rows_of_their_tenants_alone(run: UsageRun, browse: Browse, person: str) -> None:
    page = text(browse(person), "/usage/runs/run-17")
    for shown in ("key-of-acme-12", "987654", "everything on the broker", "hour=12/000.parquet"):
        assert shown in page, shown
    for hidden in ("globex", "key-of--14", "123456", "4,711", "bad.parquet", "user:somebody", "what all tenants had", "1,000"):
        assert hidden not in page, hidden


def test_a_stranger_sees_none_of_them(run: UsageRun, browse: Browse) -> None:
    page = text(browse("stranger"), "/usage/runs/run-17")
    assert "acme" not in page and "987654" not in page and "key-of--14" not in page
    assert "key-of-globex-13" in page  # theirs
    assert browse("").get("/usage/runs/run-17").status_code == 302
    assert browse("stranger").get("/usage/runs/run-18").status_code == 404
    assert browse("owner").get("/usage/runs").status_code == 403


def test_an_administrator_without_a_second_factor_sees_nothing_of_who_requires_one(run: UsageRun, browse: Browse) -> None:
    """Runs and what figures are based on were shown to administrators whole, as the rows of all tenants are theirs to see."""
    Tenant.unscoped.filter(name="globex").update(second_factor_required=True)
    for page in (text(browse("superuser"), "/usage/runs/run-17"), text(browse("superuser"), "/usage", day="2026-03-04")):
        assert "globex" not in page and "123456" not in page
    assert "key-of-acme-12" in text(browse("superuser"), "/usage/runs/run-17")
    assert "1 quarantined record, 1 hole in single series" in text(browse("superuser"), "/costs", **MARCH)


def test_figures_say_what_they_are_based_on(run: UsageRun, browse: Browse) -> None:
    mine = text(browse("owner"), "/costs", **MARCH)
    assert "1 usage run</a>: 60 files, 1 quarantined record, 1 hole in single series, 1 outage of brokers" in mine
    every = text(browse("superuser"), "/costs", **MARCH)
    assert "60 files, 3 quarantined records, 2 holes in single series, 1 outage" in every
    one = text(browse("superuser"), "/costs", **MARCH, tenant="acme")
    assert "60 files, 1 quarantined record, 1 hole " in one
    assert "0 usage runs</a>: 0 files, 0 quarantined records" in text(
        browse("owner"), "/costs", first="2026-04-01", last="2026-04-02"
    )


def test_the_runs_behind_a_span(run: UsageRun, browse: Browse) -> None:
    mine = text(browse("owner"), "/usage/evidence", **MARCH)
    assert '/usage/runs/run-17"' in mine and "1 quarantined record, 1 hole, 1 outage" in mine and "Outages" in mine
    assert "1 quarantined record, 1 hole" in text(
        browse("owner"), "/usage/evidence", **MARCH, tenant="globex"
    )  # not theirs: acme's
    assert "3 quarantined records, 2 holes" in text(browse("superuser"), "/usage/evidence", **MARCH)
    later = UsageRun.objects.create(run_id="run-18", outcome="succeeded", requested_at=NOON, finished_at=NOON, files=61)
    UsagePartition.objects.update(run=later)
    now = text(browse("owner"), "/usage/evidence", **MARCH)
    assert "run-18" in now and "run-17" not in now and "0 quarantined records, 0 holes" in now  # of the version in force


def test_an_invoice_names_the_runs_that_it_was_made_of(run: UsageRun, browse: Browse) -> None:
    tenant = Tenant.unscoped.get(name="acme")
    invoice = Invoice.unscoped.create(
        tenant="acme", tenant_uid=tenant.uid, start=datetime(2026, 3, 1, tzinfo=UTC), end=datetime(2026, 4, 1, tzinfo=UTC),
        currency="EUR", total_minor=0, made_at=NOON, document={"hours": [{"hour": "2026-03-04T12", "run": "run-17"}]},
    )  # fmt: skip
    UsagePartition.objects.all().delete()
    page = text(browse("owner"), "/usage/evidence", tenant="acme", invoice=invoice.id)
    assert "run-17" in page and "1 quarantined record, 1 hole" in page and "Invoice draft of acme" in page
    assert browse("stranger").get("/usage/evidence", {"tenant": "acme", "invoice": invoice.id}).status_code == 404
