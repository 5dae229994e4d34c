"""The page of usage: sums, gaps, and the run that they come from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from django.conf import settings as django_settings
from django.utils import timezone

from admin_ui import usage_view
from messaging.errors import NotReady
from tenants.models import Tenant
from tests.admin_ui.pages import Browse, text
from workers.billing.usage import computed_until
from workers.models import UsageHour, UsagePartition, UsageRun


def usage(hour: datetime, tenant: str, topic: str, run: UsageRun) -> None:
    UsageHour.unscoped.create(
        hour=hour, tenant=tenant, tenant_uid=Tenant.unscoped.get(name=tenant).uid, namespace=f"{tenant}/orders",
        topic=f"persistent://{tenant}/orders/{topic}", messages_in=1500,
        bytes_in=2048, messages_out=3, bytes_out=4, stored_byte_seconds=3600 * 4096, backlog_entry_seconds=0, run=run,
    )  # fmt: skip
    UsagePartition.objects.update_or_create(hour=hour, defaults={"run": run, "rows": 3, "updated_at": hour})


def test_usage_shows_sums_holes_and_its_run(browse: Browse) -> None:
    noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
    run = UsageRun.objects.create(run_id="run-17", outcome="succeeded", requested_at=noon, finished_at=noon + timedelta(minutes=4))
    for tenant, topic in (("acme", "a"), ("acme", "b"), ("globex", "c")):
        usage(noon, tenant, topic, run)
    written = Path(django_settings.MAGNETAR.data_dir) / "usage" / "raw" / "date=2026-03-04" / "hour=13"
    written.mkdir(parents=True, exist_ok=True)
    (written / "some.json").write_text("{}")
    with time_machine.travel(noon + timedelta(hours=2, minutes=5), tick=False):
        mine = text(browse("owner"), "/usage")
        assert "3,000" in mine and "4.00 KiB" in mine and "8.00 KiB" in mine  # two topics of acme in one row
        assert "globex" not in mine
        assert "run-17" in mine and ">1 missing<" in mine
        assert "12:00 computed" in mine and "13:00 missing" in mine and "14:00 not over yet" in mine
        assert "11:00 no usage recorded" in mine
        by_topic = text(browse("owner"), "/usage", by="topic")
        assert "orders/a" in by_topic and "orders/b" in by_topic and "orders/c" not in by_topic
        UsageHour.unscoped.create(
            hour=noon, tenant="acme", tenant_uid=Tenant.unscoped.get(name="acme").uid, namespace="", topic="", messages_in=0,
            bytes_in=0, messages_out=0, bytes_out=0, stored_byte_seconds=0, backlog_entry_seconds=0, api_calls=4321, run=run,
        )  # fmt: skip
        assert "4,321" in text(browse("owner"), "/usage", by="tenant")
        for level in ("namespace", "topic"):  # of none, or the rows of an hour were less than the file
            assert "4,321" in (page := text(browse("owner"), "/usage", by=level)) and f"of no {level}" in page
        assert "globex" in text(browse("superuser"), "/usage", by="tenant")
        assert "No usage on this day" in text(browse("owner"), "/usage", day="2026-03-03")
        assert "run-17" in text(browse("owner"), "/usage", day="nonsense", by="nonsense")


def test_usage_of_days_is_downloaded_of_the_tenants_that_one_may_see(browse: Browse) -> None:
    noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
    run = UsageRun.objects.create(run_id="run-17", outcome="succeeded", requested_at=noon, finished_at=noon + timedelta(minutes=4))
    for tenant, topic in (("acme", "a"), ("acme", "b"), ("globex", "c")):
        usage(noon, tenant, topic, run)
    with time_machine.travel(noon + timedelta(hours=2), tick=False):
        page = text(browse("owner"), "/usage")
        assert 'name="format" value="csv"' in page and 'value="2026-03-01"' in page
        query = "first=2026-03-01&last=2026-03-04&by=namespace&format="
        answer = browse("owner").get(f"/usage/export?{query}csv")
        assert answer["Content-Disposition"] == 'attachment; filename="usage-by-namespace-2026-03-01-2026-03-04.csv"'
        lines = b"".join(answer.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
        assert len(lines) == 2 and lines[1].startswith("2026-03-04,1,acme,acme/orders,,3000,4096,")
        everything = browse("superuser").get(f"/usage/export?{query}jsonl")
        assert len(b"".join(everything.streaming_content).splitlines()) == 2  # type: ignore[attr-defined]
        for wrong in ("format=pdf", "by=key", "first=2026-03-09&last=2026-03-01", "first=2020-01-01"):
            assert browse("owner").get(f"/usage/export?{wrong}").status_code == 302, wrong


def test_rows_that_do_not_fit_are_on_the_next_page(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_view, "ROWS_A_PAGE", 2)
    noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
    run = UsageRun.objects.create(run_id="run-17", outcome="succeeded", requested_at=noon, finished_at=noon)
    for topic in ("a", "b", "c"):
        usage(noon, "acme", topic, run)
    with time_machine.travel(noon + timedelta(hours=2), tick=False):
        first = text(browse("owner"), "/usage", by="topic")
        assert "orders/b" in first and "orders/c" not in first and "?by=topic&amp;page=2#usage" in first
        second = text(browse("owner"), "/usage", by="topic", page="2")
        assert "orders/c" in second and "orders/b" not in second and ">Next<" not in second


def test_a_file_counts_hours_that_were_over_when_they_were_computed(browse: Browse) -> None:
    """Of one that was computed while it ran, a part is in it."""
    noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
    at = noon + timedelta(minutes=30)
    run = UsageRun.objects.create(run_id="run-19", outcome="succeeded", requested_at=at, started_at=at, finished_at=at)
    for hour in (noon, noon - timedelta(hours=1)):
        usage(hour, "acme", "a", run)
    with time_machine.travel(noon + timedelta(hours=2), tick=False):
        answer = browse("owner").get("/usage/export?first=2026-03-04&last=2026-03-04&by=topic&format=csv")
        assert b"2026-03-04,1,acme," in b"".join(answer.streaming_content)  # type: ignore[attr-defined]


def test_an_hour_is_computed_when_its_run_began_after_its_end(browse: Browse) -> None:
    """A run that begins while an hour runs reads a part of it."""
    noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
    at = noon + timedelta(minutes=30)
    run = UsageRun.objects.create(run_id="run-19", outcome="succeeded", requested_at=at, started_at=at, finished_at=at)
    for hour in (noon, noon - timedelta(hours=1)):
        UsagePartition.objects.create(hour=hour, run=run, checksum="", inputs="", rows=3, updated_at=at)
    with time_machine.travel(noon + timedelta(minutes=40), tick=False):
        page = text(browse("owner"), "/usage")
        assert "11:00 computed" in page and "12:00 not over yet, computed in part" in page
        assert computed_until() == noon
    with time_machine.travel(noon + timedelta(minutes=70), tick=False):
        assert "12:00 computed in part, before it was over" in text(browse("owner"), "/usage")


def test_usage_says_what_is_wrong(browse: Browse) -> None:
    client = browse("owner")
    assert "not computed yet" in text(client, "/usage")
    run = UsageRun.objects.create(run_id="run-18", outcome="needs_spark", requested_at=timezone.now())
    assert "Spark cannot be started" in text(client, "/usage")
    for outcome, words in (("failed", "The last run failed"), ("running", "A run is in progress")):
        UsageRun.objects.filter(run_id=run.run_id).update(outcome=outcome)
        assert words in text(client, "/usage")
    progress = {"step": "read", "tasks": 40, "done": 10, "rows": 9_000_000, "seconds": 20.0, "left_s": 60.0}
    UsageRun.objects.filter(run_id=run.run_id).update(detail={"progress": progress, "deaths": []})
    assert "Step: read; tasks done: 10 of 40; rows: 9,000,000, about 60 s left" in text(client, "/usage")
    UsageRun.objects.filter(run_id=run.run_id).update(outcome="succeeded", holes=2)
    assert "Gaps in sequence numbers: 2" in text(client, "/usage")


def test_a_superuser_asks_for_a_run_now(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def request(requested_by: str) -> str:
        if asked:
            raise NotReady("the task queue cannot be reached")
        asked.append(requested_by)
        return "run-19"

    monkeypatch.setattr("admin_ui.views.usage.request_usage_run", request)
    client = browse("superuser")
    shown = client.post("/usage/compute", {"by": "topic", "day": "2026-03-04"})["Location"]
    assert shown == "/usage?day=2026-03-04&by=topic", "what was looked at before"
    assert asked == ["user:superuser"]
    assert "queue cannot be reached" in client.post("/usage/compute", follow=True).content.decode()
    assert "Compute now" in text(client, "/usage") and "Compute now" not in text(browse("owner"), "/usage")


def test_what_a_failed_usage_run_said_is_for_administrators(browse: Browse) -> None:
    """Its error is of the rows of all tenants."""
    UsageRun.objects.create(
        run_id="r1", outcome="failed", requested_at=timezone.now(), message="cannot store persistent://other/secret/topic"
    )
    assert b"other/secret" in browse("superuser").get("/usage").content
    page = browse("owner").get("/usage").content
    assert b"The last run failed" in page and b"other/secret" not in page
