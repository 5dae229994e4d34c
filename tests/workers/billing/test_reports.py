"""Budgets and reports: told and made once, with what they say, and only of the tenant whose they are."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from arro3.io import read_parquet
from django.core import mail

from messaging.errors import InvalidValue, NotFound, PreconditionFailed
from messaging.settings import Settings
from tenants.access import platform_actor
from tenants.models import Tenant
from tests.support.billing.billing_rows import GIB, HOUR, MARCH, run_of, tenant_of, use, use_part
from tests.support.brokers.worker_broker import WorkerBroker
from workers.billing import budget_actions, budgets, costs, files, outlook, reports
from workers.billing.budget_models import Budget, Report, ReportSchedule
from workers.billing.drafts import refresh
from workers.environment import Environment
from workers.rating.verify import UsageRow
from workers.tasks.reports import make_reports

pytestmark = pytest.mark.django_db
Work = Callable[..., dict[str, Any]]
TENTH = MARCH + timedelta(days=10)


def test_a_month_ahead(acme: Tenant) -> None:
    ahead = budgets.month_ahead(acme.uid, "EUR", TENTH)
    assert ahead.so_far == 61 * 10**9  # 29.00 + 5.00 + 9 * 3.00
    assert ahead.likely == pytest.approx((61 + 21 * 3.2) * 10**9)
    assert ahead.low == ahead.likely == ahead.high  # every day cost the same
    assert budgets.month_ahead(acme.uid, "EUR", TENTH, "acme/none").likely == 0


def test_a_report_is_made_once_when_its_days_are_computed(acme: Tenant, work: Work, settings_of: Callable[..., Settings]) -> None:
    actor = platform_actor()
    budget_actions.create_schedule(actor, "acme", "Weekly", "week", "topic", ["boss@acme.example"], date(2026, 3, 9))
    assert work(TENTH)["reports"] == 0  # the newest run began on the tenth of March at 01:00
    run_of("run-after", TENTH)
    assert work(TENTH)["reports"] == 1
    assert work(TENTH)["reports"] == 0
    report = Report.unscoped.get()
    assert (report.first, report.last, report.runs) == (date(2026, 3, 2), date(2026, 3, 8), ["run-1"])
    folder = reports.folder_of(settings_of(), report.pk)
    rows = list(csv.DictReader(io.StringIO((folder / "report.csv").read_text())))
    assert rows[0]["day_utc"] == "2026-03-02"
    assert len(rows) == 7 * 3 and {row["name"] for row in rows} == {"persistent://acme/orders/new"}
    costs = [row["cost"] for row in rows if row["meter"] == "bytes_in"]
    assert costs == ["3.2"] * 7  # 32.00 over ten days in proportion to quantity
    parsed = json.loads((folder / "report.json").read_text())
    assert parsed["time_zone"] == "UTC" and parsed["runs"] == ["run-1"] and len(parsed["rows"]) == len(rows)
    assert sum(batch.num_rows for batch in read_parquet(folder / "report.parquet")) == len(rows)
    page = (folder / "report.html").read_text()
    assert "22.40 EUR" in page and page.count("<rect") == 7
    assert [name for name, _, _ in mail.outbox[0].attachments] == ["report.csv", "report.json", "report.html"]
    assert all((folder / file["name"]).stat().st_size == file["bytes"] for file in report.files)


def test_a_full_disk_leaves_nothing_of_a_report_and_the_next_run_makes_it(
    acme: Tenant, work: Work, settings_of: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try left another folder, with the files that had fitted, for ever."""
    budget_actions.create_schedule(platform_actor(), "acme", "Weekly", "week", "topic", [], date(2026, 3, 9))
    run_of("run-after", TENTH)
    write, below, fails = Path.write_bytes, settings_of().data_path / "reports", 0

    def full(path: Path, contents: bytes) -> int:
        nonlocal fails
        if path.name.startswith("report.parquet"):
            fails += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, contents)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        assert work(TENTH) == {**work(TENTH), "reports": 0, "failed": 1} and fails == 2
    assert list(below.iterdir()) == [] and not Report.unscoped.exists()
    assert work(TENTH)["reports"] == 1 and [folder.name for folder in below.iterdir()] == [Report.unscoped.get().pk]


