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
DEADLINE_S = 30.0


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


async def test_a_broker_that_stops_slowly_is_taken_for_alive_until_all_is_closed(
    tmp_path: Path, metadata_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others took over the bundles of one whose stop was longer than its lease, while it closed their topics."""
    renewed, order = asyncio.Event(), list[str]()
    renew, close = SqlOwnershipStore.renew_session, SqlOwnershipStore.close_session

    async def renew_noted(store: SqlOwnershipStore, broker_id: str, session: int) -> None:
        await renew(store, broker_id, session)
        order.append("renewed")
        renewed.set()

    async def close_noted(store: SqlOwnershipStore, broker_id: str, session: int) -> None:
        order.append("closed")
        await close(store, broker_id, session)

    async def slow() -> None:
        renewed.clear()
        async with asyncio.timeout(DEADLINE_S):
            await renewed.wait()

    monkeypatch.setattr(SqlOwnershipStore, "renew_session", renew_noted)
    monkeypatch.setattr(SqlOwnershipStore, "close_session", close_noted)
    async with shared_broker(tmp_path, metadata_url, 1) as broker:
        broker.service.before_stop.append(slow)
        broker.service.after_stop.append(slow)
    assert order[-1] == "closed" and order.count("renewed") >= 2
