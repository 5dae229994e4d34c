"""Backups that were taken and restored are in the audit log."""

from __future__ import annotations

import msgspec
import pytest

from controlplane import bootstrap
from controlplane.backup import audited, manifest
from controlplane.backup.manifest import FILES, BackupManifest, Formats, Kept
from messaging.identity import create_secrets
from messaging.settings import ConfigError, Settings
from tenants.models import AuditRecord

CONTENT = BackupManifest(
    magnetar_backup="b1",
    release="1.2.3",
    formats=Formats(migrations=[]),
    kept=Kept(FILES, FILES, FILES),
    brokers=1,
    running=True,
    moment_ms=1_767_225_600_000,
    held_ms=3.0,
    took_ms=4,
    with_secrets=False,
    files=[manifest.CopiedFile("broker/log/format", 10, 10, "0" * 64)],
)


def records() -> list[AuditRecord]:
    return list(AuditRecord.unscoped.filter(action__startswith="backup."))


def test_the_first_start_after_a_restore_records_it_once(db: None, tmp_path: object) -> None:
    settings = Settings(data_dir=str(tmp_path))
    create_secrets(settings)
    audited.note_restored(settings.data_path, CONTENT)
    bootstrap.create_first_rows(settings)
    bootstrap.create_first_rows(settings)
    audited.record_restored(settings)
    (record,) = records()
    assert (record.action, record.role, record.tenant, record.resource) == ("backup.restore", "service:cli", "", "platform")
    assert record.after == {
        "backup": "b1",
        "moment_ms": CONTENT.moment_ms,
        "release": "1.2.3",
        "size_bytes": 10,
        "with_secrets": False,
    }


def test_a_note_that_cannot_be_read_is_named(db: None, tmp_path: object) -> None:
    settings = Settings(data_dir=str(tmp_path))
    audited.note_restored(settings.data_path, CONTENT)
    path = settings.data_path / "control" / audited.NOTE
    path.write_bytes(msgspec.json.encode({"backup": "b1"}))
    with pytest.raises(ConfigError, match=r"restored\.json.*remove it"):
        audited.record_restored(settings)
    assert records() == []
