"""The metadata of a broker is gone while its log is there: nothing of the log may go too."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from messaging.adminrpc.schema import FeedApply, FeedChange
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.main import start
from messaging.identity import create_secrets
from messaging.settings import ConfigError, Settings
from tests.support.storage_broker import NAMESPACE, publish, stored_numbers


async def opened(settings: Settings, stack: AsyncExitStack) -> Broker:
    service = await start(settings, stack)
    stack.push_async_callback(service.stop)
    if not service.access.view.version:
        changes = [
            FeedChange(version=1, kind="tenant", key="acme", state={"admin_roles": []}),
            FeedChange(version=2, kind="namespace", key=NAMESPACE, state={"policies": {}}),
        ]
        await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=2, full=True, changes=changes))
    return service


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
