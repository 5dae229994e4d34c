"""The benchmark of a broker on PostgreSQL, on few messages."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.benchmarks import on_postgresql
from tests.benchmarks.load import Stalled


def test_both_brokers_are_measured_and_nothing_is_left(tmp_path: Path, metadata_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_postgresql, "TURNS", 1)
    monkeypatch.setattr(on_postgresql, "TOPICS", 2)
    section = on_postgresql.run(tmp_path, metadata_url, 0.01, lambda text: None)
    assert [row[1] for row in section.tables[0].rows] == ["log of files", "PostgreSQL"] * len(on_postgresql.CASES)
    assert all(figure.value > 0 for figure in section.figures) and len(section.figures) == 4
    assert list(tmp_path.iterdir()) == []
    with psycopg.connect(metadata_url) as connection:
        assert connection.execute("select 1 from pg_namespace where nspname like 'magnetar%'").fetchone() is None


def test_a_database_that_is_used_is_left_alone(tmp_path: Path, metadata_url: str) -> None:
    with psycopg.connect(metadata_url, autocommit=True) as connection:
        connection.execute("create schema if not exists magnetar_ledgers")
        with pytest.raises(Stalled, match="keeps something in this database"):
            on_postgresql.run(tmp_path, metadata_url, 0.01, lambda text: None)
        connection.execute("drop schema magnetar_ledgers")
    with pytest.raises(Stalled, match="there is no PostgreSQL"):
        on_postgresql.run(tmp_path, "postgresql://nobody@127.0.0.1:1/none", 0.01, lambda text: None)
