"""What a backup says of itself: `backup.json`, written last, so that a backup without one is not whole.

backup.json     which release and formats, of which moment, and every file with its length and checksum
broker/...      the log of each broker, and the metadata of brokers
control/...     the database of the control plane
secrets/, tls/  keys; not in every backup
usage/, reports/
postgresql/     what is in PostgreSQL instead, as `pg_dump` writes it
bookkeeper/     the ledgers of messages on bookies (`messaging/storage/bookkeeper/backup/packs.py`)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from controlplane.migration_names import known_migrations
from messaging.atomic_files import replace_file
from messaging.bookkeeper_url import is_bookkeeper
from messaging.json_types import decoder_of
from messaging.settings import ConfigError
from messaging.storage.local.format.directory import FORMAT_VERSION as LOG_FORMAT
from messaging.storage.postgresql.ledgers.tables import FORMAT_VERSION as LEDGERS_FORMAT
from messaging.storage.sql.tables import FORMAT_VERSION as METADATA_FORMAT
from messaging.version import VERSION

NAME = "backup.json"
BACKUP_FORMAT = 2
FORMAT_WITHOUT_BOOKIES = 1  # which earlier releases know
READ_BYTES = 1 << 20
FILES = "files"
POSTGRESQL = "postgresql"
BOOKKEEPER = "bookkeeper"
MANIFEST_BYTES_MAX = 256 << 20


class CopiedFile(msgspec.Struct, frozen=True):
    """`path`: below the backup. The first `bytes` have the checksum, the rest up to `size` is zero."""

    path: str
    bytes: int
    size: int
    sha256: str


class Formats(msgspec.Struct, frozen=True):
    """Versions of what is stored. A part is read by the release that wrote it and by later ones that know its version."""

    backup: int = BACKUP_FORMAT
    log: int = LOG_FORMAT
    metadata: int = METADATA_FORMAT
    ledgers: int = LEDGERS_FORMAT
    migrations: list[str] = msgspec.field(default_factory=list)  # of the control plane's database, as app.name


class Kept(msgspec.Struct, frozen=True):
    """Where each part was kept, and so belongs again: `files`, `postgresql` or, messages, `bookkeeper`."""

    control: str
    metadata: str
    messages: str


def place_of(url: str) -> str:
    """Where a setting has its part."""
    if is_bookkeeper(url):
        return BOOKKEEPER
    return POSTGRESQL if url else FILES


class BackupManifest(msgspec.Struct, frozen=True):
    """`moment_ms`: what was confirmed until then is in the backup, nothing that came later. `brokers`: how many logs there are
    where messages are in files; elsewhere how many brokers were held, which those of one database need not be."""

    magnetar_backup: str  # the id of this backup, which says besides that the file is of this kind
    release: str
    formats: Formats
    kept: Kept
    brokers: int
    running: bool  # the brokers were running
    moment_ms: int
    held_ms: float  # for how long brokers held still
    took_ms: int
    with_secrets: bool
    files: list[CopiedFile]

    @property
    def size_bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def described(self) -> str:
        moment = datetime.fromtimestamp(self.moment_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        files = f"{len(self.files)} {'file' if len(self.files) == 1 else 'files'}"
        return (
            f"backup of {moment} UTC, release {self.release}: {files}, {self.size_bytes / 2**20:.1f} MiB, "
            f"{self._messages_described()}, taken in {self.took_ms / 1000:.1f} s"
        )

    def _messages_described(self) -> str:
        """Where they were, and who was held."""
        brokers = f"{self.brokers} {'broker' if self.brokers == 1 else 'brokers'}"
        held = f"held for {self.held_ms:.0f} ms"
        if self.kept.messages == FILES:
            return f"{'log' if self.brokers == 1 else 'logs'} of {brokers}, {held if self.held_ms else 'not held'}"
        where = "ledgers on bookies" if self.kept.messages == BOOKKEEPER else "messages in PostgreSQL"
        return f"{where}, {brokers} {held}" if self.held_ms else f"{where}, no broker was held"


class _Newer(msgspec.Struct):
    """The little that is read of a manifest whose format is not known."""

    formats: Formats
    release: str = ""


def write(folder: Path, manifest: BackupManifest) -> None:
    replace_file(folder / NAME, msgspec.json.format(msgspec.json.encode(manifest)), durable=True, mode=0o600)


def read(folder: Path) -> BackupManifest:
    """Raises `ConfigError` for what is no backup, or one that this release cannot read."""
    path = folder / NAME
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no directory: name that of a backup, which has a file {NAME}")
    if not path.exists():
        raise ConfigError(f"{folder} is no whole backup: it has no {NAME}, which is written last; choose another one")
    if path.stat().st_size > MANIFEST_BYTES_MAX:
        raise ConfigError(f"{path} has {path.stat().st_size} bytes, more than the {MANIFEST_BYTES_MAX} that are read")
    content = path.read_bytes()
    try:
        require_known(decoder_of(_Newer).decode(content))
        manifest = decoder_of(BackupManifest).decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is damaged, or of something else than a backup: {error}") from None
    if not manifest.magnetar_backup:
        raise ConfigError(f"{path} is damaged: the backup has no id")
    return manifest


def require_known(manifest: _Newer | BackupManifest) -> None:
    """Raises `ConfigError` for formats of a newer release."""
    formats, ours = manifest.formats, Formats()
    for what, theirs, known in (
        ("the backup itself", formats.backup, ours.backup),
        ("the log", formats.log, ours.log),
        ("the metadata", formats.metadata, ours.metadata),
        ("ledgers in PostgreSQL", formats.ledgers, ours.ledgers),
    ):
        if theirs > known:
            raise ConfigError(
                f"the backup was made by release {manifest.release}: {what} has format {theirs}, this release ({VERSION}) reads "
                f"up to {known}; restore it with that release or a later one"
            )
    unknown = sorted(set(formats.migrations) - known_migrations())
    if unknown:
        raise ConfigError(
            f"the backup was made by release {manifest.release}: its control plane has tables that this release ({VERSION}) does "
            f"not know ({', '.join(unknown[:3])}); restore it with that release or a later one"
        )


class Problem(NamedTuple):
    path: str
    says: str


def problems(folder: Path, manifest: BackupManifest) -> Iterator[Problem]:
    """Reads every file. A path that leads out of the backup is a problem, too."""
    for file in manifest.files:
        path = folder / file.path
        if not is_inside(folder, file.path):
            yield Problem(file.path, "is not inside the backup")
        elif not path.is_file():
            yield Problem(file.path, "is missing")
        elif path.stat().st_size < file.bytes:
            yield Problem(file.path, f"has {path.stat().st_size} bytes, {file.bytes} were copied")
        elif checksum(path, file.bytes) != file.sha256:
            yield Problem(file.path, "does not match its checksum")


def is_inside(folder: Path, path: str) -> bool:
    """Nothing of a backup is a link, so that none leads out of it."""
    parts = Path(path).parts
    if Path(path).is_absolute() or ".." in parts or not parts:
        return False
    return not any((folder / Path(*parts[: depth + 1])).is_symlink() for depth in range(len(parts)))


def checksum(path: Path, length: int) -> str:
    """SHA-256 of the first `length` bytes."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while length and (chunk := file.read(min(length, READ_BYTES))):
            digest.update(chunk)
            length -= len(chunk)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return digest.hexdigest()
