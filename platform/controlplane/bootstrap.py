"""Prepares the database: its tables, and the first tenant, user and key.

`needed` costs a few directory listings, and `prepare` does nothing if it is False. A new SQLite file gets its tables from
`controlplane.sqlite.schema`, without Django, and its first rows from the web process, so that a first start waits for neither.
Any other database is prepared by a separate process (``python -m controlplane.bootstrap``), so that the web process loads neither
migrations nor the apps that only they need.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from controlplane.child_process import environment, python
from controlplane.migration_names import known_migrations, migration_names
from controlplane.sqlite import schema
from messaging.settings import ConfigError, Settings

FULL_BYTES = 1 << 20  # less than one migration transaction may need
NEEDED_BYTES = 16 << 20  # for all tables and the database's journal
_LOCK = int.from_bytes(b"magnetar")  # of those that PostgreSQL keeps for applications


def needed(settings: Settings) -> bool:
    """Whether the database may lack tables or first rows, judged by a stamp file in the data directory."""
    if not settings.database_url and not _sqlite_path(settings).exists():
        return True
    return not _says(_stamp_path(settings), prepared_stamp(settings))


def create_tables(settings: Settings) -> bool:
    """Whether the tables are there; a new SQLite file gets them. Loads no Django. False: `prepare` has to. Raises `ConfigError`."""
    if not needed(settings):
        return True
    if not settings.database_url and _sqlite_path(settings).exists():
        with closing(sqlite3.connect(_sqlite_path(settings))) as db:
            made = db.execute("select 1 from sqlite_master where name = 'django_migrations'").fetchone()
            _require_known(settings, db.execute("select app, name from django_migrations") if made else ())
    if settings.database_url or not schema.matches(migration_names()):
        return False
    with _full_disk_named(settings), _locked(settings):
        if not _sqlite_path(settings).exists():
            _tables_path(settings).unlink(missing_ok=True)  # of a database that was removed
            schema.create(_sqlite_path(settings))
            _tables_path(settings).write_text(prepared_stamp(settings))
        return _says(_tables_path(settings), prepared_stamp(settings))


def create_first_rows(settings: Settings) -> None:
    """Does nothing if the database has them. Django is set up, and the tables are there. Raises `ConfigError`."""
    if not needed(settings):
        return
    from controlplane.backup.audited import record_restored
    from tenants import first_rows

    with _full_disk_named(settings), _locked(settings):
        first_rows.create_first_rows(settings)
        record_restored(settings)
        _stamp_path(settings).write_text(prepared_stamp(settings))


def prepare(settings: Settings) -> None:
    """Runs migrations and creates first rows if needed. Idempotent and safe to run concurrently. Raises `ConfigError`, and
    `SystemExit` with code 1 for what may pass by itself, such as a server that has not started yet."""
    if not needed(settings):
        return
    code = subprocess.run(python("controlplane.bootstrap"), env={**os.environ, **environment(settings)}, check=False).returncode
    if code == 2 or (code and not settings.database_url):
        raise ConfigError("the database could not be prepared: see the lines above")
    if code:
        sys.stderr.write("magnetar: the database could not be prepared: see the lines above. Start again\n")
        sys.exit(1)


def run(settings: Settings) -> None:
    """Does the work; sets up Django in this process. Raises `ConfigError` if the disk is full."""
    from controlplane.django_setup import set_up
    from messaging.identity import create_secrets

    with _full_disk_named(settings):
        create_secrets(settings)
        created = create_tables(settings)
        set_up(settings)
        if not created:
            _migrate(settings)
        create_first_rows(settings)


def _migrate(settings: Settings) -> None:
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.recorder import MigrationRecorder

    with _locked(settings):
        if needed(settings):  # nobody else did so meanwhile
            _require_known(settings, MigrationRecorder(connection).applied_migrations())
            call_command("migrate", interactive=False, verbosity=0, skip_checks=True)


def _require_known(settings: Settings, applied: Iterable[tuple[str, str]]) -> None:
    """`applied`: app and name of each migration that a database has. Raises `ConfigError` where a newer release has changed it:
    what this one does not know it could not fill."""
    known = known_migrations()
    apps = {name.partition(".")[0] for name in known}
    unknown = sorted({f"{app}.{name}" for app, name in applied if app in apps} - known)
    if unknown and not settings.accept_newer_database:
        raise ConfigError(
            f"a newer release has changed the control plane's database: this one does not know {', '.join(unknown[:3])}"
            f"{', ...' if len(unknown) > 3 else ''}. Use that release, or restore the backup from before its start. If "
            "docs/upgrading.md says that this release can work with it, set accept_newer_database = true"
        )


@contextmanager
def _full_disk_named(settings: Settings) -> Iterator[None]:
    """A failure on a full disk says so."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        free = shutil.disk_usage(settings.data_path).free
        if free >= FULL_BYTES:
            raise
        raise ConfigError(
            f"the disk under {settings.data_path} is full ({free} bytes are free): the database could not be prepared "
            f"({error}). Free at least {NEEDED_BYTES >> 20} MiB, or choose another directory with --data-dir, and start again"
        ) from None


@contextmanager
def _locked(settings: Settings) -> Iterator[None]:
    """One process at a time, of this machine, and with PostgreSQL of all machines, which start at once where a fleet is new."""
    (settings.data_path / "control").mkdir(mode=0o700, exist_ok=True)
    with (settings.data_path / "control" / "prepare.lock").open("w") as file, ExitStack() as stack:
        fcntl.flock(file, fcntl.LOCK_EX)
        if settings.database_url:
            import psycopg

            # Held by a transaction, not by a session: a pooler may stand between.
            connection = stack.enter_context(psycopg.connect(settings.database_url))
            connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
        yield


def _sqlite_path(settings: Settings) -> Path:
    return settings.data_path / "control" / "db.sqlite3"


def _stamp_path(settings: Settings) -> Path:
    """Written when the first rows are there as well."""
    return settings.data_path / "control" / "prepared"


def _tables_path(settings: Settings) -> Path:
    """Written when a new file has its tables."""
    return settings.data_path / "control" / "tables"


def _says(path: Path, stamp: str) -> bool:
    try:
        return path.read_text() == stamp
    except OSError:
        return False


def prepared_stamp(settings: Settings) -> str:
    """Changes whenever a migration is added, renamed or removed, or the database changes."""
    return hashlib.sha256((settings.database_url + migration_names()).encode()).hexdigest()


if __name__ == "__main__":
    from messaging import logs
    from messaging.settings import load

    try:
        settings = load()
        logs.setup("prepare", settings)
        run(settings)
    except ConfigError as error:
        sys.stderr.write(f"magnetar prepare: {error}\n")
        sys.exit(2)
