"""A page of topics costs what is on it, however long the list is."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from messaging.storage.meta_store import PartitionedRecord, TopicRecord
from messaging.storage.sql import tables
from messaging.storage.sqlite.meta_store import PAGES, connect

AT = "persistent://acme/orders/"


def _steps(db: sqlite3.Connection, after: str) -> int:
    """How many instructions of SQLite's machine a page takes, in tens."""
    count = 0

    def counted() -> int:
        nonlocal count
        count += 1
        return 0

    db.set_progress_handler(counted, 10)
    assert len(PAGES.page(db, "acme/orders", after, 20)) == 20
    db.set_progress_handler(None, 0)
    return count


@pytest.mark.parametrize("name", ["t-{:05}", "t-{:05}-partition-1", "p-partition-{}"])
def test_what_a_page_costs_does_not_grow_with_the_namespace(tmp_path: Path, name: str) -> None:
    db = connect(tmp_path / "meta.db")
    parents = [
        (f"{AT}{parent}", "acme/orders", tables.encode(PartitionedRecord(f"{AT}{parent}", 9))) for parent in ("p", *range(40))
    ]
    db.executemany("insert into partitioned values (?, ?, ?)", parents)

    def fill(begin: int, end: int) -> None:
        names = [f"{AT}{name.format(number)}" for number in range(begin, end)]
        rows = [(each, "acme/orders", 1, tables.encode(TopicRecord(each))) for each in [*names, f"{AT}z{begin}"]]
        db.executemany("insert into topic values (?, ?, ?, ?)", rows)

    afters = ["", f"{AT}25", f"{AT}25-partition-3"] + [f"{AT}t"] * (not name.startswith("p"))
    fill(0, 100)
    few = [_steps(db, after) for after in afters]
    fill(100, 5_000)
    many = [_steps(db, after) for after in afters]
    db.close()
    assert all(after <= before * 1.5 + 10 for before, after in zip(few, many, strict=True)), (few, many)
