"""What the usage job makes of the records of brokers, computed in this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import duckdb

from messaging.usage_schema import COUNTERS
from spark_jobs.compute import compute
from spark_jobs.config import Request, run_directory
from spark_jobs.plan import make_plan
from tests.compat.billing_traffic import now_ms

T = TypeVar("T")
R = TypeVar("R")


def usage_of(raw: Path, folder: Path, topics: set[str]) -> dict[str, dict[str, int]]:
    """Meter -> topic -> what the job made of the records of these."""
    request = Request("r1", str(raw), str(folder / "hours"), str(folder), int(now_ms()))
    compute(_InProcess(), request, make_plan(raw, {}, request.now_ms, 1))
    usage: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    files = run_directory(folder / "hours", "r1").glob("*/*/*.parquet")
    relation = duckdb.sql(f"select topic, {', '.join(COUNTERS)} from read_parquet({[str(file) for file in files]})")
    assert relation is not None
    for topic, *quantities in relation.fetchall():
        if topic in topics:
            for meter, quantity in zip(COUNTERS, quantities, strict=True):
                usage[meter][topic] += quantity
    return usage


class _InProcess:
    """Runs tasks here, one after the other."""

    cores = 1

    def run(self, what: str, work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
        return [work(item) for item in items]
