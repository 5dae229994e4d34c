"""Takes a backup. While brokers run they are held for the moment that the backup is of; what is copied then is of that moment.

1. Each broker finishes the commit under way and begins no other.
2. Read transactions are begun in all databases.
3. The brokers go on. They remove no file of their log until all are copied.
4. Files and databases are copied, and the manifest is written last.

Where no broker runs, nothing changes: logs and data directory are locked, so that none can start meanwhile.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from controlplane.backup import last, manifest
from controlplane.backup.brokers import (
    HeldBrokers,
    brokers_of_the_fleet,
    log_folders,
    require_all,
    require_same_brokers,
    running_brokers,
)
from controlplane.backup.copies import Copies, sync_folder
from controlplane.backup.databases import DatabaseSnapshot, PostgresqlSnapshot, SqliteSnapshot
from controlplane.backup.drafts import new_draft, remove_abandoned
from controlplane.backup.manifest import (
    BACKUP_FORMAT,
    BOOKKEEPER,
    FORMAT_WITHOUT_BOOKIES,
    POSTGRESQL,
    BackupManifest,
    Formats,
    Kept,
    place_of,
)
from controlplane.supervisor import lock as supervisor_lock
from messaging.adminrpc.backup import BackupHeld
from messaging.settings import ConfigError, Settings
from messaging.storage.ledger_store import StoreError
from messaging.storage.local.device.disk import OsDisk
from messaging.storage.local.format import directory as log_directory
from messaging.storage.local.format.segment import parse_name
from messaging.storage.local.image import LogFile
from messaging.storage.postgresql.connection import SCHEMA as METADATA_SCHEMA
from messaging.storage.postgresql.ledgers.tables import SCHEMA as LEDGERS_SCHEMA
from messaging.version import VERSION

MIB_PER_S = 64.0
CONTROL_SCHEMA = "public"
_SMALL_FILES = ("format", "epoch", "manifest")
_DRAFTS = (".new", ".tmp", ".rewrite")


@dataclass
class _Databases:
    snapshots: list[DatabaseSnapshot] = field(default_factory=list)
    postgresql: dict[str, PostgresqlSnapshot] = field(default_factory=dict)  # by setting

    def one_moment(self) -> bool:
        """Whether messages and metadata are of one moment without holding anybody: one transaction reads both."""
        messages, metadata = self.postgresql.get("ledger_url"), self.postgresql.get("metadata_url")
        return messages is not None and messages is metadata


class _OnBookies(Protocol):
    """See `bookies.py`."""

    def check(self) -> None: ...
    def note(self, brokers: HeldBrokers) -> None: ...
    def copy(self, copies: Copies, bytes_per_s: float) -> None: ...


def take(settings: Settings, target: Path, *, with_secrets: bool = True, mib_per_s: float = MIB_PER_S) -> Path:
    """Makes a new directory below `target` and returns it. `mib_per_s`: how fast ledgers are read from bookies. Blocks as long as
    it takes. Raises `ConfigError` and `OSError`; nothing is left then."""
    if not (settings.data_path / "secrets").is_dir():
        raise ConfigError(f"{settings.data_path} is no data directory of a platform: choose one with --data-dir")
    target = target.absolute()
    if target.is_relative_to(settings.data_path.absolute()):
        raise ConfigError(f"{target} is inside the data directory: a backup there is lost with it; choose another place")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    began_s, backup_id = time.monotonic(), secrets.token_hex(8)
    remove_abandoned(target)
    with new_draft(target, backup_id) as draft:
        with ExitStack() as stack:
            databases = _open_databases(settings, stack)
            on_bookies = _on_bookies(settings)
            urls = running_brokers(settings)
            if on_bookies is not None:
                on_bookies.check()
            of_fleet = settings.shared_storage and not databases.one_moment()
            if of_fleet:
                urls = brokers_of_the_fleet(settings, urls)
            if not urls:
                stack.enter_context(_nobody_runs(settings))
                _require_no_others(databases)
            held_brokers = HeldBrokers(settings, urls, backup_id)
            copies = Copies(draft.folder)
            moment_ms, held_ms, held = _at_one_moment(held_brokers, databases, log_folders(settings.data_path))
            try:
                if on_bookies is not None:
                    on_bookies.note(held_brokers)
                if of_fleet:
                    require_same_brokers(settings, urls)
                _copy(settings, copies, databases, held, with_secrets)
                if on_bookies is not None:
                    on_bookies.copy(copies, mib_per_s * (1 << 20))
                held_brokers.end()
            except BaseException:
                held_brokers.give_up()
                raise
            migrations = [name for snapshot in databases.snapshots for name in snapshot.migrations()]
        done = _manifest(settings, backup_id, copies, migrations, held, bool(urls), moment_ms, held_ms, began_s, with_secrets)
        copies.sync_folders()
        manifest.write(draft.folder, done)
        final = _name(target, moment_ms)
        draft.become(final)
        sync_folder(target)
    with suppress(OSError):  # the backup is whole all the same; what is not noted is shown as unknown
        last.record(settings.data_path, last.LastBackup(moment_ms, str(final), done.size_bytes))
    return final


def _name(target: Path, moment_ms: int) -> Path:
    stem = datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("magnetar-%Y%m%dT%H%M%SZ")
    names = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    return next(target / name for name in names if not (target / name).exists())


def _open_databases(settings: Settings, stack: ExitStack) -> _Databases:
    databases, by_identity = _Databases(), dict[tuple[object, ...], PostgresqlSnapshot]()
    for setting, url, schema, file, name in (
        ("database_url", settings.database_url, CONTROL_SCHEMA, settings.data_path / "control" / "db.sqlite3", "control"),
        ("metadata_url", settings.metadata_url, METADATA_SCHEMA, settings.data_path / "broker" / "meta.sqlite3", "metadata"),
        ("ledger_url", settings.ledger_url, LEDGERS_SCHEMA, None, "ledgers"),
    ):
        if place_of(url) == POSTGRESQL:
            opened = PostgresqlSnapshot(url, setting)
            stack.callback(opened.close)
            snapshot = by_identity.setdefault(opened.identity, opened)
            snapshot.parts[schema] = f"postgresql/{name}.dump"
            databases.postgresql[setting] = snapshot
            if snapshot is opened:
                databases.snapshots.append(snapshot)
        elif file is not None and file.exists():
            of_file = SqliteSnapshot(file, str(file.relative_to(settings.data_path)))
            stack.callback(of_file.close)
            databases.snapshots.append(of_file)
    return databases


def _on_bookies(settings: Settings) -> _OnBookies | None:
    if place_of(settings.ledger_url) != BOOKKEEPER:
        return None
    from controlplane.backup.bookies import BookieLedgers

    return BookieLedgers(settings.ledger_url)


@contextmanager
def _nobody_runs(settings: Settings) -> Iterator[None]:
    """Nothing can start on the data directory meanwhile. Raises `ConfigError`."""
    with ExitStack() as stack:
        try:
            descriptor = supervisor_lock.acquire(str(settings.data_path), wait_s=0)
            stack.callback(os.close, descriptor)
            for folder in log_folders(settings.data_path):
                stack.callback(log_directory.lock(OsDisk(), folder).release)
        except (supervisor_lock.AlreadyRunning, StoreError) as error:
            raise ConfigError(
                f"the platform has no broker that is ready, but is in use, so it is starting or stopping: {error}; try again "
                "when it runs, or has stopped"
            ) from None
        yield


def _require_no_others(databases: _Databases) -> None:
    """Raises `ConfigError` if brokers that cannot be held from here write to two databases."""
    if databases.one_moment():
        return
    for setting in ("metadata_url", "ledger_url"):
        snapshot = databases.postgresql.get(setting)
        if snapshot is not None and snapshot.brokers_connected():
            raise ConfigError(
                f"a broker of another machine or data directory uses the PostgreSQL of {setting}: take the backup with its data "
                "directory, on its machine"
            )


def _at_one_moment(brokers: HeldBrokers, databases: _Databases, folders: Sequence[Path]) -> tuple[int, float, list[BackupHeld]]:
    """The moment, for how many milliseconds brokers were held, and what they said. Raises `ConfigError`; nobody is held then."""
    began_s = time.monotonic()
    try:
        held = [] if databases.one_moment() else brokers.hold()
        if held:
            require_all(folders, held)
        moment_ms = time.time_ns() // 1_000_000
        for snapshot in databases.snapshots:
            snapshot.begin()
        if held:
            brokers.go_on()
    except BaseException:
        brokers.give_up()
        raise
    return moment_ms, (time.monotonic() - began_s) * 1000 if held else 0.0, held


def _copy(settings: Settings, copies: Copies, databases: _Databases, held: Sequence[BackupHeld], with_secrets: bool) -> None:
    for snapshot in databases.snapshots:
        snapshot.write(copies)
    for broker in held:
        if broker.log:
            _copy_held_log(Path(broker.log), copies, settings.data_path, broker)
    if not held and not settings.ledger_url:
        for folder in log_folders(settings.data_path):
            _copy_idle_log(folder, copies, settings.data_path)
    for name in ("usage", "reports", *(("secrets", "tls") if with_secrets else ())):
        copies.copy_tree(settings.data_path / name, name, lambda path: path.name.endswith(_DRAFTS))


def _copy_held_log(folder: Path, copies: Copies, data_path: Path, broker: BackupHeld) -> None:
    name = folder.relative_to(data_path)
    for small, content in broker.small_files.items():
        copies.write(f"{name}/{small}", content.encode())
    for held in broker.files:
        file = LogFile(held.name, held.stop_bytes, held.size_bytes, held.sealed)
        copies.copy(folder / file.name, f"{name}/{file.name}", stop=file.stop_bytes, size=file.size_bytes, first_page=file.masked)


def _copy_idle_log(folder: Path, copies: Copies, data_path: Path) -> None:
    name = folder.relative_to(data_path)
    for path in sorted(folder.iterdir()):
        if path.name in _SMALL_FILES or parse_name(path.name) is not None:
            copies.copy(path, f"{name}/{path.name}")


def _manifest(
    settings: Settings,
    backup_id: str,
    copies: Copies,
    migrations: list[str],
    held: Sequence[BackupHeld],
    running: bool,
    moment_ms: int,
    held_ms: float,
    began_s: float,
    with_secrets: bool,
) -> BackupManifest:
    kept = Kept(*map(place_of, (settings.database_url, settings.metadata_url, settings.ledger_url)))
    backup_format = BACKUP_FORMAT if kept.messages == BOOKKEEPER else FORMAT_WITHOUT_BOOKIES
    return BackupManifest(
        magnetar_backup=backup_id,
        release=VERSION,
        formats=Formats(backup=backup_format, migrations=sorted(migrations)),
        kept=kept,
        brokers=len(held) if settings.ledger_url else len(log_folders(settings.data_path)),
        running=running,
        moment_ms=moment_ms,
        held_ms=round(held_ms, 3),
        took_ms=round((time.monotonic() - began_s) * 1000),
        with_secrets=with_secrets,
        files=copies.files,
    )
