"""What `make_once` inserts is what was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from tenants import actions
from tenants.access import platform_actor
from tenants.models import AuditRecord, FeedHead, OutboxChange, Tenant
from tests.support.brokers.control_plane import Connected
from tests.support.worlds.recorded_rows import make_once


def left_by(make: Callable[[], None]) -> list[list[dict[str, Any]]]:
    """The rows that a test finds after `make`; none of them stays."""
    before = transaction.savepoint()
    make_once("the test of it", make)
    tables = [Tenant.unscoped, AuditRecord.unscoped, FeedHead.objects, OutboxChange.objects]
    rows = [list(table.order_by("pk").values()) for table in tables]
    transaction.savepoint_rollback(before)
    return rows


def test_rows_are_made_once_and_inserted_as_they_were(db: None, brokered: Connected) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("rows are made anew for each test, but on SQLite")
    calls = []

    def make() -> None:
        calls.append(1)
        actions.create_tenant(platform_actor(), "acme")

    made, inserted = left_by(make), left_by(make)
    assert len(calls) == 1
    assert made == inserted
    assert [row["name"] for row in inserted[0]] == ["acme"]
    assert ("tenant", "acme") in brokered.broker.state


def test_where_other_rows_are_there_before_they_are_made_anew(db: None, brokered: Connected) -> None:
    def make() -> None:
        actions.create_tenant(platform_actor(), "acme")

    left_by(make)
    actions.create_tenant(platform_actor(), "earlier")
    assert [row["name"] for row in left_by(make)[0]] == ["acme", "earlier"]
