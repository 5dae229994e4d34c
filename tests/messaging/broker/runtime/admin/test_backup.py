"""A broker that is held for a backup: for how long, for whom, and what it says of its log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from messaging.adminrpc.backup import BackupHold, BackupKeep, BackupLedgers
from messaging.broker.runtime.admin import backup
from messaging.broker.runtime.admin.backup import BackupHandlers
from messaging.errors import Conflict, NotReady
from messaging.storage.local import LocalLedgerStore
from messaging.storage.local.device.disk import OsDisk
from tests.support.brokers.memory_broker import MemoryBroker
from tests.support.brokers.running_broker import running_broker
from tests.support.waiting import eventually

TOPIC = "persistent://public/default/orders"


async def test_what_is_published_waits_until_the_backup_has_noted_what_there_is(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        handlers = broker.admin.backup
        held = await handlers.hold(BackupHold(backup_id="1"))
        assert held.log == str(tmp_path / "broker" / "log") and held.files
        assert {file.name for file in held.files} <= set(OsDisk().names(tmp_path / "broker" / "log"))
        assert held.small_files.keys() == {"format", "epoch", "manifest"}
        publishing = asyncio.create_task(broker.sessions.round_trip())
        assert await asyncio.wait([publishing], timeout=0.1) == (set(), {publishing})
        await handlers.keep(BackupKeep(backup_id="1", keep_s=30))
        await asyncio.wait_for(publishing, 10)
        store = broker.service.storage.ledgers
        assert isinstance(store, LocalLedgerStore) and store.log.reclaimer.keeps_files
        await handlers.keep(BackupKeep(backup_id="1", keep_s=0))
        assert not store.log.reclaimer.keeps_files


async def test_one_backup_at_a_time(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        handlers = broker.admin.backup
        await handlers.hold(BackupHold(backup_id="1"))
        with pytest.raises(Conflict, match="another backup is under way"):
            await handlers.hold(BackupHold(backup_id="2"))
        with pytest.raises(NotReady, match="not known here any more"):
            await handlers.keep(BackupKeep(backup_id="2", keep_s=30))
        await handlers.keep(BackupKeep(backup_id="1", keep_s=0))
        await handlers.hold(BackupHold(backup_id="2"))
        await handlers.keep(BackupKeep(backup_id="2", keep_s=0))


async def test_a_backup_that_is_gone_holds_nobody_up_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path) as broker:
        handlers = broker.admin.backup
        with monkeypatch.context() as soon:
            soon.setattr(backup, "HOLD_S_MAX", 0.05)
            await handlers.hold(BackupHold(backup_id="1"))
        await asyncio.wait_for(broker.sessions.round_trip(), 10)
        with pytest.raises(NotReady, match="the broker was to be held for more than"):
            await handlers.keep(BackupKeep(backup_id="1", keep_s=30))
        await handlers.keep(BackupKeep(backup_id="1", keep_s=0))
        with monkeypatch.context() as soon:
            soon.setattr(backup, "FIRST_KEEP_S", 0.05)
            await handlers.hold(BackupHold(backup_id="2"))

        async def begin() -> bool:
            try:
                await handlers.hold(BackupHold(backup_id="3"))
            except Conflict:
                return False
            return True

        await eventually(begin)
        await handlers.keep(BackupKeep(backup_id="3", keep_s=0))


def test_a_store_that_cannot_be_held_says_so() -> None:
    broker = MemoryBroker()
    try:
        with pytest.raises(NotReady, match=r"docs/backup\.md"):
            broker.run(BackupHandlers(broker.service).hold(BackupHold(backup_id="1")))
    finally:
        broker.stop()


async def test_ledgers_are_told_of_where_they_are_on_bookies_alone(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        handlers = broker.admin.backup
        with pytest.raises(NotReady, match="not known here any more"):
            await handlers.ledgers(BackupLedgers(backup_id="1"))
        await handlers.hold(BackupHold(backup_id="1"))
        with pytest.raises(NotReady, match="no messages on bookies"):
            await handlers.ledgers(BackupLedgers(backup_id="1"))
        await handlers.keep(BackupKeep(backup_id="1", keep_s=0))
