"""The metadata of a broker is gone, or older than its log: nothing of the log may go too."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from messaging.broker.runtime.main import start
from messaging.broker.runtime.storage_opening import StorageUnreachable
from messaging.identity import create_secrets
from messaging.settings import ConfigError, Settings
from messaging.storage.ledger_store import WHOLE
from messaging.storage.local.recover.inspect import repair
from tests.support.brokers.started_broker import opened
from tests.support.brokers.storage_broker import TOPIC, publish, stored_numbers


@pytest.mark.parametrize("emptied", [False, True])
async def test_a_log_without_its_metadata_is_left_alone(tmp_path: Path, emptied: bool) -> None:
    """It died of "ledger 2 exists"; where that ledger was gone, all the others would have been deleted as left behind."""
    settings = Settings(
        data_dir=str(tmp_path), broker_port=0, ws_port=0, broker_rpc_port=0, segment_bytes=1 << 20, reserved_bytes=1 << 20
    )
    create_secrets(settings)
    async with AsyncExitStack() as stack:
        await publish(await opened(settings, stack), 0, 5)
    files = sorted((tmp_path / "broker").glob("meta.sqlite3*"))
    assert files
    kept = tmp_path / "kept"
    kept.mkdir()
    for file in files:
        shutil.copy(file, kept)
        file.write_bytes(b"") if emptied else file.unlink()
    for _ in range(3):
        async with AsyncExitStack() as stack:
            with pytest.raises(ConfigError, match=r"meta\.sqlite3 does not belong to this log.*restore both"):
                await start(settings, stack)
        for file in (tmp_path / "broker").glob("meta.sqlite3*"):
            file.write_bytes(b"")
    for file in (tmp_path / "broker").glob("meta.sqlite3*"):
        file.unlink()
    for file in kept.iterdir():
        shutil.copy(file, tmp_path / "broker")
    async with AsyncExitStack() as stack:
        assert sorted(await stored_numbers(await opened(settings, stack))) == [*range(5)]


def backup(folder: Path, to: Path) -> None:
    to.mkdir()
    for file in folder.glob("meta.sqlite3*"):
        shutil.copy(file, to)


def restore(folder: Path, backup: Path) -> None:
    for file in folder.glob("meta.sqlite3*"):
        file.unlink()
    for file in backup.iterdir():
        shutil.copy(file, folder)


@pytest.mark.parametrize("stopped", [True, False], ids=["taken before a clean stop", "taken while it ran"])
async def test_metadata_of_an_older_backup_is_refused(tmp_path: Path, stopped: bool) -> None:
    """Ids were reserved by thousands, so it was accepted, and 15 s later what it did not know was deleted."""
    folder = tmp_path / "data"
    settings = Settings(
        data_dir=str(folder), broker_port=0, ws_port=0, broker_rpc_port=0, segment_bytes=1 << 20, reserved_bytes=1 << 20
    )
    folder.mkdir()
    create_secrets(settings)
    async with AsyncExitStack() as stack:
        service = await opened(settings, stack)
        await publish(service, 0, 5)
        backup(folder / "broker", tmp_path / "older")
        if not stopped:
            await publish(service, 5, 6, topic=f"{TOPIC}-new")
            left = tmp_path / "left"  # as a killed broker leaves it
            shutil.copytree(folder, left, ignore=shutil.ignore_patterns("lock"))
    if not stopped:
        settings = msgspec.structs.replace(settings, data_dir=str(left))
        folder = left
    restore(folder / "broker", tmp_path / "older")
    for _ in range(2):
        async with AsyncExitStack() as stack:
            with pytest.raises(ConfigError, match=r"does not belong to this log.*restore both.*--accept-metadata"):
                await start(settings, stack)
    repair(folder / "broker" / "log", accept_metadata=True)
    async with AsyncExitStack() as stack:
        service = await opened(settings, stack)
        assert sorted(await stored_numbers(service)) == [*range(5)]
        ledgers = set(await service.storage.ledgers.ledger_ids(WHOLE))
        await publish(service, 5, 6)
        assert ledgers <= set(await service.storage.ledgers.ledger_ids(WHOLE)), "new ones have ids of their own"
    async with AsyncExitStack() as stack:  # accepted once, not for good
        assert sorted(await stored_numbers(await opened(settings, stack))) == [*range(6)]
    restore(folder / "broker", tmp_path / "older")
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigError, match="does not belong to this log"):
            await start(settings, stack)


async def test_a_log_that_is_gone_is_not_begun_anew_beside_its_metadata(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=str(tmp_path), broker_port=0, ws_port=0, broker_rpc_port=0, segment_bytes=1 << 20, reserved_bytes=1 << 20
    )
    create_secrets(settings)
    async with AsyncExitStack() as stack:
        await publish(await opened(settings, stack), 0, 5)
    (tmp_path / "broker" / "log").rename(tmp_path / "kept")
    for _ in range(2):
        async with AsyncExitStack() as stack:
            with pytest.raises(ConfigError, match=r"does not belong to this log: the log is of generation \(none\)"):
                await start(settings, stack)
    shutil.rmtree(tmp_path / "broker" / "log")
    (tmp_path / "kept").rename(tmp_path / "broker" / "log")
    async with AsyncExitStack() as stack:
        assert sorted(await stored_numbers(await opened(settings, stack))) == [*range(5)]


async def test_metadata_in_postgresql_that_is_of_another_log_is_refused(tmp_path: Path, metadata_url: str) -> None:
    """As where two brokers are given one database: the second one would delete what it does not know."""
    first, second = (
        Settings(data_dir=str(tmp_path / name), broker_port=0, ws_port=0, broker_rpc_port=0, metadata_url=metadata_url)
        for name in ("first", "second")
    )
    for settings in (first, second):
        create_secrets(settings)
    async with AsyncExitStack() as stack:
        await publish(await opened(first, stack), 0, 5)
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigError, match=r"the metadata of metadata_url does not belong to this log.*restore both"):
            await start(second, stack)
    async with AsyncExitStack() as stack:
        assert sorted(await stored_numbers(await opened(first, stack))) == [*range(5)]


async def test_a_database_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=str(tmp_path), broker_port=0, ws_port=0, broker_rpc_port=0, metadata_url="postgresql://someone@127.0.0.1:1/none"
    )
    create_secrets(settings)
    async with AsyncExitStack() as stack:
        with pytest.raises(StorageUnreachable, match="PostgreSQL of metadata_url cannot be reached"):
            await start(settings, stack)