def test_what_a_killed_worker_left_of_a_report_is_forgotten(acme: Tenant, settings_of: Callable[..., Settings]) -> None:
    settings, now = settings_of(), datetime.now(UTC)
    for name in ("killed", "under-way"):
        reports.folder_of(settings, name).mkdir(parents=True)
        (reports.folder_of(settings, name) / "report.csv").write_bytes(b"day_utc")
    os.utime(reports.folder_of(settings, "killed"), (now.timestamp() - 90_000,) * 2)
    reports.forget_unnamed(settings, now - timedelta(days=1))
    assert [folder.name for folder in (settings.data_path / "reports").iterdir()] == ["under-way"]


def test_days_and_months_are_reported_without_gaps(acme: Tenant, work: Work) -> None:
    actor = platform_actor()
    budget_actions.create_schedule(actor, "acme", "Daily", "day", "namespace", [], date(2026, 3, 5))
    budget_actions.create_schedule(actor, "acme", "Monthly", "month", "meter", [], date(2026, 3, 5))
    run_of("run-after", TENTH)
    work(TENTH)
    spans = [(report.name, report.first.day, report.last.day) for report in Report.unscoped.order_by("name", "first")]
    assert spans == [*(("Daily", day, day) for day in range(4, 10)), ("Monthly", 1, 28)]


def test_a_report_waits_until_what_was_used_is_charged(acme: Tenant, work: Work) -> None:
    """Beside the closing of months it was made before its charges were, and never had them."""
    budget_actions.create_schedule(platform_actor(), "acme", "Daily", "day", "meter", [], date(2026, 3, 10))
    use(acme, TENTH - HOUR, bytes_in=10 * GIB)
    run_of("run-after", TENTH + HOUR)
    assert work(TENTH + HOUR)["reports"] == 0
    refresh(acme, MARCH, TENTH + HOUR)
    assert work(TENTH + HOUR)["reports"] == 2  # of the ninth and the tenth
    question = costs.Question([acme.uid], date(2026, 3, 10), date(2026, 3, 10), "meter", currency="EUR")
    assert [row.quantity for row in reports.rows_of(question) if row.meter == "bytes_in"] == [20 * GIB]


def test_a_malformed_budget_or_schedule_is_refused(acme: Tenant) -> None:
    actor = platform_actor()
    wrongs: list[dict[str, Any]] = [
        {"amount": "0"}, {"amount": "x"}, {"currency": "XXX"}, {"namespace": "globex/edge"}, {"thresholds": []},
        {"thresholds": [0]}, {"emails": ["nobody"]}, {"emails": [f"{index}@a.example" for index in range(6)]},
    ]  # fmt: skip
    for wrong in wrongs:
        with pytest.raises(InvalidValue):
            budget_actions.create_budget(actor, "acme", "b", **{"amount": "1.00", "currency": "EUR", **wrong})
    for every, by in (("year", "topic"), ("day", "colour")):
        with pytest.raises(InvalidValue):
            budget_actions.create_schedule(actor, "acme", "r", every, by)
    for index in range(budget_actions.BUDGETS_MAX):
        budget_actions.create_budget(actor, "acme", f"b{index}", "1.00", "EUR")
    with pytest.raises(PreconditionFailed):
        budget_actions.create_budget(actor, "acme", "one more", "1.00", "EUR")
    with pytest.raises(NotFound):
        budget_actions.delete_budget(actor, "acme", "none")


def test_another_retention_costs_what_its_bytes_would_have(acme: Tenant) -> None:
    what_if = outlook.with_retention(acme, 86_400, "", TENTH)
    assert what_if.stored_now == 10 * GIB and what_if.stored_then == 100 * GIB * 86_400
    assert what_if.now == what_if.then == 2900 + 500 + 2700  # this plan has no price for storage
    with pytest.raises(PreconditionFailed):
        outlook.with_retention(tenant_of("other"), 60, "", TENTH)


def test_topics_and_subscriptions_that_nobody_reads_are_told(acme: Tenant) -> None:
    for topic, out in (("read", 1), ("both", 9), ("waiting", 0)):
        use(
            acme,
            MARCH,
            "run-2",
            topic=f"orders/{topic}",
            bytes_in=GIB,
            messages_out=out,
            backlog_entry_seconds=10 * (topic != "read"),
        )
    use_part(acme, MARCH, "busy", "", topic="orders/both", messages_out=9)
    use_part(acme, MARCH, "idle", "", topic="orders/both", backlog_entry_seconds=10)
    use_part(acme, MARCH, "alone", "", topic="orders/waiting", backlog_entry_seconds=10)
    refresh(acme, MARCH, TENTH)
    told = {saving.topic.rpartition("/")[2]: (saving.why, saving.subscriptions) for saving in outlook.savings(acme.uid, TENTH)}
    assert told == {
        "new": ("messages come in that nobody reads", ()),
        "waiting": (outlook.WAITING, ("alone",)),
        "both": (outlook.IDLE, ("idle",)),
    }


