"""Puts a backup back: into an empty data directory, and into databases that hold nothing of a platform.

Everything is checked before anything is written. A data directory whose restore was cut off says so and is refused by every start
(`datadir.py`), since half of a platform would serve what it has and delete what it does not know.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from controlplane.backup import manifest
from controlplane.backup.audited import note_restored
from controlplane.backup.copies import put_back, sync_folder
from controlplane.backup.databases import connected, require_tool, run_tool
from controlplane.backup.manifest import BOOKKEEPER, POSTGRESQL, BackupManifest, place_of
from controlplane.datadir import RESTORING
from messaging.atomic_files import make_directory, replace_file
from messaging.settings import ConfigError, Settings
from messaging.storage.postgresql.connection import SCHEMA as METADATA_SCHEMA
from messaging.storage.postgresql.ledgers.tables import SCHEMA as LEDGERS_SCHEMA

# Ids that a restored platform passes over: what was published after the backup had ids, which clients may have kept, and no other
# message is to get one of them.
LEDGER_IDS_PASSED_OVER = 1 << 24
_LEDGER_ID_STOP = "store/ledger-id-stop"
_ELSEWHERE = ("postgresql/", "bookkeeper/")  # files of a backup that are not put into the data directory
_OF_FILE_SYSTEMS = {"lost+found"}  # what an empty disk has


def verify(folder: Path) -> BackupManifest:
    """Reads all of a backup. Raises `ConfigError` if it cannot be restored."""
    content = manifest.read(folder)
    found = list(manifest.problems(folder, content))
    if found:
        first = found[0]
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise ConfigError(f"the backup {folder} is damaged: {first.path} {first.says}{more}; restore another one")
    if content.kept.messages == BOOKKEEPER:
        from controlplane.backup.bookies import verify_ledgers

        verify_ledgers(folder, content)
    return content


def restore(settings: Settings, folder: Path) -> BackupManifest:
    """Blocks as long as it takes. Raises `ConfigError` and `OSError`."""
    content = manifest.read(folder)
    _require_same_places(settings, content)
    _require_empty(settings.data_path)
    dumps = _dumps(settings, content)
    for setting, url, schema, _ in dumps:
        _require_empty_schema(url, setting, schema)
    ledgers = None
    if content.kept.messages == BOOKKEEPER:
        from controlplane.backup.bookies import BookieLedgers

        ledgers = BookieLedgers(settings.ledger_url)
        ledgers.require_empty(content)
    verify(folder)
    with _restoring(settings.data_path):
        put_back(folder, (file for file in content.files if not file.path.startswith(_ELSEWHERE)), settings.data_path)
        for setting, url, schema, name in dumps:
            _load(url, setting, schema, folder / name)
        _pass_over_ledger_ids(settings)
        if ledgers is not None:
            ledgers.restore(folder, content)
        note_restored(settings.data_path, content)
    return content


def _require_same_places(settings: Settings, content: BackupManifest) -> None:
    for setting, url, kept in (
        ("database_url", settings.database_url, content.kept.control),
        ("metadata_url", settings.metadata_url, content.kept.metadata),
        ("ledger_url", settings.ledger_url, content.kept.messages),
    ):
        if kept == place_of(url):
            continue
        if kept == BOOKKEEPER:
            raise ConfigError("the backup has messages of bookies: set MAGNETAR_LEDGER_URL to a BookKeeper that has no such store")
        raise ConfigError(
            f"the backup has in PostgreSQL what {setting} is about: set MAGNETAR_{setting.upper()} to an empty database"
            if kept == POSTGRESQL
            else f"the backup has in files what {setting} is about: restore it with {setting} empty"
        )


def _require_empty(data_path: Path) -> None:
    if not data_path.exists():
        return
    names = sorted({entry.name for entry in data_path.iterdir()} - _OF_FILE_SYSTEMS)
    if RESTORING in names:
        raise ConfigError(
            f"the data directory {data_path} is not empty: a restore into it did not end; empty it and restore again, into other "
            "databases where it had begun to fill these"
        )
    if names:
        raise ConfigError(
            f"the data directory {data_path} is not empty ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''}): a backup is "
            "restored into a new one; choose it with --data-dir, or move what is there away"
        )


def _dumps(settings: Settings, content: BackupManifest) -> list[tuple[str, str, str, str]]:
    """Setting, URL, schema, and file of each part that is in PostgreSQL."""
    parts = (
        ("database_url", settings.database_url, "public", "postgresql/control.dump"),
        ("metadata_url", settings.metadata_url, METADATA_SCHEMA, "postgresql/metadata.dump"),
        ("ledger_url", settings.ledger_url, LEDGERS_SCHEMA, "postgresql/ledgers.dump"),
    )
    names = {file.path for file in content.files}
    for setting, url, _, name in parts:
        if place_of(url) == POSTGRESQL and name not in names:
            raise ConfigError(f"the backup has no {name}, which {setting} is about: it was made without it; restore another one")
    return [part for part in parts if place_of(part[1]) == POSTGRESQL]


def _require_empty_schema(url: str, setting: str, schema: str) -> None:
    with closing(connected(url, setting)) as connection:
        row = connection.execute(
            "select count(*), current_setting('server_version_num')::int / 10000 from pg_class join pg_namespace on "
            "pg_namespace.oid = relnamespace where nspname = %s and relkind in ('r', 'v', 'S')",
            (schema,),
        ).fetchone()
    assert row is not None
    tables, server_version = row
    if tables:
        raise ConfigError(
            f"the schema {schema} in the PostgreSQL of {setting} is not empty: a backup is restored into a new database; name "
            "one, or drop the schema if nothing of it is needed"
        )
    require_tool("pg_restore", server_version)


def _load(url: str, setting: str, schema: str, dump: Path) -> None:
    with closing(connected(url, setting)) as connection:
        connection.execute(f"create schema if not exists {schema}".encode())
    run_tool(
        ["pg_restore", "--exit-on-error", "--single-transaction", "--no-owner", "--no-acl", f"--schema={schema}", str(dump)],
        url,
        setting,
    )


@contextmanager
def _restoring(data_path: Path) -> Iterator[None]:
    make_directory(data_path, mode=0o700)
    data_path.chmod(0o700)
    replace_file(
        data_path / RESTORING, b"a restore began here and did not end: empty this directory and restore again\n", durable=True
    )
    yield
    (data_path / RESTORING).unlink()
    sync_folder(data_path)


def _pass_over_ledger_ids(settings: Settings) -> None:
    def higher(stop: bytes) -> bytes:
        return str(int(stop) + LEDGER_IDS_PASSED_OVER).encode()

    if settings.metadata_url:
        with closing(connected(settings.metadata_url, "metadata_url")) as connection:
            table = f"{METADATA_SCHEMA}.value"
            row = connection.execute(f"select value from {table} where key = %s".encode(), (_LEDGER_ID_STOP,)).fetchone()
            if row is not None:
                connection.execute(
                    f"update {table} set value = %s where key = %s".encode(), (higher(bytes(row[0])), _LEDGER_ID_STOP)
                )
        return
    path = settings.data_path / "broker" / "meta.sqlite3"
    if path.exists():
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            _pass_over_in_file(db, higher)


def _pass_over_in_file(db: sqlite3.Connection, higher: Callable[[bytes], bytes]) -> None:
    row = db.execute("select value from value where key = ?", (_LEDGER_ID_STOP,)).fetchone()
    if row is not None:
        db.execute("update value set value = ? where key = ?", (higher(row[0]), _LEDGER_ID_STOP))
