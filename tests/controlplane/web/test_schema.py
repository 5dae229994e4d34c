"""The script that makes a new database's tables makes what the migrations make."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane import bootstrap, migration_names
from controlplane.sqlite import schema
from messaging.settings import Settings


def test_the_script_is_what_the_migrations_make() -> None:
    """In a process of its own: Django's settings name one database for good."""
    subprocess.run([sys.executable, "-P", "-m", "controlplane.sqlite.schema", "--check"], check=True)


def test_a_new_database_has_its_tables_without_django(tmp_path: Path) -> None:
    code = (
        "import sys; from controlplane import bootstrap; from messaging.settings import Settings;"
        f"made = bootstrap.create_tables(Settings(data_dir={str(tmp_path)!r}));"
        "sys.exit(not made or 'django' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
    assert bootstrap.needed(Settings(data_dir=str(tmp_path)))  # the first rows
    with sqlite3.connect(tmp_path / "control" / "db.sqlite3") as connection:
        assert connection.execute("SELECT count(*) FROM tenants_tenant").fetchone() == (0,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_other_migrations_than_those_of_the_script_run_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration_names, "MIGRATED", migration_names.MIGRATED[:-1])
    assert not bootstrap.create_tables(Settings(data_dir=str(tmp_path)))
    assert not (tmp_path / "control").exists()


def test_a_database_of_an_older_version_is_left_to_its_migrations(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path))
    assert bootstrap.create_tables(settings)
    (tmp_path / "control" / "tables").write_text("of an older version")
    assert not bootstrap.create_tables(settings)


def test_a_start_that_ended_half_way_begins_anew(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path))
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "db.sqlite3.new").write_bytes(b"half a file")
    assert bootstrap.create_tables(settings)
    assert schema.matches(migration_names.migration_names())
    (tmp_path / "control" / "db.sqlite3").unlink()
    assert bootstrap.create_tables(settings)
