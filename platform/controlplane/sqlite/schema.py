"""The tables of a new SQLite database as one script, `schema.sql`: what all migrations make of an empty file.

Migrations take seconds, most of a first start; the script takes milliseconds and needs no Django. `make schema` writes it after a
migration was added, and a test compares it with what the migrations make.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

SCRIPT = Path(__file__).with_name("schema.sql")
_FIRST_LINE = "-- Written by `make schema`; of the migrations "
_APPLIED = "2000-01-01 00:00:00"  # stands for the time of the start


def matches(migration_names: str) -> bool:
    """Whether the script is of these migrations. Another set (of another version of a library) has to run as it is."""
    try:
        with SCRIPT.open(encoding="utf-8") as file:
            return file.readline() == _first_line(migration_names)
    except OSError:
        return False


def create(path: Path) -> None:
    """Creates the database file, whole or not at all. Blocks for some milliseconds. Raises `sqlite3.Error` or `OSError`."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    connection = sqlite3.connect(unfinished)
    try:
        unfinished.chmod(0o600)
        connection.executescript(SCRIPT.read_text(encoding="utf-8"))
        connection.execute("UPDATE django_migrations SET applied = ?", [f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"])
        connection.commit()
    finally:
        connection.close()
    unfinished.replace(path)


def script_of(connection: sqlite3.Connection, migration_names: str) -> str:
    """What makes the same tables and rows; `connection` is of a database that has nothing but its migrations."""
    connection.execute("UPDATE django_migrations SET applied = ?", [_APPLIED])
    try:
        return _first_line(migration_names) + "\n".join(connection.iterdump()) + "\n"
    finally:
        connection.rollback()


def _first_line(migration_names: str) -> str:
    return f"{_FIRST_LINE}{hashlib.sha256(migration_names.encode()).hexdigest()}\n"


def migrated_script() -> str:
    """Migrates an empty database and returns its script. Sets up Django in this process, on a directory of its own."""
    from django.core.management import call_command

    from controlplane.django_setup import set_up
    from controlplane.migration_names import migration_names
    from messaging.identity import create_secrets
    from messaging.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=folder)
        create_secrets(settings)
        (settings.data_path / "control").mkdir()
        set_up(settings)
        call_command("migrate", interactive=False, verbosity=0, skip_checks=True)
        connection = sqlite3.connect(settings.data_path / "control" / "db.sqlite3")
        try:
            return script_of(connection, migration_names())
        finally:
            connection.close()


if __name__ == "__main__":
    script = migrated_script()
    if "--check" in sys.argv:
        sys.exit(SCRIPT.read_text(encoding="utf-8") != script and f"{SCRIPT.name} is not what the migrations make: `make schema`")
    SCRIPT.write_text(script, encoding="utf-8")
