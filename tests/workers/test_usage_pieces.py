"""A run's hours are written in pieces: whatever ends the worker in between, there is the former version or the new one, whole."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.checksum import DETAIL_COLUMNS, HOUR_COLUMNS, checksum_text, row_digest
from spark_jobs.config import HourResult, PeriodResult, Result, SequenceGap, details_directory
from tenants.scoping import platform_scope
from tests.support.brokers.worker_broker import START
from workers import usage_pieces
from workers.billing import usage
from workers.detail_models import UsageDetail
from workers.environment import Stopping
from workers.findings.models import UsageFinding
from workers.models import UsageCorrection, UsageHour, UsagePartition, UsagePeriod, UsageRun
from workers.usage_load import publish
from workers.usage_pieces import Pieces, sweep
from workers.usage_run import RunFailed

NAME, AT = "2026-11-21T11", datetime(2026, 11, 21, 11, tzinfo=UTC)
MS = int(AT.timestamp()) * 1000
PERIODS = ("2026-11-21", "2026-11")
A_PIECE, TOPICS = 2, 5  # three pieces of each kind
CLOSED = datetime(2026, 12, 9, tzinfo=UTC)
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_pieces, "ROWS_A_PIECE", A_PIECE)


class Killed(BaseException):
    """The worker is gone: nothing of it runs any more."""


class Line:
    """Counts how often the run asks whether it is still the one; it is killed when it does the `last` time."""

    def __init__(self, last: int = 0) -> None:
        self.asked, self._last = 0, last

    def __call__(self) -> None:
        self.asked += 1
        if self.asked == self._last:
            raise Killed


def finished(run_id: str, directory: Path, value: int, topics: int = TOPICS) -> tuple[Result, Path]:
    """A job's result of one hour, in which each topic took `value` messages and each subscription gave as many."""
    folder = directory / f"{run_id}-{value}"
    details_directory(folder).mkdir(parents=True, exist_ok=True)
    (folder / "periods").mkdir(exist_ok=True)
    names = [("acme", "u1", "acme/orders", f"persistent://acme/orders/t{index}") for index in range(topics)]
    rows = [(MS, *name, value, 0, 0, 0, 7, 0, 0, 0) for name in names]
    parts = [(MS, *name, "s", "k", 0, 0, 0, value, 0, 0, 0, 0, 0, 0) for name in names]
    (folder / "part.json").write_text(lines(HOUR_COLUMNS, rows))
    (details_directory(folder) / f"{NAME}-000.json").write_text(lines(DETAIL_COLUMNS, parts))
    periods = []
    for period in PERIODS:
        sums = [(period, *row[1:5], *map(str, row[5:])) for row in rows]
        (folder / "periods" / f"{period}.json").write_text(lines(("period", *HOUR_COLUMNS[1:]), sums))
        periods.append(PeriodResult(period, topics, checksum_of(sums), 1))
    hour = HourResult(NAME, run_id, topics, checksum_of(rows), {}, topics, checksum_of(parts))
    hole = SequenceGap("b1", 7, "messages_in||persistent://acme/orders/t0", 3, 5, MS, MS + 60_000, 2)
    return Result(run_id, hours=(hour,), periods=tuple(periods), holes=(hole,), hole_count=1), folder


