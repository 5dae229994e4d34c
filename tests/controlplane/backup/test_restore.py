"""What a restore refuses, each with a reason and before anything is written."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane import datadir
from controlplane.backup import last, manifest
from controlplane.backup.restore import LEDGER_IDS_PASSED_OVER, restore, verify
from controlplane.backup.take import take
from controlplane.supervisor import lock
from messaging.settings import ConfigError, Settings
from messaging.storage.local import LocalLedgerStore
from messaging.storage.sqlite.meta_store import connect
from tests.support.storage.ledger_entries import append_all, read_all
from tests.support.storage.owning import started


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    """Of a platform that was stopped, with a log and metadata."""
    made = Settings(data_dir=str(tmp_path / "data"))
    datadir.prepare(made)
    store = LocalLedgerStore(made.broker_path / "log")
    fence = await started(store)
    await append_all(await store.create(fence, 7, {}), b"one", b"two")
    await store.stop()
    with closing(connect(made.broker_path / "meta.sqlite3")) as db:
        db.execute("insert into value values ('store/ledger-id-stop', ?)", (b"8",))
    return made


@pytest.fixture
def backup(settings: Settings, tmp_path: Path) -> Path:
    return take(settings, tmp_path / "backups")


def changed(backup: Path, change: Callable[[Any], None]) -> None:
    path = backup / manifest.NAME
    content = msgspec.json.decode(path.read_bytes())
    change(content)
    path.write_bytes(msgspec.json.encode(content))


def target(tmp_path: Path) -> Settings:
    return Settings(data_dir=str(tmp_path / "target"))


async def test_a_platform_that_was_stopped_comes_back(settings: Settings, backup: Path, tmp_path: Path) -> None:
    restored = target(tmp_path)
    content = restore(restored, backup)
    assert not content.running and content.held_ms == 0 and content.with_secrets
    for name in ("secrets/superuser.token", "secrets/token-signing.pem", "broker/log/format"):
        assert (restored.data_path / name).read_bytes() == (settings.data_path / name).read_bytes()
    assert datadir.loose_permissions(restored.data_path) == []
    with closing(sqlite3.connect(restored.broker_path / "meta.sqlite3")) as db:
        (stop,) = db.execute("select value from value where key = 'store/ledger-id-stop'").fetchone()
    assert int(stop) == 8 + LEDGER_IDS_PASSED_OVER  # an id that was given out since is not given to another message
    store = LocalLedgerStore(restored.broker_path / "log")
    await started(store)
    try:
        assert await read_all(await store.open(7), 1) == [b"one", b"two"]
    finally:
        await store.stop()


def test_it_is_noted_when_the_last_one_was_taken(settings: Settings, tmp_path: Path) -> None:
    assert last.read(settings.data_path) is None
    made = take(settings, tmp_path / "backups")
    noted = last.read(settings.data_path)
    assert noted is not None and noted.folder == str(made) and noted.moment_ms == manifest.read(made).moment_ms
    (settings.data_path / last.NAME).write_bytes(b"{")
    assert last.read(settings.data_path) is None


def test_a_directory_that_is_not_empty(settings: Settings, backup: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data is not empty \(broker, "):
        restore(settings, backup)
    (tmp_path / "target" / "lost+found").mkdir(parents=True)  # that of an empty disk is
    restore(target(tmp_path), backup)
    with pytest.raises(ConfigError, match="is not empty"):
        restore(target(tmp_path), backup)


def test_a_backup_that_is_not_whole(backup: Path, tmp_path: Path) -> None:
    (backup / manifest.NAME).unlink()
    with pytest.raises(ConfigError, match="no whole backup"):
        restore(target(tmp_path), backup)
    with pytest.raises(ConfigError, match="is no directory"):
        restore(target(tmp_path), tmp_path / "nothing")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("name", ["broker/log/segment-0000000001-0000.log", "broker/meta.sqlite3", "secrets/token-signing.pem"])
def test_every_damaged_file_is_noticed_before_anything_is_written(backup: Path, tmp_path: Path, name: str) -> None:
    content = bytearray((backup / name).read_bytes())
    content[100] ^= 1
    (backup / name).write_bytes(content)
    with pytest.raises(ConfigError, match=rf"is damaged: {name} does not match its checksum"):
        restore(target(tmp_path), backup)
    (backup / name).write_bytes(content[:50])
    with pytest.raises(ConfigError, match="has 50 bytes"):
        verify(backup)
    (backup / name).unlink()
    with pytest.raises(ConfigError, match="is missing"):
        verify(backup)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("content", [b"{}", b"not JSON", b'{"formats": {}, "release": "0.1.0"}', b"[1]", b"\xff\xfe"])
def test_something_else_than_a_backup(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / manifest.NAME).write_bytes(content)
    with pytest.raises(ConfigError, match="damaged, or of something else"):
        restore(target(tmp_path), tmp_path / "other")


@pytest.mark.parametrize("part", ["backup", "log", "metadata", "ledgers"])
def test_a_backup_of_a_newer_release(backup: Path, tmp_path: Path, part: str) -> None:
    changed(backup, lambda content: content["formats"].update({part: 99}) or content.update(release="9.0"))
    with pytest.raises(ConfigError, match=r"made by release 9\.0: .* has format 99, this release .* reads up to \d"):
        restore(target(tmp_path), backup)


def test_a_control_plane_with_tables_of_a_newer_release(backup: Path, tmp_path: Path) -> None:
    changed(backup, lambda content: content["formats"].update(migrations=["tenants.0001_initial", "tenants.9999_of_tomorrow"]))
    with pytest.raises(ConfigError, match=r"does not know \(tenants\.9999_of_tomorrow\)"):
        restore(target(tmp_path), backup)


@pytest.mark.parametrize("path", ["../outside", "/etc/outside", "broker/../../outside"])
def test_a_path_that_leads_out_of_the_backup(backup: Path, tmp_path: Path, path: str) -> None:
    changed(backup, lambda content: content["files"][0].update(path=path))
    with pytest.raises(ConfigError, match="is not inside the backup"):
        restore(target(tmp_path), backup)


def test_a_link_in_a_backup(backup: Path, tmp_path: Path) -> None:
    shutil.move(backup / "secrets", tmp_path / "secrets")
    (backup / "secrets").symlink_to(tmp_path / "secrets")
    with pytest.raises(ConfigError, match="is not inside the backup"):
        restore(target(tmp_path), backup)


def test_what_was_in_files_is_not_put_into_a_database_nor_the_other_way_round(backup: Path, tmp_path: Path) -> None:
    elsewhere = msgspec.structs.replace(target(tmp_path), metadata_url="postgresql://nowhere/x")
    with pytest.raises(ConfigError, match="restore it with metadata_url empty"):
        restore(elsewhere, backup)
    changed(backup, lambda content: content["kept"].update(messages="postgresql"))
    with pytest.raises(ConfigError, match="set MAGNETAR_LEDGER_URL"):
        restore(target(tmp_path), backup)


def test_a_restore_that_was_cut_off_is_not_started_on(backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_off(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("controlplane.backup.restore._pass_over_ledger_ids", cut_off)
    with pytest.raises(KeyboardInterrupt):
        restore(target(tmp_path), backup)
    with pytest.raises(ConfigError, match="did not end"):
        datadir.prepare(target(tmp_path))
    with pytest.raises(ConfigError, match="is not empty: a restore into it did not end; empty it"):
        restore(target(tmp_path), backup)


def test_a_backup_without_secrets(settings: Settings, tmp_path: Path) -> None:
    made = take(settings, tmp_path / "backups", with_secrets=False)
    content = restore(target(tmp_path), made)
    assert not content.with_secrets and not (tmp_path / "target" / "secrets").exists()
    assert not any("superuser" in file.path for file in content.files)


def test_what_cannot_be_backed_up(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is inside the data directory"):
        take(settings, settings.data_path / "backups")
    with pytest.raises(ConfigError, match="is no data directory"):
        take(target(tmp_path), tmp_path / "backups")
    descriptor = lock.acquire(settings.data_dir)  # a platform that has no broker yet
    try:
        with pytest.raises(ConfigError, match="starting or stopping"):
            take(settings, tmp_path / "backups")
    finally:
        os.close(descriptor)
    assert list((tmp_path / "backups").iterdir()) == []  # nothing half is left


def test_nothing_can_start_while_a_platform_that_is_stopped_is_copied(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[Exception] = []

    def begin(*arguments: object) -> None:
        try:
            lock.acquire(settings.data_dir, wait_s=0)
        except lock.AlreadyRunning as error:
            refused.append(error)

    monkeypatch.setattr("controlplane.backup.take._copy", begin)
    take(settings, tmp_path / "backups")
    assert len(refused) == 1


def test_a_backup_without_an_id(backup: Path) -> None:
    changed(backup, lambda content: content.update(magnetar_backup=""))
    with pytest.raises(ConfigError, match=r"backup\.json is damaged: the backup has no id"):
        verify(backup)
