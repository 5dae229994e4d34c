"""What must hold for records of any kind, in whatever files they come, whenever the job runs and wherever it is killed."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from messaging.broker.usage.record import UsageRecord
from messaging.usage_schema import COUNTERS, GAUGES
from tests.spark_jobs.job import InProcess, Job
from tests.spark_jobs.usage_files import HOUR_MS, MINUTE_MS, NOON_MS, Hours, record, reference, write_all

T = TypeVar("T")
R = TypeVar("R")
LATER_MS = NOON_MS + 3 * HOUR_MS
TOPICS = ("persistent://acme/orders/new", "persistent://acme/orders/old", "non-persistent://globex/sensors/heat")


class Killed(Exception):
    pass


class Mortal(InProcess):
    """Dies before the task of this number."""

    def __init__(self, tasks: int) -> None:
        self.left = tasks

    def run(self, what: str, work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
        results = []
        for item in items:
            if self.left == 0:
                raise Killed
            self.left -= 1
            results.append(work(item))
        return results


@st.composite
def series(draw: st.DrawFn) -> list[UsageRecord]:
    """One meter of a topic as one boot reports it around noon, with silences on both sides of what a gauge is carried over."""
    meter, topic = draw(st.sampled_from((*COUNTERS, *GAUGES))), draw(st.sampled_from(TOPICS))
    source, boot = draw(st.sampled_from((("b1", 1), ("b1", 2), ("b2", 1))))
    at = NOON_MS - draw(st.integers(0, 12)) * 30_000
    records = []
    for seq in range(draw(st.integers(1, 8))):
        width = min(draw(st.sampled_from((1, 999, 30_000, MINUTE_MS))), HOUR_MS - at % HOUR_MS)
        value = draw(st.sampled_from((0, 1, 500, 2**40, 2**50)))
        if draw(st.booleans()):
            records.append(record(meter, value, at, seq=seq, topic=topic, width_ms=width, source=source, boot_epoch=boot))
        at += width + draw(st.sampled_from((0, 0, 0, 1, 299_999, 300_000, 300_001)))
    return records


@st.composite
def usage(draw: st.DrawFn) -> list[UsageRecord]:
    records = [record for some in draw(st.lists(series(), min_size=1, max_size=6)) for record in some]
    if records:
        records += draw(st.lists(st.sampled_from(records), max_size=4))  # copies
        altered = draw(st.lists(st.sampled_from(records), max_size=2))
        records += [record._replace(value=record.value + 1) for record in altered]
    return records


def scatter(records: list[UsageRecord], raw: Path, chance: random.Random) -> None:
    """In any order, in any number of files."""
    records = list(records)
    chance.shuffle(records)
    while records:
        write_all([records.pop() for _ in range(min(len(records), chance.randint(1, 12)))], raw)


def job_in(directory: str, name: str) -> Job:
    return Job(InProcess(), Path(directory) / name)


def computed(records: list[UsageRecord], directory: str, name: str, chance: random.Random) -> Job:
    job = job_in(directory, name)
    scatter(records, job.raw, chance)
    job.run(LATER_MS)
    return job


def of_tenant(records: list[UsageRecord], tenant: str) -> list[UsageRecord]:
    return [record for record in records if record.tenant == tenant]


@pytest.mark.usefixtures("spark")
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(records=usage(), seed=st.integers(0, 2**16), cut=st.integers(0, 40))
def test_any_records_in_any_files_give_what_the_plain_reference_gives(records: list[UsageRecord], seed: int, cut: int) -> None:
    """At once, and in two parts with a run between: and of each tenant what it gets alone."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        at_once = computed(records, directory, "at once", chance)
        assert at_once.hours() == without_nothing(reference(records))
        parts = job_in(directory, "in parts")
        scatter(records[:cut], parts.raw, chance)
        parts.run(LATER_MS)
        scatter(records[cut:], parts.raw, chance)
        parts.run(LATER_MS)
        assert parts.checksums() == at_once.checksums()
        for tenant in ("acme", "globex"):
            alone = computed(of_tenant(records, tenant), directory, tenant, chance)
            assert alone.hours() == {key: value for key, value in at_once.hours().items() if key[1].split("/")[2] == tenant}


def without_nothing(hours: Hours) -> Hours:
    return {key: value for key, value in hours.items() if any(value)}


def two_hours() -> list[UsageRecord]:
    chance = random.Random(11)
    records = [
        record(meter, chance.randint(0, 10**9), NOON_MS + at * MINUTE_MS, seq=at, topic=topic)
        for meter in ("messages_in", "stored_bytes")
        for topic in TOPICS
        for at in range(0, 120, 6)
    ]
    return [*records, *records[10:15], records[3]._replace(value=1)]


def test_a_kill_before_any_task_changes_nothing(new_job: Callable[[str], Job]) -> None:
    """Reading, putting together, and summing days and months: the next run finds the same."""
    whole = new_job("whole")
    for part in (two_hours()[:60], two_hours()[60:]):
        write_all(part, whole.raw)
    result = whole.run(LATER_MS)
    killed = new_job("killed")
    for part in (two_hours()[:60], two_hours()[60:]):
        write_all(part, killed.raw)
    deaths = 0
    while True:
        killed.engine = Mortal(deaths)
        try:
            again = killed.run(LATER_MS)
            break
        except Killed:
            deaths += 1
    assert deaths >= 4
    assert killed.checksums() == whole.checksums()
    assert (again.quarantined, again.duplicates, again.hole_count) == (result.quarantined, result.duplicates, result.hole_count)
    assert again.periods == result.periods


def test_a_tenant_with_most_of_the_usage_is_put_together_in_parts(
    new_job: Callable[[str], Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    records = [
        record(
            "bytes_in",
            chance.randint(1, 10**9),
            NOON_MS + minute * MINUTE_MS,
            seq=minute,
            topic=f"persistent://{'giant' if chance.random() < 0.6 else f'small-{topic % 9}'}/orders/{topic}",
        )
        for topic in range(150)
        for minute in range(3)
    ]
    job = new_job("skewed")
    write_all(records, job.raw)
    parts: list[int] = []

    class Counting(InProcess):
        def run(self, what: str, work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
            results = super().run(what, work, items, rows)
            if what == "put together":
                parts.extend(part.rows for part in results)  # type: ignore[attr-defined]
            return results

    job.engine = Counting()
    monkeypatch.setattr("spark_jobs.compute.ROWS_A_PART", 40)
    job.run(LATER_MS)
    assert job.hours() == reference(records)
    assert len(parts) > 5 and max(parts) < sum(parts) / 3
