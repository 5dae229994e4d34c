"""What a broker of several does when it stops: in which order, and what it takes until the end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.sql.ownership import SqlOwnershipStore
from tests.support.brokers.fleet import running_fleet, shared_broker
from tests.support.waiting import eventually

CONNECTIONS = 40


async def test_a_broker_that_stops_takes_no_connections_on_the_port_of_all(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, 2) as (stopping, staying):
        port = int(stopping.service.addresses.service_url.rpartition(":")[2])
        await stopping.service.before_stop[0]()
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
        await eventually(lambda: len(staying.service.peers.connections) >= CONNECTIONS)
        assert not stopping.service.peers.connections
        for _, writer in opened:
            writer.close()


async def test_others_take_over_only_once_the_cursors_are_closed(
    tmp_path: Path, metadata_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    stop, close = CursorLog.stop, SqlOwnershipStore.close_session

    async def stop_noted(cursors: CursorLog) -> None:
        await stop(cursors)
        order.append("cursors")

    async def close_noted(store: SqlOwnershipStore, broker_id: str, session: int) -> None:
        order.append("session")
        await close(store, broker_id, session)

    monkeypatch.setattr(CursorLog, "stop", stop_noted)
    monkeypatch.setattr(SqlOwnershipStore, "close_session", close_noted)
    async with shared_broker(tmp_path, metadata_url, 1):
        pass
    assert order == ["cursors", "session"]
