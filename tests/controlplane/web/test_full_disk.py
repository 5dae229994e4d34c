"""The control plane's own database when the disk is full: what people need to free some space still works."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from controlplane.sqlite import base
from messaging.storage.disk_reserve import SLICE_BYTES, DiskReserve
from tests.support.small_disk import NotPermitted, SmallDisk, small_disk

# Databases of their own; the mark only lets the cursors through.
pytestmark = pytest.mark.django_db


class Disk(DiskReserve):
    """Full or not as a test says."""

    full = False

    def _free_bytes(self) -> int:
        return 0 if self.full else 1 << 30


def test_each_statement_finds_space_while_there_is_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = Disk(tmp_path / "db.reserve", 2 * SLICE_BYTES)
    monkeypatch.setattr(base, "reserve_for", lambda database: reserve)
    wrapper = base.DatabaseWrapper({**connection.settings_dict, "NAME": str(tmp_path / "db.sqlite3")})
    with wrapper.cursor() as cursor:
        cursor.execute("create table t (k integer)")
    assert reserve.whole and reserve.path.stat().st_size == 2 * SLICE_BYTES
    reserve.full = True
    for left in (1, 0, 0):
        with wrapper.cursor() as cursor:
            cursor.execute("insert into t values (1)")
        assert reserve.path.stat().st_size == left * SLICE_BYTES
    wrapper.close()


def test_the_product_uses_it() -> None:
    assert connection.settings_dict["ENGINE"] == "controlplane.sqlite" or connection.vendor != "sqlite"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    try:
        with small_disk(tmp_path / "disk", 24 << 20) as made:
            yield made
    except NotPermitted as error:
        pytest.skip(f"no small file system can be mounted here: {error}")


def test_transactions_go_through_on_a_disk_that_is_full_to_the_last_byte(disk: SmallDisk) -> None:
    """Every request that writes, signing in among them, was answered 500."""
    path = disk.path / "db.sqlite3"
    reserve = base.reserve_for(str(path))
    wrapper = base.DatabaseWrapper({**connection.settings_dict, "NAME": str(path)})
    with wrapper.cursor() as cursor:
        cursor.execute("create table t (k text)")
    assert reserve.whole
    disk.fill()
    for _ in range(200):
        with wrapper.cursor() as cursor:
            cursor.execute("insert into t values (%s)", ["x" * 10_000])
    with wrapper.cursor() as cursor:
        cursor.execute("select count(*) from t")
        assert cursor.fetchone() == (200,)
    assert 0 < reserve.held_bytes < reserve.size_bytes
    wrapper.close()
    with sqlite3.connect(path) as plain:
        assert plain.execute("pragma integrity_check").fetchone() == ("ok",)
    plain.close()
