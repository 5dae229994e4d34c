"""Backups in the audit log of the platform: one that was taken at once, one that was put back by the first start after it.

A restore leaves a note instead of a record, so that it neither migrates the database that it has just loaded nor makes secrets that
are still to be put beside it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from controlplane.backup.manifest import BackupManifest
from messaging.atomic_files import make_directory, replace_file
from messaging.json_types import decoder_of
from messaging.settings import ConfigError, Settings

NOTE = "restored.json"  # in control/
ROLE = "service:cli"


class BackupFacts(msgspec.Struct, frozen=True):
    """What a record says."""

    backup: str
    moment_ms: int
    release: str
    size_bytes: int
    with_secrets: bool

    @classmethod
    def of(cls, content: BackupManifest) -> BackupFacts:
        return cls(content.magnetar_backup, content.moment_ms, content.release, content.size_bytes, content.with_secrets)


def record_taken(content: BackupManifest, folder: Path) -> None:
    """Django is set up. Raises what the database does."""
    _record("backup.take", BackupFacts.of(content), {"folder": str(folder)})


def note_restored(data_path: Path, content: BackupManifest) -> None:
    """Raises `OSError`."""
    make_directory(data_path / "control", mode=0o700)
    replace_file(data_path / "control" / NOTE, msgspec.json.encode(BackupFacts.of(content)), durable=True, mode=0o600)


def record_restored(settings: Settings) -> None:
    """Turns the note, if there is one, into a record. Django is set up, and the tables are there."""
    path = settings.data_path / "control" / NOTE
    try:
        facts = decoder_of(BackupFacts).decode(path.read_bytes())
    except FileNotFoundError:
        return
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}, which says which backup was restored, cannot be read ({error}): remove it") from None
    _record("backup.restore", facts, {})
    path.unlink()


def _record(action: str, facts: BackupFacts, more: dict[str, str]) -> None:
    from django.db import transaction

    from tenants.access import platform_actor
    from tenants.actions.change import record

    with transaction.atomic():
        record(platform_actor(ROLE), action, "", "platform", None, {**msgspec.structs.asdict(facts), **more})
