"""The rows that many tests begin with: made by the actions of the control plane once a process, inserted as they were from then on.

Making them takes 0.2 s, of which nothing depends on the test, and thousands of tests begin with the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection, transaction

from tenants import feed

Rows = dict[str, list[tuple[Any, ...]]]  # by table
# What is there before decides what is made: migrations leave rows that a test with real transactions takes away.
_recorded: dict[tuple[str, tuple[int, ...]], Rows] = {}


def make_once(name: str, make: Callable[[], None]) -> None:
    """Leaves the database as `make` does, and a broker that knows of it. `make` has no arguments that differ and removes no row."""
    if connection.vendor != "sqlite":  # elsewhere the sequences of ids would have to follow
        make()
        return
    tables = sorted(table for table in connection.introspection.table_names() if table != "django_migrations")
    key = name, _counts(tables)
    if key not in _recorded:
        before = _rows(tables)
        make()
        _recorded[key] = _new(before, _rows(tables))
        return
    with transaction.atomic(), connection.cursor() as cursor:
        for table, rows in _recorded[key].items():
            marks = ", ".join(["%s"] * len(rows[0]))
            cursor.executemany(f"INSERT OR REPLACE INTO {connection.ops.quote_name(table)} VALUES ({marks})", rows)
    feed.confirm(feed.newest_version())


def _counts(tables: list[str]) -> tuple[int, ...]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"(SELECT count(*) FROM {connection.ops.quote_name(it)})" for it in tables))
        return tuple(cursor.fetchone())


def _rows(tables: list[str]) -> Rows:
    rows: Rows = {}
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            rows[table] = cursor.fetchall()
    return rows


def _new(before: Rows, after: Rows) -> Rows:
    assert all(len(before[table]) <= len(rows) for table, rows in after.items()), "rows were removed"
    new = {table: [row for row in rows if row not in before[table]] for table, rows in after.items()}
    return {table: rows for table, rows in new.items() if rows}
