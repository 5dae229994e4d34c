"""What a run left out becomes rows: of the tenant whose it is, or of nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from messaging.usage_schema import series_name
from spark_jobs.config import HourResult, Result, SequenceGap, quarantine_directory
from spark_jobs.plan import HOUR_MS, hour_name
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.findings import load
from workers.findings.load import named_by, note_findings
from workers.findings.models import UsageFinding
from workers.findings.outages import Outage
from workers.models import UsageRun
from workers.usage_pieces import Pieces

pytestmark = pytest.mark.django_db
MINUTE_MS = 60_000
NOON_MS = 1_795_262_400_000  # 2026-11-21 12:00 UTC
NOON = datetime.fromtimestamp(NOON_MS / 1000, UTC)
TOPIC = "persistent://acme/orders/new"
RESULT = Result("r1", hours=(HourResult(hour_name(NOON_MS), "", 0, "", {}),))


@pytest.fixture
def run(db: None) -> Iterator[UsageRun]:
    for name, uid in (("acme", "u1"), ("globex", "u2")):
        Tenant.unscoped.create(name=name, uid=uid)
    Tenant.unscoped.update(created_at=NOON)
    with platform_scope():
        yield UsageRun.objects.create(run_id="r1", requested_at=NOON)


def quarantined(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "source": "b1", "boot_epoch": 7, "series": series_name("messages_in", "u1", TOPIC), "seq": 3, "tenant": "acme",
        "namespace": "acme/orders", "topic": TOPIC, "meter": "messages_in", "value": -5, "tenant_uid": "u1", "file": "f.parquet",
        "row": 12, "reason": "invalid", "detail": "a negative number", "hour": hour_name(NOON_MS),
    }  # fmt: skip
    return fields | changes


def noted(run: UsageRun, tmp_path: Path, *records: dict[str, Any]) -> list[UsageFinding]:
    folder = quarantine_directory(tmp_path, "r1")
    folder.mkdir(exist_ok=True)
    (folder / "hour.json").write_text("".join(json.dumps(record) + "\n" for record in records))
    note_findings(Pieces(run, lambda: None), RESULT, tmp_path, [])
    return list(UsageFinding.unscoped.order_by("id"))


def test_a_quarantined_record_says_where_it_is_and_whose(run: UsageRun, tmp_path: Path) -> None:
    (finding,) = noted(run, tmp_path, quarantined())
    assert (finding.kind, finding.tenant, finding.tenant_uid, finding.topic, finding.meter) == (
        "quarantined", "acme", "u1", TOPIC, "messages_in",
    )  # fmt: skip
    assert (finding.reason, finding.file, finding.row, finding.hour) == ("invalid: a negative number", "f.parquet", 12, NOON)
    assert finding.record["value"] == -5 and "reason" not in finding.record


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant": "globex"},
        {"namespace": "globex/orders"},
        {"topic": "persistent://globex/orders/new"},
        {"tenant_uid": "u2"},
        {"series": series_name("messages_in", "u2", TOPIC)},
        {"series": series_name("messages_in", "u1", "persistent://globex/orders/new")},
        {"tenant": None},
        {"series": None},
        {"tenant": "globex", "tenant_uid": "", "namespace": "", "topic": ""},
        {"tenant_uid": "of nobody", "series": series_name("messages_in", "of nobody", TOPIC)},
    ],
)
def test_a_record_that_does_not_fit_together_is_nobodys(run: UsageRun, tmp_path: Path, changes: dict[str, Any]) -> None:
    (finding,) = noted(run, tmp_path, quarantined(**changes))
    assert finding.tenant_uid == ""


def test_an_old_record_is_of_the_tenant_that_was_there_then(run: UsageRun, tmp_path: Path) -> None:
    old = {"tenant_uid": "", "series": series_name("messages_in", "", TOPIC)}
    before = hour_name(NOON_MS - HOUR_MS)
    now, earlier = noted(run, tmp_path, quarantined(**old), quarantined(**old, hour=before))
    assert (now.tenant_uid, earlier.tenant_uid) == ("u1", "")


def test_holes_have_bounds_and_owners(run: UsageRun, tmp_path: Path) -> None:
    at = NOON_MS + 20 * MINUTE_MS
    gaps = (
        SequenceGap("b1", 7, series_name("bytes_in", "u1", TOPIC), 3, 4, 100, at, at + 2 * MINUTE_MS),
        SequenceGap("b1", 7, series_name("connections", "u2", "", "", "key"), 0, 4, None, 0, at),
    )
    result = Result("r1", hours=RESULT.hours, holes=gaps)
    outages = [Outage("b1", 6, NOON_MS - 5, at), Outage("b1", 5, NOON_MS - HOUR_MS - 9, NOON_MS - HOUR_MS)]
    assert note_findings(Pieces(run, lambda: None), result, tmp_path, outages) == 1
    assert note_findings(Pieces(run, lambda: None), result, tmp_path, outages) == 1  # once more, as after a kill
    outage, of_topic, of_tenant = UsageFinding.unscoped.order_by("id")
    assert (outage.kind, outage.boot_epoch, outage.tenant_uid) == ("outage", 6, "")
    assert outage.from_at is not None and outage.until_at is not None
    assert (of_topic.tenant_uid, of_topic.topic, of_topic.meter, of_topic.missing_value) == ("u1", TOPIC, "bytes_in", 100)
    assert of_topic.until_at is not None and of_topic.from_at is not None
    assert (of_topic.until_at - of_topic.from_at).total_seconds() == 120
    assert (of_tenant.tenant, of_tenant.tenant_uid, of_tenant.meter, of_tenant.from_at) == ("globex", "u2", "connections", None)


def test_a_run_with_very_many_has_the_first_of_them(run: UsageRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "FINDINGS_MAX", 3)
    assert [finding.row for finding in noted(run, tmp_path, *(quarantined(row=row) for row in range(5)))] == [0, 1, 2]


def test_the_names_in_a_series() -> None:
    for meter, uid, topic, more in (
        ("bytes_in", "u1", TOPIC, ()),
        ("bytes_in", "", TOPIC, ()),
        ("client_bytes_in", "u1", TOPIC, ("sub|x", "key")),
        ("connections", "u1", "", ("", "key")),
        ("bytes_in", "u1", f"{TOPIC}|a", ()),
    ):
        assert named_by(series_name(meter, uid, topic, *more)) == (meter, uid, topic)
