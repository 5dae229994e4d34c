"""The rows that many tests begin with: made by the actions of the control plane once a process, inserted as they were from then on.

Making them takes 0.2 s, of which nothing depends on the test, and thousands of tests begin with the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from django.db import connection, transaction

from messaging.adminrpc.feed import FeedApply
from messaging.adminrpc.methods import FEED_APPLY
from tenants import broker, feed

Rows = dict[str, list[tuple[Any, ...]]]  # by table
# What is there before decides what is made: migrations leave rows that a test with real transactions takes away.
# With what a broker that knows nothing is told of all that is there afterwards.
_recorded: dict[tuple[str, tuple[int, ...]], tuple[Rows, FeedApply]] = {}


def make_once(name: str, make: Callable[[], None]) -> None:
    """Leaves the database as `make` does, and a broker that knows of it. `make` has no arguments that differ and removes no row."""
    if connection.vendor != "sqlite":  # elsewhere the sequences of ids would have to follow
        make()
        return
    tables = _tables()
    key = name, _counts(tables)
    if key not in _recorded:
        before = _rows(tables)
        make()
        _recorded[key] = _new(before, _rows(tables)), feed.since(0)
        return
    recorded, page = _recorded[key]
    with transaction.atomic(), connection.cursor() as cursor:
        for table, rows in recorded.items():
            marks = ", ".join(["%s"] * len(rows[0]))
            cursor.executemany(f"INSERT OR REPLACE INTO {connection.ops.quote_name(table)} VALUES ({marks})", rows)
    if page.next_key or broker.rpc().call(FEED_APPLY, page).version != page.to_version:
        feed.confirm(page.to_version)


@cache
def _tables() -> list[str]:
    """They stay as the migrations left them."""
    return sorted(table for table in connection.introspection.table_names() if table != "django_migrations")


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