def lines(columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    return "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)


def checksum_of(rows: Sequence[tuple[object, ...]]) -> str:
    return checksum_text(len(rows), sum(row_digest(row) for row in rows))


def begun(run_id: str) -> UsageRun:
    """As the task begins a run, for the first time or once more."""
    UsageRun.objects.get_or_create(run_id=run_id, defaults={"requested_at": START})
    UsageRun.objects.filter(run_id=run_id).update(outcome="running", started_at=START)
    return UsageRun.objects.get(run_id=run_id)


def published(run_id: str, directory: Path, value: int, line: Line | None = None, topics: int = TOPICS) -> None:
    result, folder = finished(run_id, directory, value, topics)
    publish(begun(run_id), result, folder, CLOSED, line or Line())


def version() -> set[int]:
    """What each row says, in all that readers see; of a whole version it is one value."""
    with platform_scope():
        seen: list[list[Any]] = [
            list(UsageHour.objects.values_list("messages_in", flat=True)),
            list(UsageDetail.objects.values_list("messages_out", flat=True)),
            *(list(UsagePeriod.objects.filter(period=period).values_list("messages_in", flat=True)) for period in PERIODS),
        ]
    assert {len(values) for values in seen} <= {0, TOPICS} and len({len(values) for values in seen}) == 1
    return {int(value) for values in seen for value in values}


def billed() -> list[object]:
    """What an invoice of the tenant is made of."""
    used = usage.used_between("u1", AT, AT + timedelta(hours=1))
    return [usage.digest_of("u1", AT), sum(row.quantities[usage.METER_NAMES.index("messages_in")] for row in used)]


def rows_in_all() -> list[int]:
    return [model.unscoped.count() for model in (UsageHour, UsageDetail, UsagePeriod)]


WHOLE = [TOPICS, TOPICS, 2 * TOPICS]


def test_a_reader_beside_it_sees_one_version_at_every_step(tmp_path: Path) -> None:
    published("r1", tmp_path, 3)
    before, seen = billed(), []

    class Reading(Line):
        def __call__(self) -> None:
            super().__call__()
            seen.append(version())
            assert billed() == before

    published("r2", tmp_path, 4, reading := Reading())
    assert reading.asked > 12 and seen == [{3}] * reading.asked
    after = billed()
    assert version() == {4} and after[1] == 4 * TOPICS != before[1]
    assert sweep(Line()) == sum(WHOLE) and (version(), billed()) == ({4}, after)
    assert rows_in_all() == WHOLE


def test_a_kill_at_any_step_leaves_one_version_whole_and_the_next_attempt_the_new_one(tmp_path: Path) -> None:
    published("r1", tmp_path, 3)
    published("r2", tmp_path, 4, line := Line())
    sweep(Line())
    bill, steps = billed(), line.asked
    published("r0", tmp_path, 3)
    sweep(Line())
    for step in range(1, steps + 1):
        run_id = f"r2-{step}"
        with pytest.raises(Killed):
            published(run_id, tmp_path, 9, Line(step))  # of files that are not there any more when it is repeated
        assert version() == {3} and UsagePartition.objects.get().run_id.startswith("r0")
        published(run_id, tmp_path, 4)
        assert (version(), billed()) == ({4}, bill)
        published(f"r0-{step}", tmp_path, 3)
        assert sweep(Line()) and rows_in_all() == WHOLE and not UsageRun.objects.filter(swept=False).exists()


def test_a_kill_while_the_former_version_is_deleted_is_made_up_for(tmp_path: Path) -> None:
    published("r1", tmp_path, 3)
    published("r2", tmp_path, 4)
    steps = 0
    while True:
        steps += 1
        try:
            sweep(Line(2))
        except Killed:
            assert version() == {4}
            continue
        break
    assert steps > 9 and rows_in_all() == WHOLE


def test_what_a_killed_run_left_goes_with_the_next_one_whichever_that_is(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        published("r1", tmp_path, 3, Line(9))
    assert sum(rows_in_all()) and not version()
    published("r2", tmp_path, 4)
    assert rows_in_all() == WHOLE and version() == {4}


def test_a_worker_that_stood_still_writes_nothing_once_another_has_begun(tmp_path: Path) -> None:
    """By the row of the run: to ask for the lease alone is to ask too early."""
    result, folder = finished("r1", tmp_path, 9)
    stood_still = begun("r1")

    class Overtaken(Line):
        def __call__(self) -> None:
            super().__call__()
            if self.asked == 6:  # in the middle of its pieces
                UsageRun.objects.filter(run_id="r1").update(started_at=START + timedelta(seconds=90))

    with pytest.raises(Stopping, match="another run took over"):
        publish(stood_still, result, folder, CLOSED, Overtaken())
    assert not version()
    second = UsageRun.objects.get(run_id="r1")
    result, folder = finished("r1", tmp_path, 4)
    publish(second, result, folder, CLOSED, Line())
    with pytest.raises(Stopping, match="another run took over"), Pieces(stood_still, Line()).piece():
        pytest.fail("it may write")
    assert version() == {4} and rows_in_all() == WHOLE


def test_files_that_are_not_what_the_job_wrote_leave_rows_that_count_for_nothing(tmp_path: Path) -> None:
    published("r1", tmp_path, 3)
    result, folder = finished("r2", tmp_path, 4)
    forged = dataclasses.replace(result, periods=(dataclasses.replace(result.periods[0], checksum="1-a"),))
    with pytest.raises(RunFailed):
        publish(begun("r2"), forged, folder, CLOSED, Line())
    assert version() == {3} and not UsageRun.objects.get(run_id="r2").swept
    sweep(Line())
    assert rows_in_all() == WHOLE


def test_corrections_and_findings_come_once_however_often_the_run_began(tmp_path: Path) -> None:
    published("r1", tmp_path, 3)
    published("r2", tmp_path, 4, line := Line())
    assert UsageCorrection.unscoped.count() == 1 and UsageFinding.unscoped.filter(run="r2").count() == 1
    for back in (0, 1):
        published(f"r3-{back}", tmp_path, 3)
        with pytest.raises(Killed):
            published(f"r4-{back}", tmp_path, 4, Line(line.asked - back))
        assert not UsageCorrection.unscoped.filter(run=f"r4-{back}").exists()
        published(f"r4-{back}", tmp_path, 4)
        assert UsageFinding.unscoped.filter(run=f"r4-{back}").count() == 1
        (correction,) = UsageCorrection.unscoped.filter(run=f"r4-{back}")
        assert (correction.previous_run_id, correction.changes) == (f"r3-{back}", {"messages_in": TOPICS})


def test_an_empty_version_withdraws_what_was_there(tmp_path: Path) -> None:
    published("r1", tmp_path, 3)
    published("r2", tmp_path, 0, topics=0)
    assert not version()
    sweep(Line())
    assert rows_in_all() == [0, 0, 0]