def test_a_report_that_fails_holds_up_that_of_no_other_tenant(acme: Tenant, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    actor, other = platform_actor(), tenant_of("other")
    budget_actions.create_budget(actor, "acme", "All", "10.00", "EUR")
    for name in ("acme", "other"):
        budget_actions.create_schedule(actor, name, f"of {name}", "day", "topic", [], date(2026, 3, 9))
    run_of("run-after", TENTH)
    refresh(other, MARCH, TENTH)
    real = reports.rows_of

    def rows(question: Any) -> Any:
        return real(question) if other.uid in question.tenants else [][0]

    monkeypatch.setattr(reports, "rows_of", rows)
    done = work(TENTH)
    assert (done["failed"], done["budgets"], {report.tenant for report in Report.unscoped.all()}) == (1, 1, {"other"})


def test_a_deletion_while_reports_are_made_holds_up_no_other(
    acme: Tenant, settings_of: Callable[..., Settings], broker: WorkerBroker
) -> None:
    actor, turns = platform_actor(), iter(range(9))
    for index in range(2):
        budget_actions.create_budget(actor, "acme", f"b{index}", "10.00", "EUR", thresholds=[100])
        budget_actions.create_schedule(actor, "acme", f"r{index}", "day", "topic", [], date(2026, 3, 9))
    run_of("run-after", TENTH)

    def deletes() -> None:
        rows = {0: Budget, 2: ReportSchedule}.get(next(turns))
        if rows is not None:
            rows.unscoped.order_by("id")[0].delete()

    done = make_reports(Environment(settings_of(), broker, now=lambda: TENTH), "task-1", deletes)
    assert done == {"budgets": 1, "alerts": 2, "reports": 2}
    assert {report.schedule_id for report in Report.unscoped.all()} == {ReportSchedule.unscoped.get().pk}


def test_a_tenant_that_is_gone_is_told_nothing(acme: Tenant, work: Work) -> None:
    actor = platform_actor()
    budget_actions.create_budget(actor, "acme", "All", "10.00", "EUR", emails=["boss@acme.example"])
    budget_actions.create_schedule(actor, "acme", "Daily", "day", "topic", ["boss@acme.example"], date(2026, 3, 9))
    run_of("run-after", TENTH)
    acme.delete()
    tenant_of("acme")  # somebody else's
    assert work(TENTH) == {"budgets": 0, "alerts": 0, "reports": 0}
    assert not mail.outbox and not Report.unscoped.exists()


def test_a_report_of_very_many_topics_has_the_dearest_by_name(acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(4):
        use(acme, MARCH, "run-2", topic=f"orders/t{index}", bytes_in=index * GIB)
    refresh(acme, MARCH, TENTH)
    question = costs.Question([acme.uid], date(2026, 3, 1), date(2026, 3, 10), "topic", currency="EUR")
    every = reports.rows_of(question)
    monkeypatch.setattr(reports, "NAMES_MAX", 3)
    rows = reports.rows_of(question)
    names = {row.name.rpartition("/")[2] for row in rows}
    assert names == {costs.FEES, "new", "t3", costs.REST} and len({row.name for row in every}) == 5
    assert sum(Decimal(row.cost) for row in rows) == sum(Decimal(row.cost) for row in every)
    assert sum(row.quantity for row in rows) == sum(row.quantity for row in every)


def test_a_file_of_usage_is_written_without_all_of_it_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ROWS_A_GROUP", 10)
    alive: list[weakref.ref[Any]] = []
    most = 0

    class Quantities(dict[str, int]):
        pass

    def rows() -> Iterator[UsageRow]:
        nonlocal most
        for index in range(100):
            quantities = Quantities(bytes_in=index)
            alive.append(weakref.ref(quantities))
            most = max(most, sum(reference() is not None for reference in alive))
            yield UsageRow(MARCH + index * HOUR, "acme/orders", "t", quantities)

    file = io.BytesIO()
    assert files.write_usage(rows(), file) == 100
    assert most <= 22
    assert sum(batch.num_rows for batch in read_parquet(io.BytesIO(file.getvalue()))) == 100
