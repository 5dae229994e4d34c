"""The metadata file on a disk that is full to the last byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.storage.disk_reserve import DiskReserve
from messaging.storage.ledger_store import WHOLE, DiskFull
from messaging.storage.sqlite.meta_store import SqliteMetaStore
from tests.support.small_disk import NotPermitted, small_disk


async def test_changes_go_on_and_the_next_start_too(tmp_path: Path) -> None:
    """Seen: a broker that unloaded topics on a full disk filled the write-ahead log, and its next start ended with code 1."""
    try:
        with small_disk(tmp_path / "disk", 16 << 20) as disk:
            reserve = DiskReserve(disk.path / "reserve", 2 << 20)
            assert reserve.fill()
            store = SqliteMetaStore(disk.path / "meta.sqlite3", reserve=reserve)
            await store.start()
            fence = await store.acquire(WHOLE)
            for number in range(50):
                await store.put_value(fence, f"key-{number}", bytes(1000))
            disk.fill()
            for number in range(2_000):  # 8 MiB of log, and 2 are kept
                await store.put_value(fence, f"key-{number % 50}", bytes([number % 256]) * 1000)
            await store.stop()
            disk.fill()
            again = SqliteMetaStore(disk.path / "meta.sqlite3", reserve=DiskReserve(reserve.path, 2 << 20))
            await again.start()
            assert (await again.acquire(WHOLE)).epoch == fence.epoch + 1
            assert await again.get_value("key-49") == bytes([1_999 % 256]) * 1000
            with pytest.raises(DiskFull):  # what needs new pages
                for number in range(1_000):
                    await again.put_value(await again.acquire(WHOLE), f"new-{number}", bytes(3000))
            assert await again.get_value("key-49") is not None
            await again.stop()
    except NotPermitted as error:
        pytest.skip(f"no small file system can be mounted here: {error}")
